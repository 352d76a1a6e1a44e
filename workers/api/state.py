"""Parameters of endpoints: the state of the process, and the tenant of the caller's API key."""

from asyncio import Semaphore
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Self

from anyio import CapacityLimiter
from fastapi import Depends, Request

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.protocols import Reranker
from pipeline.llm.gateway import Gateway
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from workers.api.admission import Caller, RequestRates, caller_of
from workers.api.backlog import BacklogLimit
from workers.api.inspector.cookie import Seal
from workers.api.keyring import Keyring
from workers.api.service_states import Service
from workers.api.wake_ups import Waker


@dataclass(frozen=True, kw_only=True)
class ApiState:
    """The resources of a process of the HTTP API."""

    settings: Settings
    # that work on requests
    threads: int
    keyring: Keyring
    # of the inspector's cookies
    seal: Seal
    request_rates: RequestRates
    # as the role that sees one tenant at a time
    database: Database
    # for questions, and chunks of documents
    embedders: SpaceEmbedders
    waker: Waker
    backlog: BacklogLimit
    # turns of large bodies to be in memory
    large_bodies: Semaphore
    # threads that parse them, beside those of other requests
    large_parses: CapacityLimiter
    # threads for whoever has no key, who could occupy all others
    open_routes: CapacityLimiter
    postgres_state: Service
    redis_state: Service
    # for the best messages of a context, if one is configured
    reranker: Reranker | None = None
    # for hypothetical answers, if a language model is configured
    gateway: Gateway | None = None

    def for_chats(self, chats: Collection[str] | None) -> Self:
        """Return the state for a caller who may name these chats; None: all."""
        return self if chats is None else replace(self, database=self.database.for_chats(chats))


# async: a plain function would be sent to a thread
async def _state(request: Request) -> ApiState:
    return state_of(request)


def state_of(request: Request) -> ApiState:
    """Return the state of the process for the caller of a request, for an endpoint without dependencies."""
    state: ApiState = request.app.state.api
    caller: Caller | None = getattr(request.state, "caller", None)
    return state if caller is None else state.for_chats(caller.key.chats)


Api = Annotated[ApiState, Depends(_state)]


async def _tenant(request: Request) -> str:
    # the chat named in a body is checked before the endpoint begins
    return caller_of(request).key.tenant


# The tenant of the caller's key.
Tenant = Annotated[str, Depends(_tenant)]


async def _caller(request: Request) -> Caller:
    return caller_of(request)


ByCaller = Annotated[Caller, Depends(_caller)]
