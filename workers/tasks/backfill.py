"""`backscroll.backfill`: one window of each running backfill."""

from celery import Task, shared_task

from workers import resources


@shared_task(name="backscroll.backfill", bind=True)
def backfill(self: Task) -> None:
    """Claim a running backfill, do a window of it, and go on while there is more."""
    resources.run(self.app, "backfill", resources.current().backfiller)
