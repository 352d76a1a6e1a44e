"""Whether the door lives, and whether it can work; asked without an API key, answered without secrets."""

from typing import Literal

import redis
import structlog
from fastapi import APIRouter, Response
from pydantic import BaseModel
from redis.backoff import NoBackoff
from redis.retry import Retry

from pipeline.store.database import Database
from schemas.errors import Retryable, SchemaOutdated, SettingsError
from schemas.settings import Settings
from workers.api.door import HeldDoor

log = structlog.get_logger(__name__)

router = APIRouter(tags=["health"])

REDIS_SECONDS = 2.0

# `outdated`: its tables are of an earlier migration; `misconfigured`: its login is not as it must be
State = Literal["ok", "unreachable", "outdated", "misconfigured"]


class Health(BaseModel):
    """The process lives."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """What the door needs, and in which state each is."""

    status: Literal["ready", "not ready"]
    postgres: State
    redis: State
    # what to do, where somebody has to do something
    remedy: str | None = None


# async: it answers even when every thread is busy
@router.get("/healthz", summary="Whether the process lives")
async def healthz() -> Health:
    """Answers as long as the process does; needs neither Postgres nor Redis."""
    return Health()


@router.get(
    "/readyz",
    summary="Whether requests can be served",
    response_model_exclude_none=True,
    responses={503: {"model": Readiness, "description": "Something is missing; the log says why."}},
)
def readyz(door: HeldDoor, response: Response) -> Readiness:
    """Postgres answers and has the tables that are needed, and Redis answers.

    Without Redis messages are still accepted and contexts served: what is owed waits in Postgres.
    """
    postgres, broker = _postgres(door.database), _redis(door.settings)
    ready = postgres == broker == "ok"
    if not ready:
        response.status_code = 503
    return Readiness(
        status="ready" if ready else "not ready",
        postgres=postgres,
        redis=broker,
        remedy="run `backscroll db upgrade`" if postgres == "outdated" else None,
    )


def _postgres(database: Database) -> State:
    try:
        database.check()
    except SchemaOutdated as error:
        return _not_ok("outdated", error)
    except Retryable as error:
        return _not_ok("unreachable", error)
    except SettingsError as error:
        return _not_ok("misconfigured", error)
    return "ok"


def _redis(settings: Settings) -> State:
    assert settings.redis_url is not None  # noqa: S101 - without one there would be no door
    # a connection of its own: one of a pool says that it worked before
    client = redis.Redis.from_url(
        settings.redis_url.get_secret_value(),
        socket_timeout=REDIS_SECONDS,
        socket_connect_timeout=REDIS_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        client.ping()
    except redis.AuthenticationError as error:
        return _not_ok("misconfigured", error)
    except redis.RedisError as error:
        return _not_ok("unreachable", error)
    finally:
        client.close()
    return "ok"


def _not_ok(state: State, error: Exception) -> State:
    log.warning("not_ready", state=state, error=str(error))
    return state
