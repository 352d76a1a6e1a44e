"""The processes: Celery workers, beat, and the HTTP API."""

import gc

# A process starts by creating a million lasting objects: with the default thresholds, garbage collections that find
# nothing took a seventh of its start.
gc.set_threshold(50_000, 10, 10)
