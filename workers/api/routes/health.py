"""Health: whether the process lives, and whether it can work. It needs no API key and tells no secrets."""

from collections.abc import Callable
from typing import Literal

import redis
import structlog
from fastapi import APIRouter, Response
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.base import Frozen
from schemas.errors import Retryable, SchemaOutdated, SettingsError
from schemas.settings import Settings
from workers.api.api_route import ApiRoute
from workers.api.state import Api

log = structlog.get_logger(__name__)

router = APIRouter(tags=["health"], route_class=ApiRoute)

REDIS_SECONDS = 2.0

# `outdated`: its tables are of an earlier migration; `misconfigured`: its login is wrong or has wrong rights
ServiceState = Literal["ok", "unreachable", "outdated", "misconfigured"]


class Health(Frozen):
    """The process lives."""

    status: Literal["ok"] = "ok"


class Readiness(Frozen):
    """The state of the services that the HTTP API needs."""

    status: Literal["ready", "not ready"]
    postgres: ServiceState
    redis: ServiceState
    remedy: str | None = None
    """What to do, if there is something to do."""


# async: it answers even when every thread is busy
@router.get("/healthz", summary="Whether the process lives")
async def healthz() -> Health:
    """Answer as long as the process lives; needs neither Postgres nor Redis."""
    return Health()


@router.get(
    "/readyz",
    summary="Whether requests can be served",
    response_model_exclude_none=True,
    responses={503: {"model": Readiness, "description": "Something is missing; the log says why."}},
)
def readyz(api: Api, response: Response) -> Readiness:
    """Say whether Postgres answers and has the tables that are needed, and whether Redis answers.

    Without Redis messages are still accepted and contexts served: jobs wait in Postgres.
    """
    postgres, broker = _state_of(api.database.check), _state_of(lambda: _ping(api.settings))
    ready = postgres == broker == "ok"
    if not ready:
        response.status_code = 503
    return Readiness(
        status="ready" if ready else "not ready",
        postgres=postgres,
        redis=broker,
        remedy="run `backscroll db upgrade`" if postgres == "outdated" else None,
    )


def _ping(settings: Settings) -> None:
    assert settings.redis_url is not None  # noqa: S101 - the HTTP API does not start without one
    # a new connection: one of a pool says only that it worked before
    client = redis.Redis.from_url(
        settings.redis_url.get_secret_value(),
        socket_timeout=REDIS_SECONDS,
        socket_connect_timeout=REDIS_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
    with client:
        client.ping()


def _state_of(check: Callable[[], None]) -> ServiceState:
    state: ServiceState
    try:
        check()
    except SchemaOutdated as caught:
        state, error = "outdated", str(caught)
    except (SettingsError, redis.AuthenticationError) as caught:
        state, error = "misconfigured", str(caught)
    except (Retryable, redis.RedisError) as caught:
        state, error = "unreachable", str(caught)
    else:
        return "ok"
    log.warning("not_ready", state=state, error=error)
    return state
