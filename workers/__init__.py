"""The processes that run: Celery workers, beat, and the HTTP door."""
