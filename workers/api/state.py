"""What the endpoints work with, one of each per process."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from pipeline.clients.protocols import Embedder, Reranker
from pipeline.store.database import Database
from schemas.settings import Settings
from workers.api.backlog import BacklogLimit
from workers.api.wake_ups import Waker


@dataclass(frozen=True, kw_only=True)
class ApiState:
    """The resources of a process of the HTTP API."""

    settings: Settings
    # that work on requests
    threads: int
    # that callers must send
    api_key: str
    # as the role that sees one tenant at a time
    database: Database
    # for questions
    embedder: Embedder
    waker: Waker
    backlog: BacklogLimit
    # for the best messages of a context, if one is configured
    reranker: Reranker | None = None


# async: a plain function would be sent to a thread
async def _state(request: Request) -> ApiState:
    return state_of(request)


def state_of(request: Request) -> ApiState:
    """The state of the process, for an endpoint without dependencies."""
    state: ApiState = request.app.state.api
    return state


Api = Annotated[ApiState, Depends(_state)]
