"""What a worker answers when it is asked over Redis, besides what Celery's own answer to."""

import time
from typing import Any

from celery.worker.control import inspect_command

CLOCK = "backscroll_clock"


@inspect_command(name=CLOCK)  # type: ignore[untyped-decorator] # Celery ships no types
def clock(_state: Any, **_: Any) -> dict[str, float]:
    """The time of day as the worker has it, in seconds since 1970."""
    return {"time": time.time()}
