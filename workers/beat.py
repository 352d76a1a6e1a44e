"""Beat's schedule: the sweep every few seconds, pruning every hour."""

from datetime import datetime
from typing import Any

from celery.schedules import schedstate
from celery.schedules import schedule as interval

from schemas.settings import Settings
from workers import envelope
from workers.queues import BACKFILL, SWEEP

PRUNE_SECONDS = 3600.0


class Every(interval):  # type: ignore[misc] # Celery ships no types
    """An interval that survives a clock set back: Celery's own would stop until the clock has caught up."""

    def is_due(self, last_run_at: datetime) -> schedstate:
        """Return whether the entry is due, and the seconds until the next check."""
        if self.maybe_make_aware(last_run_at) > self.maybe_make_aware(self.now()):
            return schedstate(is_due=True, next=self.seconds)
        return super().is_due(last_run_at)


def schedule(settings: Settings) -> dict[str, Any]:
    """Return Celery beat's schedule.

    No entry expires: a worker whose clock is ahead of beat's would drop every sweep. `tasks/sweep.py` skips those that
    have piled up after an outage.
    """
    return {
        "sweep": {
            "task": envelope.SWEEP,
            "schedule": Every(settings.sweep_seconds),
            "options": {"queue": SWEEP.full_name},
        },
        "prune": {
            "task": envelope.PRUNE,
            "schedule": Every(PRUNE_SECONDS),
            "options": {"queue": BACKFILL.full_name},
        },
    }
