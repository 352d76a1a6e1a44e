"""What endpoints take: the state of the process, and the tenant of one API key, sent as `Authorization: Bearer …`."""

import hmac
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.protocols import Reranker
from pipeline.llm.gateway import Gateway
from pipeline.store.database import Database
from schemas.settings import Settings
from workers.api.backlog import BacklogLimit
from workers.api.errors import HttpError
from workers.api.service_states import Service
from workers.api.wake_ups import Waker

_BEARER = HTTPBearer(auto_error=False, description="The value of BACKSCROLL_API_KEY.")

SECURED: dict[str, Any] = {"security": [{_BEARER.scheme_name: []}]}
"""The description of an endpoint that calls `authorize` itself."""


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
    # for questions, and chunks of documents
    embedders: SpaceEmbedders
    waker: Waker
    backlog: BacklogLimit
    postgres_state: Service
    redis_state: Service
    # for the best messages of a context, if one is configured
    reranker: Reranker | None = None
    # for hypothetical answers, if a language model is configured
    gateway: Gateway | None = None


# async: a plain function would be sent to a thread
async def _state(request: Request) -> ApiState:
    return state_of(request)


def state_of(request: Request) -> ApiState:
    """Return the state of the process, for an endpoint without dependencies."""
    state: ApiState = request.app.state.api
    return state


Api = Annotated[ApiState, Depends(_state)]


async def _authorize(
    api: Api, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
) -> str:
    return _tenant(api, credentials)


async def authorize(request: Request) -> str:
    """Return the tenant of the request's key, for an endpoint without dependencies. Raises `HttpError`."""
    return _tenant(state_of(request), await _BEARER(request))


def _tenant(api: ApiState, credentials: HTTPAuthorizationCredentials | None) -> str:
    if credentials is None:
        raise _unauthorized("There is no API key: send it as `Authorization: Bearer …`.")
    given = credentials.credentials.encode("utf-8", "surrogatepass")
    # in a time that does not depend on where they differ
    if not hmac.compare_digest(given, api.api_key.encode("utf-8", "surrogatepass")):
        raise _unauthorized("The API key is not the BACKSCROLL_API_KEY of this deployment.")
    return api.settings.tenant


def _unauthorized(detail: str) -> HttpError:
    return HttpError(401, "unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="backscroll"'})


# The tenant of the caller's key.
Tenant = Annotated[str, Depends(_authorize)]
