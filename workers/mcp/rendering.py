"""Render an answer for a model: the tool's fields, their schema, and a text of who said what and when.

What people wrote is data, as in a context: fenced as recalled, and without what ends a fence, begins a turn or a line.
"""

from collections.abc import Iterable
from typing import Any

from pipeline.text import fencing, truncate
from schemas.evidence import in_words
from workers.mcp.tools import Fields

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
    opening = [in_words(judged, answer.get("evidence_probability"))] if judged else []
    if "text" in answer:
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
