"""Admit a request before its body is read, by its key, its route's scope, and the key's chats and rate."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fastapi import Request

from pipeline.store.connections.database import Database
from pipeline.store.people import api_keys
from schemas.bots.keys import CurrentKey
from workers.api.errors import HttpError
from workers.api.scopes import Access

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
    """A token bucket for each key with a limit, which holds this process's share of a second."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        # tokens left, and since when; only of existing keys
        self._buckets: dict[int, tuple[float, float]] = {}

    def take(self, key: CurrentKey) -> None:
        """Take a token, or raise `HttpError` 429."""
        if key.requests_per_second is None or key.id is None:
            return
        rate = key.requests_per_second / self._processes
        size, now = max(1.0, rate), time.monotonic()
        tokens, at = self._buckets.get(key.id, (size, now))
        tokens = min(size, tokens + (now - at) * rate)
        if tokens < 1:
            seconds = math.ceil((1 - tokens) / rate)
            raise HttpError(
                429,
                "too-many-requests",
                f"The API key may make {key.requests_per_second:g} requests a second. Nothing was done: send the same "
                f"again in {seconds} s.",
                headers={"Retry-After": str(seconds)},
            )
        self._buckets[key.id] = tokens - 1, now


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
    return permit(request, key, access)


def permit(request: Request, key: CurrentKey, access: Access) -> Caller:
    """Return the caller of a request with this valid key. Raises `HttpError` 403 and 429."""
    if COUNTED not in request.scope:
        request.app.state.api.request_rates.take(key)
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
    """Return the caller of an admitted request."""
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
