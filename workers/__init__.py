"""The processes: Celery workers, beat, and the HTTP API."""
