"""What runs by the clock: the sweep every few seconds, pruning every hour."""

from typing import Any

from schemas.settings import Settings
from workers.queues import BACKFILL

PRUNE_SECONDS = 3600.0


def schedule(settings: Settings) -> dict[str, Any]:
    """Celery beat's schedule.

    An entry expires when the next one is due: after an outage one sweep is enough, not a hundred.
    """
    return {
        "sweep": {
            "task": "backscroll.sweep",
            "schedule": settings.sweep_seconds,
            "options": {"queue": BACKFILL.full_name, "expires": max(5.0, 2 * settings.sweep_seconds)},
        },
        "prune": {
            "task": "backscroll.prune",
            "schedule": PRUNE_SECONDS,
            "options": {"queue": BACKFILL.full_name, "expires": PRUNE_SECONDS},
        },
    }
