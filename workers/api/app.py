"""The HTTP door as an ASGI application: what it holds, when it is opened and closed.

    python -m workers.api --processes 2

or, with the embedded servers found, `backscroll api`. Endpoints are plain functions that run in
threads: everything behind them is synchronous.
"""

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
import structlog
from fastapi import FastAPI

from pipeline.clients.factory import make_embedder, make_reranker
from pipeline.clients.protocols import Embedder
from pipeline.store.database import Database
from schemas.errors import BackscrollError, Retryable, SettingsError
from schemas.settings import Settings, load_settings

# `signals`: publishing puts the request's id into a hint's headers only where its handlers are connected
from workers import signals  # noqa: F401
from workers.api import (
    answers,
    contexts,
    docs,
    documents,
    errors,
    forgetting,
    health,
    listings,
    members,
    memories,
    messages,
    openapi,
    overview,
    searches,
    users,
)
from workers.api.access import Access
from workers.api.backlog import Backlog
from workers.api.door import Door
from workers.api.hints import Hinter
from workers.api.linger import Linger
from workers.app import make_app
from workers.logging import configure_logging

log = structlog.get_logger(__name__)

THREADS = 20
"""Requests that a process works on at once; each has a connection to Postgres, so that none waits for another's."""
ALL_THREADS = 40
"""In all processes together: Postgres has connections for so many, beside the workers'."""


def make_web_app(settings: Settings, processes: int = 1) -> FastAPI:
    """The door with these settings, one of so many processes; connects to Postgres and Redis at their first use.

    Raises `SettingsError` when there is no API key, no Postgres or no Redis to go to. Starting it raises
    `SettingsError` for a login that row-level security does not bind.
    """
    key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if not key:
        raise SettingsError(
            "BACKSCROLL_API_KEY is not set: the door opens for nobody without one. Make one with "
            "`openssl rand -hex 32`; callers send it as `Authorization: Bearer …`"
        )
    # claiming work is the workers' business: the door does not even connect as the role that may
    restricted = settings.model_copy(update={"maintenance_database_url": None, "owner_database_url": None})
    threads = min(THREADS, max(1, ALL_THREADS // processes))
    database = Database.from_settings(restricted, pool_size=threads)
    door = Door(
        settings=settings,
        threads=threads,
        api_key=key,
        database=database,
        reranker=make_reranker(settings.reranker_model),
        embedder=make_embedder(settings),
        hinter=Hinter(make_app(settings)),
        backlog=Backlog(database, settings.tenant, settings.backlog_max_messages),
    )

    app = FastAPI(
        title="Backscroll",
        summary="Long-term conversation memory for chat bots.",
        description=openapi.DESCRIPTION,
        version=openapi.version(),
        lifespan=_open_and_close,
        docs_url=None,
        redoc_url=None,
        # a path is right or wrong: an answer that says "elsewhere" is lost on most bots
        redirect_slashes=False,
    )
    app.state.door = door
    app.add_middleware(Access)
    # the last one added is the outermost
    app.add_middleware(Linger)
    errors.install(app)
    for module in (
        *(health, messages, contexts, answers, searches),
        *(memories, documents, users, overview, members, forgetting, listings),
    ):
        app.include_router(module.router)
    openapi.install(app)
    docs.install(app)
    return app


def create(processes: int = 1) -> FastAPI:
    """The door as the environment configures it, with JSON logs: one of so many processes.

    Ends the process with the reason, and not with a traceback, when the settings are wrong.
    """
    try:
        settings = load_settings()
        configure_logging(settings.log_level)
        _silence_uvicorn()
        return make_web_app(settings, processes)
    except BackscrollError as error:
        raise SystemExit(f"Error: {error}") from None


def _silence_uvicorn() -> None:
    """Let uvicorn's own lines be JSON like all others, and leave requests to our access log."""
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    access = logging.getLogger("uvicorn.access")
    access.handlers.clear()
    access.propagate = False


@asynccontextmanager
async def _open_and_close(app: FastAPI) -> AsyncIterator[None]:
    door: Door = app.state.door
    anyio.to_thread.current_default_thread_limiter().total_tokens = door.threads
    warming = threading.Thread(target=_warm, args=[door.embedder], name="warm-embedder")
    try:
        await anyio.to_thread.run_sync(_check, door.database)
        if door.settings.session_memory_enabled:
            warming.start()
        yield
    finally:
        if warming.ident is not None:
            await anyio.to_thread.run_sync(warming.join)
        await anyio.to_thread.run_sync(door.hinter.close)
        door.database.close()


def _check(database: Database) -> None:
    """Refuse a wrong login; a Postgres that is not there yet, or not migrated, is told by /readyz."""
    try:
        database.check()
    except Retryable as error:
        log.warning("not_ready", error=str(error))


def _warm(embedder: Embedder) -> None:
    """Load the model, so that no first request waits for it."""
    try:
        embedder.embed_query("Is anybody there?")
    except BackscrollError as error:
        # contexts do with keywords meanwhile, and say so
        log.warning("embedder_not_ready", error=str(error))
    else:
        log.info("embedder_ready", space=embedder.space.name)
