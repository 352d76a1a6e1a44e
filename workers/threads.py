"""Tasks that run in a worker's threads."""

import contextlib
from typing import Any

from celery.worker.request import Request


class ThreadRequest(Request):  # type: ignore[misc] # Celery ships no types
    """A task in a thread, which nothing can interrupt: a worker that is told to end lets it finish."""

    def cancel(self, *args: Any, **kwargs: Any) -> None:
        """Interrupt the task if its pool can."""
        with contextlib.suppress(NotImplementedError):
            super().cancel(*args, **kwargs)
