"""`backscroll.sweep`: close idle sessions, and hint at whatever is owed and unclaimed."""

import math

import structlog
from celery import Celery, Task, shared_task

from pipeline.operations import sweep as pipeline_sweep
from workers import connection, queues, resources
from workers.threads import ThreadRequest

log = structlog.get_logger(__name__)

# When more sweeps than these wait, those of an outage, one that comes to its turn is left.
PILED_UP = 10
# Nothing hints more often than each worker of a queue can claim twice.
COUNTED = max(2 * queue.concurrency * queue.batch for queue in queues.OF_KIND.values())


@shared_task(name=connection.SWEEP, bind=True, Request=ThreadRequest, send_events=False)
def sweep(self: Task) -> None:
    """Look over everything once.

    A queue gets hints while it is shorter than twice its workers: more would only wait, fewer would leave
    workers idle. Nothing remembers what was hinted, so nothing can be remembered wrongly.
    """
    # After an outage one sweep is enough, not all that were called for: the last ones of them are left.
    if queues.length(self.app, queues.SWEEP.full_name) > PILED_UP:
        return
    if redated := connection.redate_unacknowledged(self.app):
        log.warning("clock_ahead", tasks=redated, remedy="set the clocks of the workers' machines")
    with resources.waiting():
        _sweep(self.app, resources.current())
    queues.note_sweep(self.app)


def _sweep(app: Celery, held: resources.Resources) -> None:
    swept = pipeline_sweep.sweep(held.database, held.rules, held.settings.job_max_attempts, COUNTED)
    # a queue may serve several kinds, and a backfill can wait
    for kind, due in sorted(swept.due.items(), key=lambda item: (item[0] == "backfill", item[0])):
        queue = queues.OF_KIND.get(kind)
        if queue is None:
            log.warning("work_of_unknown_kind", kind=kind, rows=due)
            continue
        room = 2 * queue.concurrency - queues.length(app, queue.full_name)
        queues.hint(app, kind, max(0, min(room, math.ceil(due / queue.batch))))
    if swept.sessions_closed or swept.given_up:
        log.info("swept", closed=swept.sessions_closed, given_up=swept.given_up)
