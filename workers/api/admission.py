"""Admit a request before its body is read: by its key, its route's scope, the key's chats and rate, and the backlog.

The requests of a key are counted in Redis for all processes of the HTTP API, wherever they run.
"""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog
from fastapi import Request
from redis.exceptions import RedisError

from pipeline.store import api_keys
from pipeline.store.connections.database import Database
from pipeline.store.messages import message_rows
from schemas.bots import CurrentKey
from schemas.server_urls import postgres_parameters
from schemas.settings import Settings
from workers.api.problems import HttpError
from workers.api.scopes import Access
from workers.connection import loop_client_of
from workers.logging import OUTAGES

log = structlog.get_logger(OUTAGES)

ANSWER_SECONDS = 0.25
"""How long a request waits for Redis."""
AWAY_SECONDS = 1.0
"""How long Redis is not asked after it has not answered."""
# A bucket of a second's requests, refilled by Redis' own clock; returns the seconds until the next one may come.
_TAKE = """
    local rate, now = tonumber(ARGV[1]), redis.call('TIME')
    now = now[1] + now[2] / 1000000
    local size, held = math.max(1, rate), redis.call('HMGET', KEYS[1], 'tokens', 'at')
    local passed = math.max(0, now - (tonumber(held[2]) or now))
    local tokens, wait = math.min(size, (tonumber(held[1]) or size) + passed * rate), 0
    if tokens < 1 then wait = (1 - tokens) / rate else tokens = tokens - 1 end
    redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.6f', now))
    redis.call('PEXPIRE', KEYS[1], math.ceil(1000 * size / rate) + 1000)
    return string.format('%.6f', wait)
"""


class SharedRates:
    """Takes requests from the buckets of keys; all of it belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._client = loop_client_of(settings, ANSWER_SECONDS)
        self._take = self._client.register_script(_TAKE)
        url = settings.database_url.get_secret_value() if settings.database_url else ""
        # ids are those of a database
        self._prefix = f"backscroll.rate.{postgres_parameters(url).get('dbname', '') if url else ''}."
        self._asked_again_at = 0.0

    async def wait_seconds(self, key_id: int, rate: float) -> float | None:
        """Take a request of a key; return the seconds to wait if there is none left, and None if Redis is away."""
        if time.monotonic() < self._asked_again_at:
            return None
        try:
            return float(await self._take(keys=[f"{self._prefix}{key_id}"], args=[rate]))
        except (RedisError, OSError) as error:
            self._asked_again_at = time.monotonic() + AWAY_SECONDS
            log.warning("rates_not_shared", error=str(error))
            return None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


COUNTED = "backscroll.counted"
"""Marks, in the ASGI scope, a call for a request that was counted already; no header, as clients could set it."""
_REALM = {"WWW-Authenticate": 'Bearer realm="backscroll"'}


@dataclass(slots=True)
class Caller:
    """The key of a request, and what its route requires of a key."""

    key: CurrentKey
    access: Access
    has_named_chats: bool = False

    @property
    def tenant(self) -> str:
        """The tenant of the key; an error in an endpoint that has not checked the chats in its body."""
        if self.key.chats is not None and self.access.chat == "body" and not self.has_named_chats:
            raise RuntimeError("Caller.require_chats was not called")
        return self.key.tenant

    def require_chats(self, named: Iterable[str | None]) -> None:
        """Raise `HttpError` 403 unless the key may name all these chats, at least one."""
        if self.key.chats is None:
            return
        chats = list(named)
        if not chats or not set(chats) <= set(self.key.chats):
            raise _forbidden(
                "The API key is only for some chats: name one of them (GET /v1/keys/current lists them)."
            )
        self.has_named_chats = True


class RequestRates:
    """A token bucket for each key with a limit, in Redis; while that is away, this process's share of a second."""

    def __init__(self, processes: int, shared: SharedRates | None = None) -> None:
        self._processes, self._shared = processes, shared
        # tokens left, and since when; only of existing keys
        self._buckets: dict[int, tuple[float, float]] = {}

    async def take(self, key: CurrentKey) -> None:
        """Take a token, or raise `HttpError` 429."""
        if key.requests_per_second is None or key.id is None:
            return
        rate, wait = key.requests_per_second, None
        if self._shared is not None:
            wait = await self._shared.wait_seconds(key.id, rate)
        if wait is None:
            wait = self._own_wait(key.id, rate / self._processes)
        if wait:
            seconds = math.ceil(wait)
            raise HttpError(
                429,
                "too-many-requests",
                f"The API key may make {rate:g} requests a second. Nothing was done: send the same again in "
                f"{seconds} s.",
                headers={"Retry-After": str(seconds)},
            )

    async def close(self) -> None:
        """Close what it keeps open."""
        if self._shared is not None:
            await self._shared.close()

    def _own_wait(self, key_id: int, rate: float) -> float:
        """Take a token of this process; return the seconds to wait if there is none."""
        size, now = max(1.0, rate), time.monotonic()
        tokens, at = self._buckets.get(key_id, (size, now))
        tokens = min(size, tokens + (now - at) * rate)
        if tokens < 1:
            return (1 - tokens) / rate
        self._buckets[key_id] = tokens - 1, now
        return 0.0


