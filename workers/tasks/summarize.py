"""`backscroll.summarize`: summarize the sessions that are owed it."""

import contextlib
from typing import Any

from celery import Task, shared_task
from celery.worker.request import Request

from workers import resources


class ThreadRequest(Request):  # type: ignore[misc] # Celery ships no types
    """A task in a thread, which nothing can interrupt: a worker that is told to end lets it finish."""

    def cancel(self, *args: Any, **kwargs: Any) -> None:
        """Interrupt the task if its pool can."""
        with contextlib.suppress(NotImplementedError):
            super().cancel(*args, **kwargs)


@shared_task(name="backscroll.summarize", bind=True, Request=ThreadRequest)
def summarize(self: Task) -> None:
    """Claim a batch of sessions and write what they were about."""
    resources.run(self.app, "summarize", resources.current().summarizer)
