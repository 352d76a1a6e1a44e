"""The tasks that do jobs: `backscroll.embed` and its like claim a batch of their kind, and go on while there is more.

`backscroll.ingest` is apart, in `tasks/ingest.py`: it takes payloads as well.
"""

import contextlib
from typing import Any

from celery import Task, shared_task
from celery.worker.request import Request

from schemas.kinds import INGEST, KINDS
from workers import resources


class ThreadRequest(Request):  # type: ignore[misc] # Celery ships no types
    """A task in a thread, which nothing can interrupt: a worker that is stopped lets it finish."""

    def cancel(self, *args: Any, **kwargs: Any) -> None:
        """Interrupt the task if its pool can."""
        with contextlib.suppress(NotImplementedError):
            super().cancel(*args, **kwargs)


def _register(kind: str) -> None:
    @shared_task(name=f"backscroll.{kind}", bind=True, Request=ThreadRequest)
    def do_jobs(self: Task) -> str | None:
        resources.run(self.app, kind)
        # Flower shows it as the task's result, which is kept nowhere else
        return resources.progress(kind)


for _kind in KINDS.keys() - {INGEST.name}:
    _register(_kind)
