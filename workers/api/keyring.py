"""API keys by the digests of their secrets, cached for a few seconds, and the cookie of a login.

One task reads them, many at once on one connection: a flood of wrong keys does not slow down others, and a request with
a known key waits neither for Postgres nor for a thread.

The cookie contains no key, and the keyring refuses a revoked one, as in a header. Only a login's end is stored, as a
hash on the suppression list.
"""

import asyncio
import base64
import hmac
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import structlog
from anyio import CapacityLimiter, to_thread
from cryptography.fernet import Fernet, InvalidToken

from pipeline.people.api_keys import PREFIX, digest_of
from pipeline.store import api_keys
from pipeline.store.connections.database import Database
from schemas.bots import SCOPES, CurrentKey
from schemas.errors import BackscrollError

log = structlog.get_logger(__name__)

A = TypeVar("A")
T = TypeVar("T")

REFRESH_SECONDS = 2.0
"""How often keys in use are read again."""
FRESH_SECONDS = 3.0
"""Highest age of a cached key; an older one is read before the request continues."""
AWAY_SECONDS = 7.0
"""How long after a failed read cached keys are accepted at once: until the next try has failed, too."""
NOTE_SECONDS = 60.0
"""How often a key's last use is written."""
MAX_KNOWN = 10_000
"""Most keys in the cache, for valid and for wrong ones each."""
NEVER = -math.inf


@dataclass(slots=True)
class _Known:
    # None: there is no such key
    key: CurrentKey | None
    read_at: float
    used_at: float = NEVER
    noted_at: float = NEVER


