"""Providers of models for tests: real HTTP servers on this machine, with the faults of real ones."""
