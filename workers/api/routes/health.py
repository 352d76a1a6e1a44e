"""Health: whether the process lives, and whether it can work. It needs no API key and tells no secrets."""

from typing import Literal

from anyio import to_thread
from fastapi import APIRouter, Response

from schemas.base import Frozen
from workers.api.api_route import ApiRoute
from workers.api.state import Api, ServiceState

router = APIRouter(tags=["health"], route_class=ApiRoute)


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
async def readyz(api: Api, response: Response) -> Readiness:
    """Say whether Postgres and Redis answer and take writes, and whether the tables are those that are needed.

    Without Redis messages are still accepted and contexts served: jobs wait in Postgres.
    """
    states = (api.postgres_state, api.redis_state)
    postgres, broker = [await to_thread.run_sync(s.now, limiter=api.open_routes) for s in states]
    ready = postgres == broker == "ok"
    if not ready:
        response.status_code = 503
    return Readiness(
        status="ready" if ready else "not ready",
        postgres=postgres,
        redis=broker,
        remedy="run `backscroll db upgrade`" if postgres == "outdated" else None,
    )
