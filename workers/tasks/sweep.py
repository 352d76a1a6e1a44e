"""`backscroll.sweep`: close idle sessions, and wake the workers of due jobs that nobody has claimed."""

import math

import structlog
from celery import Celery, Task, shared_task

from pipeline.operations import sweep as pipeline_sweep
from workers import connection, envelope, queues, resources
from workers.tasks.jobs import ThreadRequest

log = structlog.get_logger(__name__)

# If more sweeps wait, as after an outage, a sweep is skipped.
MAX_WAITING_SWEEPS = 10
# No kind needs more wake-ups than two for each worker of its queue.
COUNT_UP_TO = max(2 * queue.concurrency * queue.batch for queue in queues.OF_KIND.values())


@shared_task(name=envelope.SWEEP, bind=True, Request=ThreadRequest, send_events=False)
def sweep(self: Task) -> None:
    """Sweep everything once.

    A kind gets wake-ups while it has fewer than two for each worker of its queue: more would only wait, fewer would
    leave workers idle. Wake-ups are not recorded, so no record can be wrong.
    """
    if queues.length(self.app, queues.SWEEP.full_name) > MAX_WAITING_SWEEPS:
        return
    if redated := connection.redate_unacknowledged(self.app):
        log.warning("clock_ahead", tasks=redated, remedy="set the clocks of the workers' machines")
    with resources.waiting():
        _sweep(self.app, resources.current())
    queues.note_sweep(self.app)


def _sweep(app: Celery, held: resources.Resources) -> None:
    swept = pipeline_sweep.sweep(held.database, held.rules, held.settings.job_max_attempts, COUNT_UP_TO)
    # a queue may serve several kinds, and a backfill can wait
    for kind, due in sorted(swept.due.items(), key=lambda item: (item[0] == "backfill", item[0])):
        queue = queues.OF_KIND.get(kind)
        if queue is None:
            log.warning("job_of_unknown_kind", kind=kind, rows=due)
            continue
        if held.settings.switched_off(kind):
            continue
        room = 2 * queue.concurrency - queues.waiting(app, kind)
        queues.wake_up(app, kind, max(0, min(room, math.ceil(due / queues.batch_of(kind, held.settings)))))
    if swept.sessions_closed or swept.given_up:
        log.info("swept", closed=swept.sessions_closed, given_up=swept.given_up)
