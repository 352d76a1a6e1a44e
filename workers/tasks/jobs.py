"""The tasks that run jobs: `backscroll.embed` and others claim a batch of their kind, and repeat while there is more.

`backscroll.ingest` is in `tasks/ingest.py`, as it takes payloads as well.
"""

import contextlib
from typing import Any

from celery import Task, shared_task
from celery.worker.request import Request

from pipeline.jobs.runner import Outcome
from schemas.errors import JobsFailed
from schemas.kinds import INGEST, KINDS
from workers import resources

REASONS = 3
"""Number of different failure reasons that a result names."""


class ThreadRequest(Request):  # type: ignore[misc] # Celery ships no types
    """A task in a thread, which nothing can interrupt: a worker that is stopped lets it finish."""

    def cancel(self, *args: Any, **kwargs: Any) -> None:
        """Interrupt the task if its pool can."""
        with contextlib.suppress(NotImplementedError):
            super().cancel(*args, **kwargs)


def result_of(kind: str, outcome: Outcome) -> str:
    """Summarize a task's outcome for monitoring: `3 summarized, 1 failed: models.example answered 429`.

    Raises `JobsFailed` with the same words if nothing was done and something failed: a result shows one bad row of
    many, and a failed task means that nothing works. It is acknowledged all the same: the jobs are in the database.
    """
    if outcome.waits:
        return f"waits: {outcome.waits}"
    done = outcome.finished - outcome.passed_over
    named = [f"{why} ({count})" if count < outcome.failed else why for why, count in outcome.reasons.items()]
    counts = {KINDS[kind].done: done, "needed nothing": outcome.passed_over}
    summary = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if outcome.failed:
        more = f"; and {len(named) - REASONS} other reasons" if len(named) > REASONS else ""
        failed = f"{outcome.failed} failed: {'; '.join(named[:REASONS])}{more}"
        summary = f"{summary}, {failed}" if summary else failed
        if not done:
            raise JobsFailed(summary)
    return summary or "nothing was due"


def _register(kind: str) -> None:
    # expected: the log says why each job failed
    @shared_task(name=f"backscroll.{kind}", bind=True, Request=ThreadRequest, throws=(JobsFailed,))
    def do_jobs(self: Task) -> str:
        result = result_of(kind, resources.run(self.app, kind))
        progress = resources.progress(kind)
        return f"{result}; {progress}" if progress else result


for _kind in KINDS.keys() - {INGEST.name}:
    _register(_kind)
