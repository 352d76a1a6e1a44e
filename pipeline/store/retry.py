"""Makes a transaction anew that Postgres chose to end a deadlock."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from schemas.errors import Retryable

T = TypeVar("T")

ATTEMPTS = 3
"""How often a transaction is made in all before its sender is told to come again."""


def persistently(act: Callable[[], T]) -> T:
    """What `act` returns, made anew when Postgres chose its transaction to end a deadlock.

    An outage (any subclass of `Retryable`) is raised at once: waiting for it is the sender's part.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return act()
        except Retryable as error:
            if type(error) is not Retryable:
                raise
            # two victims of one another must not meet again in step
            time.sleep(random.uniform(0, 0.05 * attempt))  # noqa: S311
    return act()
