"""`backscroll.summarize`: summarize the sessions that are owed it."""

from celery import Task, shared_task

from workers import resources
from workers.threads import ThreadRequest


@shared_task(name="backscroll.summarize", bind=True, Request=ThreadRequest)
def summarize(self: Task) -> None:
    """Claim a batch of sessions and write what they were about."""
    resources.run(self.app, "summarize", resources.current().summarizer)
