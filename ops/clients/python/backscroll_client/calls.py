"""Requests as values, one function for each: `Backscroll` and `AsyncBackscroll` have them as methods."""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote, unquote, urlencode

from backscroll_client.errors import Refused
from backscroll_client.values import (
    Chat,
    Context,
    Digest,
    MemoryReceipt,
    Message,
    Receipt,
    SearchResult,
    Time,
    UserPage,
)

T = TypeVar("T")

ADD, EVENTS = "/v1/messages", "/v1/events"
CHAT_FIELDS = {"telegram": "chat", "slack": "channel", "discord": "channel_id"}
"""What names the chat of an event, on the platforms whose events are each of one chat."""
MAX_ID_CHARS = 2000
"""Of an id in a path; the API takes 255, and says so."""


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    path: str
    body: bytes = b""
    read: Callable[[Any], T]
    """Reads the JSON of a success; raises `LookupError`, `TypeError` or `ValueError` for what is none."""
    statuses: tuple[int, ...] = (200,)
    """With which the API answers a success."""
    buffered: bool = False
    """Whether it waits in the buffer, if there is one, while the API is away."""
    absent: T | None = None
    """What it returns where there is no such thing; None: it raises `NotFound`."""


def add(chat: str | Chat, *messages: Message) -> Call[bool]:
    """Hand over messages of one chat; returns whether they are committed, else they are in the buffer.

    With a buffer, one that is wrong is refused alone; without, nothing of the call is stored.
    """
    now = datetime.now(UTC)
    named = [{"external_id": uuid.uuid4().hex, "sent_at": now, **message} for message in messages]
    return change("POST", ADD, _encoded({"chat": chat, "messages": named}))


def edit(chat_id: str, external_id: str, content: str, *, edited_at: Time | None = None) -> Call[bool]:
    """Give a message its new text; returns whether that is committed, else it is in the buffer."""
    body = {"content": content, "edited_at": edited_at or datetime.now(UTC)}
    return change("PATCH", _path(ADD, chat_id, external_id), _encoded(body))


def delete(chat_id: str, external_id: str) -> Call[bool]:
    """Delete a message for good; returns whether that is committed, else it is in the buffer."""
    return change("DELETE", _path(ADD, chat_id, external_id))


def event(
    platform: str,
    payload: Mapping[str, Any] | Sequence[Any] | str | bytes,
    *,
    time_zone: str | None = None,
    account: str | None = None,
) -> Call[bool]:
    """Hand over a platform's own event, as it came; returns whether it is committed, else it is in the buffer.

    `time_zone` is the IANA name of its chats' clock, and `account` that of the bot, where the payload says none.

    Raises `Refused` if anything in it is broken; the rest of it is stored.
    """
    path = _path(EVENTS, platform)
    said = {"time_zone": time_zone, "account": account}
    query = urlencode({name: value for name, value in said.items() if value})
    path += f"?{query}" if query else ""
    return change("POST", path, _encoded(payload))


def context(
    chat_id: str, query: str, *, user_id: str | None = None, budget_tokens: int | None = None, **more: Any
) -> Call[Context]:
    """Get what to put before a chat model for this question; `more` are other fields of `POST /v1/context`."""
    asked = {"chat_id": chat_id, "query": query, "user_id": user_id, "budget_tokens": budget_tokens, **more}
    return _post("/v1/context", asked, _context)


def digest(
    chat_id: str, *, user_id: str | None = None, since: Time | None = None, **more: Any
) -> Call[Digest]:
    """Get what somebody missed in a chat, since their last message or a time; `more` as in `POST /v1/digest`."""
    body = {"chat_id": chat_id, "user_id": user_id, "since": since, **more}
    return _post("/v1/digest", body, _with("text", str))


def search(
    chat_id: str, query: str, *, mode: str = "hybrid", limit: int = 10, **more: Any
) -> Call[SearchResult]:
    """Search a chat; `more` are other fields of `POST /v1/search`."""
    return _post(
        "/v1/search",
        {"chat_id": chat_id, "query": query, "mode": mode, "limit": limit, **more},
        _with("hits", list),
    )


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
    body = {"scope": scope, "content": content, **owner, **more}
    return _post("/v1/memories", body, _with("outcome", str), statuses=(200, 201))


def memories(*, limit: int = 100, **more: Any) -> Call[list[dict[str, Any]]]:
    """List memories, newest first; `more` as in `GET /v1/memories`: `scope`, `agent_id`, `source`, `after` …"""
    read = _with("memories", list)
    return _get("/v1/memories", lambda answer: read(answer)["memories"], limit=limit, **more)


def search_memories(query: str, *, limit: int = 10, **more: Any) -> Call[list[dict[str, Any]]]:
    """Find memories, best first, each as `memory` with its `score`; `more` as in `POST /v1/memories/search`."""
    read = _with("hits", list)
    asked = {"query": query, "limit": limit, **more}
    return _post("/v1/memories/search", asked, lambda answer: read(answer)["hits"])


