"""Celery tasks: thin shells over the pipeline, harmless to run twice."""
