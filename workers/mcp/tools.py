"""The tools: the route that each calls with its arguments unchanged, and the fields that a model needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from schemas.context import Context
from schemas.listing import ChatList
from schemas.memory.memory_changes import MemoryReceipt
from schemas.people.user_pages import UserPage
from schemas.search import MoreResult, SearchResult

Fields = Mapping[str, "Fields | None"]
"""Fields of a model, with those of the models in them."""


def _fields(names: str, **inner: Fields) -> dict[str, Fields | None]:
    return dict.fromkeys(names.split()) | inner


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool as models see it."""

    description: str
    # method and path, whose scope a key needs
    route: str
    # names of its arguments, the required ones first
    takes: str
    required: int
    answer: type[BaseModel]
    # the fields that a model needs: each costs tokens in every answer and in the list of tools
    gives: Fields
    effect: Literal["reads", "adds", "destroys"] = "reads"


ARGUMENTS: dict[str, dict[str, Any]] = {
    "as_of": {"type": "string", "description": "Only what was known by then."},
    "after": {"type": "string", "description": "Last chat_id so far."},
    "learned_in": {"type": "string", "description": "chat_id"},
    "profile": {"enum": ["contextual"]},
    "mode": {"enum": ["hybrid", "exact", "topic"], "description": "topic finds sessions."},
    "scope": {"enum": ["user", "organization"]},
    "session_id": {"type": "integer"},
    "budget_tokens": {"type": "integer"},
    "limit": {"type": "integer"},
    "shown": {"type": "array", "items": {"type": "integer"}},
}
"""JSON Schemas of arguments, by name; any other is a string."""

_KNOWN = _fields("id content since")
TOOLS = {
    "recall": Tool(
        description="Get what a chat's history and memories say about a question of `user_id`.",
        route="POST /v1/context",
        takes="chat_id query user_id as_of profile budget_tokens",
        required=2,
        answer=Context,
        gives=_fields("evidence", blocks=_fields("", items=_fields("kind id at speaker text"))),
    ),
    "search": Tool(
        description="Find messages or sessions of a chat.",
        route="POST /v1/search",
        takes="chat_id query mode since until limit",
        required=2,
        answer=SearchResult,
        gives=_fields(
            "evidence searched_back_to",
            hits=_fields("id session_id at speaker text"),
            sessions=_fields("session_id started_at summary"),
        ),
    ),
    "read": Tool(
        description="Read a session, or around the message ids `shown`.",
        route="POST /v1/more",
        takes="chat_id session_id shown limit",
        required=2,
        answer=MoreResult,
        gives=_fields("summary remaining", messages=_fields("id at speaker text")),
    ),
    "about": Tool(
        description="Get what is known of a person: by id or, in a chat, by name.",
        route="GET /v1/users/{user_id}",
        takes="user_id chat_id",
        required=1,
        answer=UserPage,
        gives=_fields("user_id", current=_KNOWN | {"learned_in": _fields("chat_id")}, earlier=_KNOWN),
    ),
    "chats": Tool(
        description="List chats.",
        route="GET /v1/chats",
        takes="after",
        required=0,
        answer=ChatList,
        gives=_fields("total", chats=_fields("chat_id title kind last_at")),
    ),
    "remember": Tool(
        description="Remember a clear statement, about a user or everybody.",
        route="POST /v1/memories",
        takes="content scope user_id learned_in",
        required=2,
        answer=MemoryReceipt,
        gives=_fields("outcome id"),
        effect="adds",
    ),
    "correct": Tool(
        description="Correct a memory that somebody says is wrong; without content, retract it.",
        route="POST /v1/memories/{memory_id}/correct",
        takes="memory_id content",
        required=1,
        answer=MemoryReceipt,
        gives=_fields("outcome id"),
        effect="destroys",
    ),
    "forget": Tool(
        description="Delete a memory when a person asks for it.",
        route="DELETE /v1/memories/{memory_id}",
        takes="memory_id",
        required=1,
        answer=MemoryReceipt,
        gives=_fields("outcome id"),
        effect="destroys",
    ),
}
