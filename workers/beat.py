"""What runs by the clock: the sweep every few seconds, pruning every hour."""

from typing import Any

from schemas.settings import Settings
from workers.queues import BACKFILL

PRUNE_SECONDS = 3600.0


def schedule(settings: Settings) -> dict[str, Any]:
    """Celery beat's schedule.

    No entry expires: the clock that calls and the clock of the worker may differ, and a worker that is ahead
    would throw every sweep away. What has piled up after an outage is dropped by `tasks/sweep.py`.
    """
    return {
        "sweep": {
            "task": "backscroll.sweep",
            "schedule": settings.sweep_seconds,
            "options": {"queue": BACKFILL.full_name},
        },
        "prune": {
            "task": "backscroll.prune",
            "schedule": PRUNE_SECONDS,
            "options": {"queue": BACKFILL.full_name},
        },
    }
