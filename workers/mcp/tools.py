"""The tools: the route that each calls with its arguments unchanged, and what a model is shown of the answer.

What people wrote is data, as in a context: fenced as recalled, and without what ends a fence, begins a turn or a line.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from pipeline.text import fencing, truncate
from schemas.context import Context
from schemas.digests import Digest
from schemas.listing import ChatList
from schemas.memories import MemoryReceipt, certainty
from schemas.people import UserPage
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
    # which of them is the chat of a name and of a time without an offset
    chat: str = "chat_id"
    answer: type[BaseModel]
    # the fields that a model needs: each costs tokens in every answer and in the list of tools
    gives: Fields
    effect: Literal["reads", "adds", "destroys"] = "reads"
    # parameters that a model need not know
    always: Mapping[str, str] = field(default_factory=dict)


def _text(description: str, *values: str) -> dict[str, Any]:
    return {"type": "string", **({"enum": [*values]} if values else {}), "description": description}


ARGUMENTS: dict[str, dict[str, Any]] = {
    "chat_id": _text("Id of the chat"),
    "query": _text("What to find"),
    "content": _text("One clear sentence"),
    "user_id": _text("Person: id, or name in the chat"),
    "memory_id": _text("Its id"),
    "as_of": _text("Only what was known by then"),
    "since": _text("From this date or time"),
    "until": _text("Before this date or time"),
    "after": _text("Last chat_id so far"),
    "learned_in": _text("chat_id where it was said"),
    "profile": _text("Looks into whole sessions", "contextual"),
    "mode": _text("topic, contextual: sessions", "hybrid", "exact", "topic", "contextual"),
    "scope": _text("Whom it is about", "user", "organization"),
    "session_id": {"type": "integer", "description": "Id of the session"},
    "budget_tokens": {"type": "integer", "description": "At most so long"},
    "limit": {"type": "integer", "description": "At most so many"},
    "shown": {"type": "array", "items": {"type": "integer"}, "description": "Message ids seen"},
}
"""JSON Schemas of arguments, by name, in what the validators of all providers take: one plain type each."""

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
    "digest": Tool(
        description="Tell what `user_id` missed in a chat.",
        route="POST /v1/digest",
        takes="chat_id user_id since",
        required=1,
        answer=Digest,
        gives=_fields("since messages text"),
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
        description="List chats, the latest active first.",
        route="GET /v1/chats",
        always={"order": "latest"},
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
        chat="learned_in",
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


_WHEN = ("at", "since", "started_at", "last_at")
_WHAT = ("text", "content", "summary", "title")
_NAMES = ("speaker", "title")


def picked(value: Any, fields: Fields | None) -> Any:
    """Return these fields of an answer, without nulls, their texts harmless."""
    if isinstance(value, list):
        return [picked(item, fields) for item in value]
    if fields is None:
        return fencing.harmless(fencing.visible(value)) if isinstance(value, str) else value
    parts = {name: picked(value[name], fields[name]) for name in fields if value.get(name) is not None}
    return parts | {name: fencing.name(parts[name]) for name in _NAMES if name in parts}


def schema_of(fields: Fields | None, schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the result of `picked`: types only, as every word costs tokens."""
    if "$ref" in schema:
        return schema_of(fields, definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        (present,) = (option for option in schema["anyOf"] if option != {"type": "null"})
        return schema_of(fields, present, definitions)
    kept = {"type": schema["type"]}
    if "items" in schema:
        kept["items"] = schema_of(fields, schema["items"], definitions)
    elif fields is not None:
        parts = schema["properties"]
        kept["properties"] = {
            name: schema_of(inner, parts[name], definitions) for name, inner in fields.items()
        }
    return kept


def as_text(answer: dict[str, Any], structured: dict[str, Any]) -> str:
    """Return how sure an answer is, then fenced lines, one for each part of a list, after a context's own text."""
    judged = structured.get("evidence")
    opening = [certainty(judged, answer.get("evidence_probability"))] if judged else []
    if "blocks" in structured and "text" in answer:
        # a context fences what it quotes; other tools also need the ids of its memories
        parts = [
            part for block in structured["blocks"] for part in block["items"] if part["kind"] == "memory"
        ]
        return "\n".join([*opening, answer["text"], *([fenced(map(_line, parts))] if parts else [])])
    lines = []
    for name, part in structured.items():
        if isinstance(part, list):
            lines += [f"{name}:" if part else f"{name}: none", *map(_line, part)]
        elif name != "evidence":
            lines.append(f"{name}: {part}")
    return "\n".join([*opening, fenced(lines)])


def fenced(lines: Iterable[str]) -> str:
    """Fence texts as recalled, each on a line of its own."""
    return "\n".join([fencing.OPEN, *map(truncate.one_line, lines), fencing.CLOSE])


def _line(part: dict[str, Any]) -> str:
    """Return ids and the like, then the time and the speaker, and last the words, which might look like these."""
    when, what = (next((name for name in names if name in part), "") for names in (_WHEN, _WHAT))
    rest = [f"{name} {_flat(value)}" for name, value in part.items() if name not in {when, what, "speaker"}]
    opening = [f"[{', '.join(rest)}]", *(str(part[name]) for name in (when, "speaker") if name in part)]
    return f"- {' '.join(opening)}: {part.get(what, '')}"


def _flat(part: Any) -> str:
    return " ".join(map(str, part.values())) if isinstance(part, dict) else str(part)
