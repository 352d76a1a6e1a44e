"""What the endpoints work with, one of each for the process."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from pipeline.clients.protocols import Embedder, Reranker
from pipeline.store.database import Database
from schemas.errors import Retryable
from schemas.settings import Settings
from workers.web.backlog import Backlog
from workers.web.hints import Hinter

T = TypeVar("T")

ATTEMPTS = 3
"""How often a transaction is made in all before its sender is told to come again."""


@dataclass(frozen=True, kw_only=True)
class Door:
    """The tools of the door's process."""

    settings: Settings
    # what callers must know
    api_key: str
    # as the role that sees one tenant at a time
    database: Database
    # of questions
    embedder: Embedder
    hinter: Hinter
    backlog: Backlog
    # reads the best messages of a context once more, where one is set
    reranker: Reranker | None = None


def _held(request: Request) -> Door:
    door: Door = request.app.state.door
    return door


HeldDoor = Annotated[Door, Depends(_held)]


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