class Keyring:
    """Finds the key of a secret. All of it belongs to one event loop, between `start` and `close`."""

    def __init__(self, database: Database, api_key: str, tenant_id: str) -> None:
        self.database = database
        self._own_digest = digest_of(api_key)
        self._own = CurrentKey(
            id=None, tenant=tenant_id, label="BACKSCROLL_API_KEY", scopes=list(SCOPES), chats=None
        )
        self._valid: OrderedDict[bytes, _Known] = OrderedDict()
        self._wrong: OrderedDict[bytes, _Known] = OrderedDict()
        # digests to read next, and the futures of those who wait for them
        self._waiting: set[bytes] = set()
        self._is_read: asyncio.Future[None]
        self._is_wanted = asyncio.Event()
        self._failed_at = self._refreshed_at = NEVER
        # its own threads, as those of requests may all be busy
        self._threads = CapacityLimiter(2)
        self._tasks: list[asyncio.Task[None]] = []
        self._in_threads: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Start reading keys and writing their last use."""
        self._is_read = asyncio.get_running_loop().create_future()
        self._tasks = [asyncio.create_task(self._keep_reading()), asyncio.create_task(self._keep_noting())]

    async def close(self) -> None:
        """Stop, and close the database; a use not written yet is lost."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # a thread goes on when its task is cancelled, and would return its connection to a pool that is closed
        await asyncio.gather(*self._in_threads, return_exceptions=True)
        self.database.close()

    async def find(self, secret: str) -> CurrentKey | None:
        """Return the key of a secret; None: there is none, or it was revoked or has expired.

        While Postgres is down, cached keys are accepted; for any other this raises `BackscrollError`.
        """
        digest = digest_of(secret)
        if secret.startswith(PREFIX) or hmac.compare_digest(digest, self._own_digest):
            return await self.find_digest(digest)
        return None

    async def find_digest(self, digest: bytes) -> CurrentKey | None:
        """Return the key whose secret has this digest, as `find` does."""
        # in constant time
        if hmac.compare_digest(digest, self._own_digest):
            return self._own
        known, now = self._known(digest), time.monotonic()
        if known is None or now - known.read_at > FRESH_SECONDS:
            is_believed = known is not None and known.key is not None and now - self._failed_at < AWAY_SECONDS
            if known is None or not is_believed:
                known = await self._read(digest, known)
        known.used_at = now
        key = known.key
        if key is not None and key.expires_at is not None and key.expires_at <= datetime.now(UTC):
            return None
        return key

    def _known(self, digest: bytes) -> _Known | None:
        return self._valid.get(digest) or self._wrong.get(digest)

    async def _read(self, digest: bytes, before: _Known | None) -> _Known:
        """Read a key, once for all requests that wait for it."""
        self._waiting.add(digest)
        self._is_wanted.set()
        try:
            # a request that is cancelled must not cancel the others' wait
            await asyncio.shield(self._is_read)
        except BackscrollError:
            if before is None or before.key is None:
                raise
            return before
        # the cache may have changed since
        return self._known(digest) or _Known(None, time.monotonic())

    async def _keep_reading(self) -> None:
        """Read keys that requests wait for, and every `REFRESH_SECONDS` those used meanwhile."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._is_wanted.wait()
            self._is_wanted.clear()
            digests, self._waiting = self._waiting, set()
            is_read, self._is_read = self._is_read, asyncio.get_running_loop().create_future()
            started = time.monotonic()
            if started - self._refreshed_at >= REFRESH_SECONDS:
                digests |= {
                    digest for digest, known in self._valid.items() if known.used_at >= self._refreshed_at
                }
                self._refreshed_at = started
            if not digests:
                continue
            try:
                keys = await self._in_thread(self._fetch, list(digests))
            except Exception as error:  # noqa: BLE001 - whoever waits hears of it
                self._failed_at = time.monotonic()
                log.warning("keys_not_read", error=_name(error))
                is_read.set_exception(error)
                # every waiting request may have been cancelled
                is_read.exception()
            else:
                self._failed_at = NEVER
                for digest in digests:
                    self._keep(digest, keys.get(digest), started)
                is_read.set_result(None)

    async def _keep_noting(self) -> None:
        """Write the last use of keys, each at most every `NOTE_SECONDS`."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            now = time.monotonic()
            due: dict[str, list[int]] = {}
            for known in self._valid.values():
                if known.key and known.key.id is not None and known.used_at > known.noted_at + NOTE_SECONDS:
                    known.noted_at = now
                    due.setdefault(known.key.tenant, []).append(known.key.id)
            try:
                await self._in_thread(self._note, due)
            except Exception as caught:  # noqa: BLE001 - written a minute later
                log.warning("use_of_keys_not_written", error=_name(caught))

    async def _in_thread(self, function: Callable[[A], T], argument: A) -> T:
        """Call a function in a thread; `close` waits until it has returned."""
        running = asyncio.create_task(to_thread.run_sync(function, argument, limiter=self._threads))
        self._in_threads.add(running)
        running.add_done_callback(self._in_threads.discard)
        return await asyncio.shield(running)

    def _fetch(self, digests: Sequence[bytes]) -> dict[bytes, CurrentKey]:
        with self.database.tenant("") as connection:
            return api_keys.find(connection, digests)

    def _note(self, used: Mapping[str, Sequence[int]]) -> None:
        for tenant_id, ids in used.items():
            with self.database.tenant(tenant_id) as connection:
                api_keys.note_use(connection, ids)

    def _keep(self, digest: bytes, key: CurrentKey | None, read_at: float) -> None:
        """Put a key into the cache, as the last to be evicted."""
        before = self._valid.pop(digest, None) or self._wrong.pop(digest, None) or _Known(None, read_at)
        side = self._wrong if key is None else self._valid
        side[digest] = _Known(key, read_at, before.used_at, before.noted_at)
        if len(side) > MAX_KNOWN:
            side.popitem(last=False)


def _name(error: Exception) -> str:
    # other errors may quote a statement's parameters
    return str(error) if isinstance(error, BackscrollError) else type(error).__name__


COOKIE_NAME = "backscroll_inspector"
COOKIE_PATH = "/inspect"
LOGIN_SECONDS = 12 * 3600
_OWN = re.compile(rb"(?:^|;) *(%b=[\w=-]{0,500})" % COOKIE_NAME.encode())


def own_only(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Leave other cookies out of headers: Python takes seconds to unquote one of many backslashes, for any request."""
    return [(name, b";".join(_OWN.findall(value)) if name == b"cookie" else value) for name, value in headers]


class Seal:
    """Seals and opens digests with a secret derived from the deployment's key."""

    def __init__(self, api_key: str) -> None:
        derived = hmac.digest(api_key.encode(), b"backscroll inspector cookie", "sha256")
        self._fernet = Fernet(base64.urlsafe_b64encode(derived))

    def seal(self, digest: bytes) -> str:
        """Return the cookie's value, of a new login."""
        return self._fernet.encrypt(digest + secrets.token_bytes(12)).decode()

    def open(self, value: str) -> tuple[bytes, bytes] | None:
        """Return the login and its digest of a value that was sealed within the last `LOGIN_SECONDS`; else None."""
        try:
            login = self._fernet.decrypt(value.encode(), ttl=LOGIN_SECONDS)
        except InvalidToken:
            return None
        return login, login[:32]
