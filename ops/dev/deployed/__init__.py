"""A deployment of its own, for chaos runs and benchmarks: shipped processes, with faults that may be made."""
