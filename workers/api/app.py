"""The HTTP API as an ASGI application.

Endpoints are plain functions that run in threads: everything behind them is synchronous.
"""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio.to_thread
import structlog
from fastapi import FastAPI

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.factory import make_embedder, make_embedder_for, make_reranker
from pipeline.recall.refine import make_gateway
from pipeline.store import vectors
from pipeline.store.connections.database import Database
from schemas.errors import BackscrollError, Retryable, SettingsError
from schemas.load_settings import load_settings
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace

# its handlers put the request's id into the headers of published tasks
from workers import (
    claim_file,
    tracing,
)
from workers.api import openapi, problems
from workers.api.access import AccessLog, Linger
from workers.api.admission import BacklogLimit, RequestRates, SharedRates
from workers.api.bodies import LARGE_HELD, LARGE_PARSED
from workers.api.keyring import Keyring, Seal
from workers.api.routes import ROUTERS
from workers.api.state import ApiState, Service, Waker
from workers.app import make_app
from workers.connection import probe
from workers.logging import configure_logging
from workers.mcp.mounted import Tools

log = structlog.get_logger(__name__)

THREADS = 20
"""Threads of a process; each has its own connection to Postgres, so that no request waits for one."""
ALL_THREADS = 40
"""Threads of all processes together, for which Postgres has connections besides the workers'."""

OPEN_THREADS = 2
"""Threads of a process for requests without a key."""
FOLLOW_SECONDS = 3.0
"""How often a process checks for spaces whose models it must load."""


def make_web_app(settings: Settings, processes: int = 1) -> FastAPI:
    """Make the application, for one of `processes`; it connects to Postgres and Redis at their first use.

    Raises `SettingsError` when the API key, Postgres or Redis is not configured. Starting it raises `SettingsError`
    for a login that row-level security does not bind.
    """
    key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if not key:
        raise SettingsError(
            "BACKSCROLL_API_KEY is not set, and the HTTP API does not start without one. Make one with "
            "`openssl rand -hex 32`; callers send it as `Authorization: Bearer …`"
        )
    # only workers claim jobs, so the HTTP API does not use the role that may
    restricted = settings.model_copy(update={"maintenance_database_url": None, "owner_database_url": None})
    # a wrong name is reported now; the spaces in the database decide which models are loaded
    make_embedder(settings)
    threads = min(THREADS, max(1, ALL_THREADS // processes))
    database = Database.from_settings(restricted, pool_size=threads, ready=threads // 2, with_replica=True)
    app = FastAPI(
        lifespan=_open_and_close,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # no redirects: most bots lose the answer to a redirected request
        redirect_slashes=False,
        # generated clients name their functions after these
        generate_unique_id_function=lambda route: route.name,
        exception_handlers=problems.HANDLERS,
    )
    app.state.api = ApiState(
        settings=settings,
        threads=threads,
        # its own connections, so that a key is revoked in time however busy the others are
        keyring=Keyring(Database.from_settings(restricted, pool_size=2, overflow=0), key, settings.tenant),
        seal=Seal(key),
        request_rates=RequestRates(processes, SharedRates(settings)),
        database=database,
        reranker=make_reranker(settings),
        gateway=make_gateway(settings, database),
        embedders=SpaceEmbedders(lambda space: make_embedder_for(space, settings)),
        waker=Waker(make_app(settings)),
        backlog=BacklogLimit(database, settings.backlog_max_messages),
        large_bodies=asyncio.Semaphore(LARGE_HELD),
        large_parses=anyio.CapacityLimiter(LARGE_PARSED),
        open_routes=anyio.CapacityLimiter(OPEN_THREADS),
        postgres_state=Service("postgres", database.require_writes, fresh_seconds=0),
        redis_state=Service("redis", partial(probe, settings), fresh_seconds=1),
    )
    app.add_middleware(AccessLog)
    # the last one added is the outermost
    app.add_middleware(Linger)
    for router in ROUTERS:
        app.include_router(router)
    openapi.install(app)
    app.state.tools = Tools(app)
    return app


def create(processes: int = 1) -> FastAPI:
    """Make the application from the environment, with JSON logs, for one of `processes`.

    Exits with the reason, without a traceback, if the settings are wrong.
    """
    try:
        settings = load_settings()
        configure_logging(settings.log_level)
        app = make_web_app(settings, processes)
    except BackscrollError as error:
        raise SystemExit(f"Error: {error}") from None
    tracing.start("api", app)
    return app


@asynccontextmanager
async def _open_and_close(app: FastAPI) -> AsyncIterator[None]:
    api: ApiState = app.state.api
    anyio.to_thread.current_default_thread_limiter().total_tokens = api.threads
    ended = threading.Event()
    following = threading.Thread(target=_follow, args=[api, ended], name="follow-spaces")
    try:
        await anyio.to_thread.run_sync(_check, api.database)
        following.start()
        claim_file.start_stating("api", api.settings, api.database, api.keyring.database)
        api.keyring.start()
        async with app.state.tools.running():
            # Modules and routes stay: the garbage collector would take 200 ms for them while all requests wait.
            gc.freeze()
            yield
    finally:
        ended.set()
        await anyio.to_thread.run_sync(claim_file.stop_stating)
        await api.keyring.close()
        await api.request_rates.close()
        if following.ident is not None:
            await anyio.to_thread.run_sync(following.join)
        await anyio.to_thread.run_sync(api.waker.close)
        api.database.close()


def _check(database: Database) -> None:
    """Refuse a wrong login; a Postgres that is down or not migrated shows in `/readyz`."""
    try:
        database.check()
        database.look_at_replica()
    except Retryable as error:
        log.warning("not_ready", error=str(error))


def _follow(api: ApiState, ended: threading.Event) -> None:
    """Load the models of the spaces in the database, and of those added later, and look at the standby, until `ended`.

    So neither the first request nor the first one after a switch waits for a model, and none for a standby's end.
    """
    ready: set[EmbeddingSpace] = set()
    while not ended.is_set():
        try:
            # a wrong one is noted, and hinders nothing else
            with suppress(SettingsError):
                api.database.look_at_replica()
            with api.database.tenant("") as connection:
                spaces = vectors.written_spaces(connection)
        except (Retryable, SettingsError) as error:
            log.info("spaces_not_read", error=str(error))
        else:
            api.embedders.keep(spaces)
            ready &= set(spaces)
            ready |= {space for space in spaces if space not in ready and _warm(api.embedders, space)}
        ended.wait(FOLLOW_SECONDS)


def _warm(embedders: SpaceEmbedders, space: EmbeddingSpace) -> bool:
    """Load a space's model; return whether it can be used."""
    try:
        embedders.of(space).embed_query("Is anybody there?")
    except BackscrollError as error:
        # until then contexts use keywords only, and say so
        log.warning("embedder_not_ready", space=space.name, error=str(error))
        return False
    log.info("embedder_ready", space=space.name)
    return True
