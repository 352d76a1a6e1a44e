"""What endpoints share: the state of the process, of Postgres and Redis, the caller's tenant, and wake-ups.

A wake-up says that jobs of a kind are due, and a worker claims all of them: ten per second are enough, however many
requests enqueue jobs.
"""

import threading
import time
from asyncio import Semaphore
from collections.abc import Callable, Collection
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import structlog
from anyio import CapacityLimiter
from celery import Celery
from fastapi import Depends, Request

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.protocols import Reranker
from pipeline.llm.gateway import Gateway
from pipeline.store.connections.database import Database
from schemas.errors import Retryable, SchemaOutdated, SettingsError, WritesRefused
from schemas.settings import Settings
from workers import queues
from workers.api.admission import BacklogLimit, Caller, RequestRates, caller_of
from workers.api.keyring import Keyring, Seal
from workers.logging import OUTAGES

outage_log = structlog.get_logger(OUTAGES)

# `outdated`: its tables are not this program's; `misconfigured`: its login is wrong or lacks rights; `read_only`: it
# answers, but takes no writes
ServiceState = Literal["ok", "unreachable", "read_only", "outdated", "misconfigured"]
# by the exception of a check, subclasses first
_STATES: dict[type[Exception], ServiceState] = {
    SchemaOutdated: "outdated",
    SettingsError: "misconfigured",
    WritesRefused: "read_only",
    Retryable: "unreachable",
}


class Service:
    """A service, with a check that raises if something is wrong."""

    def __init__(self, name: str, check: Callable[[], None], *, fresh_seconds: float) -> None:
        self._name, self._check, self._fresh_seconds = name, check, fresh_seconds
        self._lock = threading.Lock()
        self._state: ServiceState = "ok"
        self._checked = -fresh_seconds

    def now(self) -> ServiceState:
        """Return the state, at most `fresh_seconds` old: a check writes, and needs no key to be triggered."""
        with self._lock:
            if time.monotonic() - self._checked >= self._fresh_seconds:
                self._state = self._look()
                self._checked = time.monotonic()
            return self._state

    def _look(self) -> ServiceState:
        try:
            self._check()
        except (SettingsError, Retryable) as error:
            state = next(state for kind, state in _STATES.items() if isinstance(error, kind))
            outage_log.warning("not_ready", service=self._name, state=state, error=str(error))
            return state
        return "ok"


log = structlog.get_logger(__name__)

APART_SECONDS = 0.1
"""The pause after sending, in which wake-ups of a kind are collected into one."""
CLOSING_SECONDS = 5.0


class Waker:
    """Keeps at most one wake-up of each kind waiting, with the id of the request that asked for it first."""

    def __init__(self, celery: Celery) -> None:
        self.celery = celery
        # wake-ups to send, in the order of the requests
        self._pending: dict[str, Context] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._sender = threading.Thread(target=self._send, name="wake-ups", daemon=True)
        self._sender.start()

    def wake_up(self, kind: str) -> None:
        """Wake the workers of a kind: now, or `APART_SECONDS` after the last wake-ups.

        Never blocks. The next sweep makes up for a lost wake-up.
        """
        with self._changed:
            if kind not in self._pending:
                # the context carries the request's id, which publishing puts into the task's headers
                self._pending[kind] = copy_context()
                self._changed.notify()

    def close(self) -> None:
        """Send waiting wake-ups and end; while Redis is down they are left to the sweep."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._sender.join(CLOSING_SECONDS)
        self.celery.close()

    def _send(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closing)
                pending, self._pending = self._pending, {}
            if not pending:
                return
            for kind, context in pending.items():
                try:
                    context.run(queues.wake_up, self.celery, kind)
                except Exception as error:
                    log.error("wake_up_failed", kind=kind, exc_info=error)  # noqa: TRY400 - one line, no traceback
            with self._changed:
                self._changed.wait_for(lambda: self._closing, APART_SECONDS)


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
