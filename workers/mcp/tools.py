"""The tools: what each takes, the route that it calls, and the scope that its key needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, get_type_hints
from urllib.parse import quote
from uuid import UUID

from schemas.base import Closed
from schemas.keys import Scope
from schemas.users import Members
from workers.mcp.answers import Answer, Changed, Chat, Chats, Found, Page, Person, Recalled
from workers.mcp.api import Api, Refused

PAGE = 20
"""Chats of a key that is only for some: each is a request."""

Effect = Literal["reads", "adds", "destroys"]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool as models see it."""

    name: str
    description: str
    # that a key needs to see it
    scope: Scope
    # whether a key that is only for some chats may call its route
    in_chat: bool
    effect: Effect
    takes: type[Closed]
    gives: type[Answer]
    run: Callable[[Api, Any], Awaitable[Answer]]


TOOLS: dict[str, Tool] = {}
"""By name, in the order in which they are listed."""

_Run = Callable[[Api, Any], Awaitable[Answer]]


def _tool(scope: Scope, effect: Effect = "reads", *, in_chat: bool = False) -> Callable[[_Run], _Run]:
    """Add a function to `TOOLS` by its name, docstring and annotations."""

    def add(run: _Run) -> _Run:
        hints = get_type_hints(run)
        name, told = run.__name__, " ".join((run.__doc__ or "").split())
        TOOLS[name] = Tool(
            name=name,
            description=told,
            scope=scope,
            in_chat=in_chat,
            effect=effect,
            takes=hints["given"],
            gives=hints["return"],
            run=run,
        )
        return run

    return add


class InChat(Closed):
    """What is asked in a chat."""

    chat_id: str | None = None
    """Default: the key's only chat."""


class Question(InChat):
    """A question."""

    query: str
    user_id: str | None = None
    """Who asks."""
    as_of: str | None = None
    """Only what was known before this time."""
    budget_tokens: int | None = None


class Search(InChat):
    """What to look for."""

    query: str
    mode: Literal["hybrid", "exact", "topic"] = "hybrid"
    """topic finds sessions."""
    since: str | None = None
    """ISO 8601 with offset."""
    until: str | None = None
    limit: int | None = None


class Reading(InChat):
    """A session to read."""

    session_id: int
    shown: list[int] | None = None
    """Message ids to read around."""
    limit: int | None = None


class Somebody(InChat):
    """A person."""

    person: str
    """Id, or with chat_id a name."""


class ChatPage(Closed):
    """A page of chats."""

    after: str | None = None
    """Last chat_id of the previous page."""


class Statement(InChat):
    """A statement."""

    content: str
    user_id: str | None = None
    """Whom it is about; default: everybody."""


class MemoryId(Closed):
    """A memory."""

    memory_id: UUID


class Correction(MemoryId):
    """What is right."""

    content: str | None = None
    """Without it the memory is only retracted."""


@_tool("context", in_chat=True)
async def recall(api: Api, given: Question) -> Recalled:
    """Get what a chat's history and memories say about a question."""
    return await api.call(Recalled, "POST", "/v1/context", await _in_chat(api, given))


@_tool("read", in_chat=True)
async def search(api: Api, given: Search) -> Found:
    """Find messages or sessions of a chat."""
    return await api.call(Found, "POST", "/v1/search", await _in_chat(api, given))


@_tool("read", in_chat=True)
async def read(api: Api, given: Reading) -> Page:
    """Read a session's messages, from its beginning or around some."""
    return await api.call(Page, "POST", "/v1/more", await _in_chat(api, given))


@_tool("read")
async def about(api: Api, given: Somebody) -> Person:
    """Get what is known of a person."""
    chat_id, user_id = await api.chat(given.chat_id), given.person
    if chat_id is not None:
        members = await api.call(Members, "GET", f"/v1/chats/{quote(chat_id, safe='')}/members")
        wanted = given.person.casefold()
        called = [each for each, names in members.names.items() if wanted in map(str.casefold, names)]
        if len(called) > 1:
            raise Refused(f"Several are called {given.person}: say which one by id ({', '.join(called)}).")
        user_id = called[0] if called else user_id
    return await api.call(Person, "GET", f"/v1/users/{quote(user_id, safe='')}", {"chat_id": chat_id})


@_tool("read", in_chat=True)
async def chats(api: Api, given: ChatPage) -> Chats:
    """List chats and their ids."""
    only = (await api.key()).chats
    if only is None:
        return await api.call(Chats, "GET", "/v1/chats", given.model_dump())
    wanted = [each for each in sorted(only) if given.after is None or each > given.after][:PAGE]
    found = [await _chat(api, each) for each in wanted]
    return Chats(chats=[each for each in found if each is not None], total=len(only))


@_tool("write", "adds")
async def remember(api: Api, given: Statement) -> Changed:
    """Remember a statement that is clear by itself."""
    body = {
        "scope": "organization" if given.user_id is None else "user",
        "user_id": given.user_id,
        "content": given.content,
        "learned_in": await api.chat(given.chat_id),
    }
    return await api.call(Changed, "POST", "/v1/memories", body)


@_tool("write", "destroys")
async def correct(api: Api, given: Correction) -> Changed:
    """Correct a memory that somebody says is wrong."""
    path = f"/v1/memories/{given.memory_id}/correct"
    return await api.call(Changed, "POST", path, {"content": given.content})


@_tool("erase", "destroys")
async def forget(api: Api, given: MemoryId) -> Changed:
    """Delete a memory when a person asks for it."""
    return await api.call(Changed, "DELETE", f"/v1/memories/{given.memory_id}")


async def _chat(api: Api, chat_id: str) -> Chat | None:
    """Return a chat of the key; None for one that is still to come."""
    try:
        return await api.call(Chat, "GET", f"/v1/chats/{quote(chat_id, safe='')}")
    except Refused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


async def _in_chat(api: Api, given: InChat) -> dict[str, Any]:
    return given.model_dump() | {"chat_id": await api.chat(given.chat_id)}
