"""What Redis and the workers say of themselves, for `backscroll status`."""

import time
from dataclasses import dataclass, field
from typing import Any

from ops import connection
from schemas.settings import Settings

# Workers that are alive answer within milliseconds.
ANSWER_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Broker:
    """The queues at one moment."""

    # why Redis cannot be asked; none: it answered
    problem: str | None = None
    # tasks that wait, by queue
    queues: dict[str, int]
    # payloads of bots that could not be accepted
    refused: int = 0
    # the workers that answered, by queue; none: they were not asked
    workers: dict[str, list[str]] | None = None
    # seconds by which each of them is ahead of this machine, as far as the way of its answer leaves that sure
    clocks: dict[str, float] = field(default_factory=dict)
    # since the last sweep; none: there was none within a day
    swept_seconds_ago: float | None = None


def look(settings: Settings, *, workers: bool) -> Broker:
    """Ask Redis for the queues' lengths and, with `workers`, every worker what it serves (takes a second)."""
    from kombu.exceptions import OperationalError

    from workers.queues import DEAD, QUEUES, length, seconds_since_sweep

    if settings.redis_url is None:
        return Broker(problem="BACKSCROLL_REDIS_URL is not set", queues={})
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
        return Broker(problem=str(error), queues={})
    finally:
        app.close()
    return Broker(queues=lengths, refused=refused, workers=serving, clocks=clocks, swept_seconds_ago=swept)


def _clocks(app: Any, workers: list[str]) -> dict[str, float]:
    """Ask these workers what time it is. One of an earlier version does not know the question."""
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
