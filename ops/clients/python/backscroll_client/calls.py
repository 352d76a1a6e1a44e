"""Requests as values, one function for each: `Backscroll` and `AsyncBackscroll` have them as methods."""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from backscroll_client.values import (
    Chat,
    Context,
    MemoryReceipt,
    Message,
    Receipt,
    SearchResult,
    Time,
    UserPage,
)

T = TypeVar("T")

ADD = "/v1/messages"


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    path: str
    body: bytes = b""
    read: Callable[[Any], T]
    buffered: bool = False
    """Whether it waits in the buffer, if there is one, while the API is away."""
    absent: T | None = None
    """What it returns where there is no such thing; None: it raises `NotFound`."""


def add(chat: str | Chat, *messages: Message) -> Call[bool]:
    """Hand over messages of one chat; returns whether they are committed, else they are in the buffer."""
    now = datetime.now(UTC)
    named = [{"external_id": uuid.uuid4().hex, "sent_at": now, **message} for message in messages]
    return _change("POST", ADD, {"chat": chat, "messages": named})


def edit(chat_id: str, external_id: str, content: str, *, edited_at: Time | None = None) -> Call[bool]:
    """Give a message its new text; returns whether that is committed, else it is in the buffer."""
    body = {"content": content, "edited_at": edited_at or datetime.now(UTC)}
    return _change("PATCH", _path(ADD, chat_id, external_id), body)


def delete(chat_id: str, external_id: str) -> Call[bool]:
    """Delete a message for good; returns whether that is committed, else it is in the buffer."""
    return _change("DELETE", _path(ADD, chat_id, external_id))


def event(platform: str, payload: Mapping[str, Any] | Sequence[Any] | str | bytes) -> Call[bool]:
    """Hand over a platform's own event, as it came; returns whether it is committed, else it is in the buffer."""
    return _change("POST", _path("/v1/events", platform), payload)


def context(
    chat_id: str, query: str, *, user_id: str | None = None, budget_tokens: int | None = None, **more: Any
) -> Call[Context]:
    """Get what to put before a chat model for this question; `more` are other fields of `POST /v1/context`."""
    asked = {"chat_id": chat_id, "query": query, "user_id": user_id, "budget_tokens": budget_tokens, **more}
    return _post("/v1/context", asked, _context)


def search(
    chat_id: str, query: str, *, mode: str = "hybrid", limit: int = 10, **more: Any
) -> Call[SearchResult]:
    """Search a chat; `more` are other fields of `POST /v1/search`."""
    return _post("/v1/search", {"chat_id": chat_id, "query": query, "mode": mode, "limit": limit, **more})


def latest(
    chat_id: str, *, limit: int = 100, session_key: str | None = None, until: Time | None = None
) -> Call[list[Message]]:
    """Get the latest messages of a chat, the newest last; none of one in which nothing was said."""
    path = _path("/v1/chats", chat_id, "messages")
    call = _get(path, _messages, limit=limit, session_key=session_key, until=until)
    return replace(call, absent=[])


def remember(
    content: str,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    learned_in: str | None = None,
    **more: Any,
) -> Call[MemoryReceipt]:
    """Remember a statement about a user, an agent, or else the organization; `more` as in `POST /v1/memories`."""
    scope = "user" if user_id is not None else "agent" if agent_id is not None else "organization"
    owner = {"user_id": user_id, "agent_id": agent_id, "learned_in": learned_in}
    return _post("/v1/memories", {"scope": scope, "content": content, **owner, **more})


def about(user_id: str, *, chat_id: str | None = None, limit: int = 100) -> Call[UserPage]:
    """Get what is known of a person; with `chat_id` only what may be shown there."""
    return _get(_path("/v1/users", user_id), _as_it_is, chat_id=chat_id, limit=limit)


def forget_user(sender_id: str) -> Call[Receipt]:
    """Forget everything that somebody said, for good."""
    return _post("/v1/forget", {"kind": "user", "sender_id": sender_id})


def _change(method: str, path: str, body: Any = None) -> Call[bool]:
    return Call(method=method, path=path, body=_encoded(body), read=_is_committed, buffered=True)


def _post(path: str, body: Mapping[str, Any], read: Callable[[Any], Any] | None = None) -> Call[Any]:
    given = {name: value for name, value in body.items() if value is not None}
    return Call(method="POST", path=path, body=_encoded(given), read=read or _as_it_is)


def _get(path: str, read: Callable[[Any], T], **parameters: Any) -> Call[T]:
    given = {name: _plain(value) for name, value in parameters.items() if value is not None}
    return Call(method="GET", path=f"{path}?{urlencode(given)}", read=read)


def _path(*parts: str) -> str:
    """Join a path and ids, in which a slash is escaped."""
    return "/".join([parts[0], *(quote(str(part), safe="") for part in parts[1:])])


def _encoded(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body, default=_plain)).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str | int | float):
        return value
    raise TypeError(f"a {type(value).__name__} is nothing that JSON knows")


def _as_it_is(answer: Any) -> Any:
    return answer


def _is_committed(answer: Any) -> bool:
    return answer is not False


def _messages(answer: Any) -> list[Message]:
    messages: list[Message] = answer["messages"]
    return messages


def _context(answer: Any) -> Context:
    names = ("context_id", "text", "messages", "blocks", "used_tokens", "degraded")
    return Context(**{name: answer[name] for name in names}, answer=answer)
