"""The tasks that do jobs: `backscroll.embed` and its like claim a batch of their kind, and go on while there is more.

`backscroll.ingest` is apart, in `tasks/ingest.py`: it takes payloads as well.
"""

import contextlib
from typing import Any

from celery import Task, shared_task
from celery.worker.request import Request

from pipeline.jobs.runner import Outcome
from schemas.errors import JobsFailed
from schemas.kinds import INGEST, KINDS
from workers import resources


class ThreadRequest(Request):  # type: ignore[misc] # Celery ships no types
    """A task in a thread, which nothing can interrupt: a worker that is stopped lets it finish."""

    def cancel(self, *args: Any, **kwargs: Any) -> None:
        """Interrupt the task if its pool can."""
        with contextlib.suppress(NotImplementedError):
            super().cancel(*args, **kwargs)


def result_of(outcome: Outcome) -> dict[str, Any]:
    """Return what a task did, for those who watch tasks: it is kept nowhere else.

    Raises `JobsFailed` if some of its jobs failed, which is recorded by then: the task is acknowledged all the same.
    """
    counts: dict[str, Any] = {"done": outcome.finished, "failed": outcome.failed}
    if outcome.failed:
        raise JobsFailed(f"{counts}: see `backscroll jobs list`, and the log of this worker")
    return counts | ({"waits": "see the log of this worker"} if outcome.waits else {})


def _register(kind: str) -> None:
    # expected: the log has why each job failed
    @shared_task(name=f"backscroll.{kind}", bind=True, Request=ThreadRequest, throws=(JobsFailed,))
    def do_jobs(self: Task) -> dict[str, Any]:
        result = result_of(resources.run(self.app, kind))
        progress = resources.progress(kind)
        return result | ({"progress": progress} if progress else {})


for _kind in KINDS.keys() - {INGEST.name}:
    _register(_kind)
