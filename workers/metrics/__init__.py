"""The process that serves `/metrics` for Prometheus; see `workers.metrics.__main__`."""