def edit_memory(memory_id: str, **changes: Any) -> Call[MemoryReceipt]:
    """Change the words, importance, expiry or metadata of a memory."""
    read = _with("outcome", str)
    return Call(method="PATCH", path=_path("/v1/memories", memory_id), body=_encoded(changes), read=read)


def delete_memory(memory_id: str) -> Call[MemoryReceipt]:
    """Delete a memory, which may be written again."""
    return Call(method="DELETE", path=_path("/v1/memories", memory_id), read=_with("outcome", str))


def about(user_id: str, *, chat_id: str | None = None, limit: int = 100) -> Call[UserPage]:
    """Get what is known of a person; with `chat_id` only what may be shown there."""
    return _get(_path("/v1/users", user_id), _with("user_id", str), chat_id=chat_id, limit=limit)


def forget_user(sender_id: str) -> Call[Receipt]:
    """Forget everything that somebody said, for good."""
    return _post("/v1/forget", {"kind": "user", "sender_id": sender_id}, _with("id", int), statuses=(202,))


def change(method: str, path: str, body: bytes = b"") -> Call[bool]:
    """Return a request that may wait in the buffer, as it was first or as the buffer kept it."""
    statuses = (200,) if path.startswith(EVENTS) or method == "DELETE" else (202,)
    receipt = _with("accepted", int) if method == "POST" else _with("outcome", str)

    def read(answer: Any) -> bool:
        if broken := receipt(answer).get("broken"):
            told = "; ".join(f"{item['where']}: {item['reason']}" for item in broken)
            raise Refused(f"not all of the event is stored: {told}", field=broken[0]["where"])
        return True

    return Call(method=method, path=path, body=body, read=read, statuses=statuses, buffered=True)


def lane_of(path: str, body: bytes) -> str:
    """Return what a change must keep its order in: its chat, or its platform if the chat cannot be told."""
    if path.startswith(f"{ADD}/"):
        return unquote(path.split("/")[3])
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return path
    if path == ADD:
        return str(_id_of(value["chat"], "chat_id"))
    platform = path.partition("?")[0].rpartition("/")[2]
    level = [value]
    while level := [held for held in level if isinstance(held, dict)]:
        for held in level:
            if (chat := _id_of(held.get(CHAT_FIELDS.get(platform, "")), "id")) is not None:
                return f"{platform}:{chat}"
        level = [inner for held in level for inner in held.values()]
    return path


def _id_of(chat: Any, field: str) -> Any:
    return chat.get(field) if isinstance(chat, dict) else chat


def each(call: Call[bool]) -> list[bytes]:
    """Return a change's bodies, one for each message of several, so that each of them stands for itself."""
    if call.path != ADD or len((value := json.loads(call.body))["messages"]) < 2:
        return [call.body]
    return [_encoded(value | {"messages": [message]}) for message in value["messages"]]


def _post(
    path: str, body: Mapping[str, Any], read: Callable[[Any], Any], *, statuses: tuple[int, ...] = (200,)
) -> Call[Any]:
    given = {name: value for name, value in body.items() if value is not None}
    return Call(method="POST", path=path, body=_encoded(given), read=read, statuses=statuses)


def _get(path: str, read: Callable[[Any], T], **parameters: Any) -> Call[T]:
    given = {name: _plain(value) for name, value in parameters.items() if value is not None}
    return Call(method="GET", path=f"{path}?{urlencode(given)}", read=read)


def _path(*parts: str) -> str:
    """Join a path and ids, in which a slash is escaped. Raises `Refused` for what no path can contain."""
    for part in map(str, parts[1:]):
        if part in ("", ".", "..") or len(part) > MAX_ID_CHARS:
            raise Refused(f"{part[:50]!r} is no id: it has 1 to 255 characters, and not dots alone")
    return "/".join([parts[0], *(quote(str(part), safe="") for part in parts[1:])])


def _encoded(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body, default=_plain)).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str | int | float):
        return value
    raise TypeError(f"a {type(value).__name__} is nothing that JSON knows")


def _with(field: str, kind: type) -> Callable[[Any], Any]:
    """Return a reader of an answer as it is, if it has this field of this very type."""

    def read(answer: Any) -> Any:
        if type(answer[field]) is not kind:
            raise TypeError(f"{field} is no {kind.__name__}")
        return answer

    return read


def _messages(answer: Any) -> list[Message]:
    messages: list[Message] = answer["messages"]
    return messages


def _context(answer: Any) -> Context:
    names = ("context_id", "text", "messages", "blocks", "used_tokens", "degraded")
    # an API of before does not judge
    judged = {name: answer.get(name) for name in ("evidence", "evidence_probability")}
    return Context(**{name: answer[name] for name in names}, **judged, answer=answer)
