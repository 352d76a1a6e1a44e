"""`backscroll.prune`: delete expired data, tenant by tenant."""

import structlog
from celery import Task, shared_task

from pipeline.operations.retention import prune_all, retention_of
from schemas.errors import BackscrollError
from workers import resources
from workers.queues import BACKFILL

log = structlog.get_logger(__name__)


@shared_task(name="backscroll.prune", bind=True)
def prune(self: Task, after: str = "") -> str:
    """Prune the tenants after `after` by the settings; a new task continues with those left when time is up.

    Returns a summary of the deletions. Raises `BackscrollError` at the end if tenants could not be pruned.
    """
    with resources.waiting():
        held = resources.current()
        done = prune_all(held.database, retention_of(held.settings), after=after)
        for tenant_id, pruned in done.rows.items():
            if any(pruned.values()):
                log.info("pruned", tenant=tenant_id, **pruned)
        if done.stopped_at is not None:
            self.apply_async([done.stopped_at], queue=BACKFILL.full_name, retry=False)
        if done.failed:
            first, reason = next(iter(done.failed.items()))
            raise BackscrollError(
                f"{len(done.failed)} tenants could not be pruned, the others were; of {first}: {reason}"
            )
        deleted = sum(sum(pruned.values()) for pruned in done.rows.values())
        return f"{deleted} rows of {len(done.rows)} tenants pruned"
    return "waits: see the log of this worker"
