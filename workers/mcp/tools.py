"""The tools: the route that each calls with its arguments as they are, and what a model needs of the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from schemas.context import Context
from schemas.listing import ChatList
from schemas.memory_changes import MemoryReceipt
from schemas.search import MoreResult, SearchResult
from schemas.user_pages import UserPage

Fields = Mapping[str, "Fields | None"]
"""Fields of a model, with those of the models in them."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool as models see it."""

    description: str
    # method and path; the scope that a key needs is that of the route
    route: str
    effect: Literal["reads", "adds", "destroys"] = "reads"
    # JSON Schemas of the arguments, which are fields of the route; the first ones are required
    takes: Mapping[str, dict[str, Any]]
    required: int
    answer: type[BaseModel]
    # the names of others would cost a model tokens in every answer and in the list of tools
    gives: Fields


def _fields(names: str, **inner: Fields) -> dict[str, Fields | None]:
    return dict.fromkeys(names.split()) | inner


_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}


def _text(description: str) -> dict[str, Any]:
    return _TEXT | {"description": description}


_KNOWN = _fields("id content since")
TOOLS = {
    "recall": Tool(
        description="Get what a chat's history and memories say about a question.",
        route="POST /v1/context",
        takes={
            "chat_id": _TEXT,
            "query": _TEXT,
            "user_id": _text("Who asks."),
            "as_of": _text("Only what was known by then."),
            "budget_tokens": _NUMBER,
        },
        required=2,
        answer=Context,
        gives=_fields("", blocks=_fields("", items=_fields("kind id at speaker text"))),
    ),
    "search": Tool(
        description="Find messages or sessions of a chat.",
        route="POST /v1/search",
        takes={
            "chat_id": _TEXT,
            "query": _TEXT,
            "mode": {"enum": ["hybrid", "exact", "topic"], "description": "topic finds sessions."},
            "since": _TEXT,
            "until": _TEXT,
            "limit": _NUMBER,
        },
        required=2,
        answer=SearchResult,
        gives=_fields(
            "searched_back_to",
            hits=_fields("id session_id at speaker text"),
            sessions=_fields("session_id started_at summary"),
        ),
    ),
    "read": Tool(
        description="Read a session from its beginning, or around the message ids `shown`.",
        route="POST /v1/more",
        takes={
            "chat_id": _TEXT,
            "session_id": _NUMBER,
            "shown": {"type": "array", "items": _NUMBER},
            "limit": _NUMBER,
        },
        required=2,
        answer=MoreResult,
        gives=_fields("summary remaining", messages=_fields("id at speaker text")),
    ),
    "about": Tool(
        description="Get what is known of a person.",
        route="GET /v1/users/{user_id}",
        takes={"user_id": _text("Or, with chat_id, a name."), "chat_id": _TEXT},
        required=1,
        answer=UserPage,
        gives=_fields("user_id", current=_KNOWN | {"learned_in": _fields("chat_id")}, earlier=_KNOWN),
    ),
    "chats": Tool(
        description="List chats and their ids.",
        route="GET /v1/chats",
        takes={"after": _text("Last chat_id of the page before.")},
        required=0,
        answer=ChatList,
        gives=_fields("total", chats=_fields("chat_id title kind last_at")),
    ),
    "remember": Tool(
        description="Remember a statement that is clear by itself.",
        route="POST /v1/memories",
        effect="adds",
        takes={
            "content": _TEXT,
            "scope": {"enum": ["user", "organization"]},
            "user_id": _text("Whom it is about."),
            "learned_in": _text("Its chat."),
        },
        required=2,
        answer=MemoryReceipt,
        gives=_fields("outcome id"),
    ),
    "correct": Tool(
        description="Correct a memory that somebody says is wrong.",
        route="POST /v1/memories/{memory_id}/correct",
        effect="destroys",
        takes={"memory_id": _TEXT, "content": _text("Without it the memory is only retracted.")},
        required=1,
        answer=MemoryReceipt,
        gives=_fields("outcome id"),
    ),
    "forget": Tool(
        description="Delete a memory when a person asks for it.",
        route="DELETE /v1/memories/{memory_id}",
        effect="destroys",
        takes={"memory_id": _TEXT},
        required=1,
        answer=MemoryReceipt,
        gives=_fields("outcome id"),
    ),
}
