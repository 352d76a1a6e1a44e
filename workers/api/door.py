"""What the endpoints work with, one of each for the process."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from pipeline.clients.protocols import Embedder, Reranker
from pipeline.store.database import Database
from schemas.settings import Settings
from workers.api.backlog import Backlog
from workers.api.hints import Hinter


@dataclass(frozen=True, kw_only=True)
class Door:
    """The tools of the door's process."""

    settings: Settings
    # in which requests are worked on
    threads: int
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


def door_of(request: Request) -> Door:
    """What the endpoint of this request works with."""
    door: Door = request.app.state.door
    return door


# async: a plain function would be sent to a thread for it
async def _held(request: Request) -> Door:
    return door_of(request)


HeldDoor = Annotated[Door, Depends(_held)]
