"""The processes: Celery workers, beat, and the HTTP API."""

import gc

# A process begins by making a million objects that stay: with the default thresholds, garbage collections that find
# nothing were a seventh of its start.
gc.set_threshold(50_000, 10, 10)
