"""The state of the queues and workers, for `backscroll status` and `doctor`."""

import time
from dataclasses import dataclass, field
from typing import Any

from ops import connection
from schemas.settings import Settings

# Live workers answer within milliseconds.
ANSWER_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class QueueStatus:
    """The queues at one moment."""

    # why Redis cannot be asked; None if it answered
    problem: str | None = None
    # waiting tasks by queue
    queues: dict[str, int]
    # payloads of bots that could not be accepted
    refused: int = 0
    # the workers that answered, by queue; None if they were not asked
    workers: dict[str, list[str]] | None = None
    # seconds by which each worker's clock is certainly ahead of this machine's
    clocks: dict[str, float] = field(default_factory=dict)
    # None: no sweep within a day
    swept_seconds_ago: float | None = None


def look(settings: Settings, *, workers: bool) -> QueueStatus:
    """Ask Redis for the lengths of the queues and, with `workers`, all workers for theirs (takes a second)."""
    from kombu.exceptions import OperationalError

    from workers.queues import DEAD, QUEUES, length, seconds_since_sweep

    if settings.redis_url is None:
        return QueueStatus(problem="BACKSCROLL_REDIS_URL is not set", queues={})
    clocks: dict[str, float] = {}
    app = connection.open_queue(settings)
    try:
        lengths = {name: length(app, queue.full_name) for name, queue in QUEUES.items()}
        refused = length(app, DEAD)
        swept = seconds_since_sweep(app)
        serving: dict[str, list[str]] | None = None
        if workers:
            answers = app.control.inspect(timeout=ANSWER_SECONDS).active_queues() or {}
            serving = {
                name: sorted(
                    worker for worker, its in answers.items() if queue.full_name in {q["name"] for q in its}
                )
                for name, queue in QUEUES.items()
            }
            clocks = _clocks(app, list(answers))
    except OperationalError as error:
        return QueueStatus(problem=str(error), queues={})
    finally:
        app.close()
    return QueueStatus(
        queues=lengths, refused=refused, workers=serving, clocks=clocks, swept_seconds_ago=swept
    )


def _clocks(app: Any, workers: list[str]) -> dict[str, float]:
    """Ask workers for the time; those of an earlier version do not answer."""
    from workers.control import CLOCK

    if not workers:
        return {}
    before = time.time()
    told = app.control.broadcast(
        CLOCK, destination=workers, reply=True, timeout=ANSWER_SECONDS, limit=len(workers)
    )
    after = time.time()
    answers = {name: answer["time"] for each in told for name, answer in each.items() if "time" in answer}
    return {name: at - min(max(at, before), after) for name, at in answers.items()}