async def admit(request: Request, access: Access) -> Caller:
    """Return the caller of a request, without reading its body. Raises `HttpError` 401, 403 and 429.

    If `access.chat` is `body`, the endpoint must still call `Caller.require_chats`.
    """
    keyring = request.app.state.api.keyring
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        detail = "There is no API key: send it as `Authorization: Bearer …`."
        raise HttpError(401, "unauthorized", detail, headers=_REALM)
    key = await keyring.find(secret.strip())
    if key is None:
        detail = "The API key is unknown here, has expired or was revoked."
        raise HttpError(401, "unauthorized", detail, headers=_REALM)
    return await permit(request, key, access)


async def permit(request: Request, key: CurrentKey, access: Access) -> Caller:
    """Return the caller of a request with this valid key. Raises `HttpError` 403 and 429."""
    if COUNTED not in request.scope:
        await request.app.state.api.request_rates.take(key)
    if access.scope is not None and access.scope not in key.scopes:
        has = ", ".join(key.scopes)
        raise _forbidden(f"This needs an API key with the scope `{access.scope}`; this one has: {has}.")
    caller = Caller(key, access)
    if key.chats is not None:
        if access.chat is None:
            raise _forbidden("The API key is only for some chats, and this is not about one chat alone.")
        if access.chat == "path":
            caller.require_chats([request.path_params["chat_id"]])
        elif access.chat == "query":
            caller.require_chats(request.query_params.getlist("chat_id"))
    return caller


def caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


def _forbidden(detail: str) -> HttpError:
    return HttpError(403, "forbidden", detail)


def take_messages(database: Database, key: CurrentKey, messages: int) -> None:
    """Count messages against a key's day (UTC), over all processes, before they are stored.

    Raises `HttpError` 429 if they exceed what the day has left.
    """
    if key.messages_per_day is None or key.id is None:
        return
    with database.tenant(key.tenant) as connection:
        if api_keys.take_messages(connection, key.id, messages):
            return
    now = datetime.now(UTC)
    midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
    raise HttpError(
        429,
        "too-many-requests",
        f"The API key may hand over {key.messages_per_day} messages a day (UTC), and these {messages} are more than "
        "are left today. None was stored.",
        headers={"Retry-After": str(int((midnight - now).total_seconds()) + 1)},
    )


COUNT_SECONDS = 1.0
"""Highest age of the count: the limit is a brake, not a promise, and counting costs a query."""
RETRY_SECONDS = 10


class BacklogLimit:
    """Counts each tenant's messages that are accepted but not yet placed, up to `limit`."""

    def __init__(self, database: Database, limit: int) -> None:
        self._database = database
        self._limit = limit
        self._tenants: defaultdict[str, _Waiting] = defaultdict(_Waiting)

    def require_room(self, tenant_id: str) -> None:
        """Raise `HttpError` 503 while more messages wait than the limit. Raises `DatabaseUnavailable`."""
        if self._count(tenant_id) > self._limit:
            raise HttpError(
                503,
                "overloaded",
                f"More than {self._limit} messages (BACKSCROLL_BACKLOG_MAX_MESSAGES) wait to be placed in "
                f"their sessions. Nothing was stored: send the same again in {RETRY_SECONDS} s, and check "
                "that the worker of the queue ingest runs.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )

    def is_counted(self, tenant_id: str) -> bool:
        """Tell whether the count is fresh, so that `require_room` does not wait."""
        return time.monotonic() - self._tenants[tenant_id].counted_at < COUNT_SECONDS

    def _count(self, tenant_id: str) -> int:
        waiting = self._tenants[tenant_id]
        # One thread counts, the others use the last count: while Postgres is down they must not queue here.
        if not self.is_counted(tenant_id) and waiting.counting.acquire(blocking=False):
            try:
                with self._database.tenant(tenant_id) as connection:
                    waiting.count = message_rows.waiting(connection, tenant_id, self._limit + 1)
                waiting.counted_at = time.monotonic()
            finally:
                waiting.counting.release()
        return waiting.count


@dataclass(slots=True)
class _Waiting:
    """The last count of a tenant."""

    counting: threading.Lock = field(default_factory=threading.Lock)
    counted_at: float = -COUNT_SECONDS
    count: int = 0
