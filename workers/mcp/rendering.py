"""Render an answer for a model: the tool's fields, their schema, and a text of who said what and when."""

from typing import Any

from workers.mcp.tools import Fields

_WHEN = ("at", "since", "started_at", "last_at")
_WHAT = ("text", "content", "summary", "title")


def picked(value: Any, fields: Fields | None) -> Any:
    """Return these fields of an answer, without nulls."""
    if isinstance(value, list):
        return [picked(item, fields) for item in value]
    if fields is None:
        return value
    parts = {name: value.get(name) for name in fields}
    return {name: picked(part, fields[name]) for name, part in parts.items() if part is not None}


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
    """Return an answer as lines, one for each part of a list.

    People's words never begin a line, so that nobody's words can pass for another's.
    """
    if "text" in answer:
        # a context is a text already; other tools also need the ids of its memories
        parts = [item for block in structured["blocks"] for item in block["items"]]
        return "\n".join([answer["text"], *(_line(item) for item in parts if item["kind"] == "memory")])
    lines = []
    for name, part in structured.items():
        if isinstance(part, list):
            lines += [f"{name}:" if part else f"{name}: none", *map(_line, part)]
        else:
            lines.append(" ".join(f"{name}: {part}".split()))
    return "\n".join(lines)


def _line(part: dict[str, Any]) -> str:
    """Return who said what and when, then everything else."""
    when, what = (next((name for name in names if name in part), "") for names in (_WHEN, _WHAT))
    opening = [str(part[name]) for name in (when, "speaker") if name in part]
    rest = [f"{name} {_flat(value)}" for name, value in part.items() if name not in {when, what, "speaker"}]
    return " ".join(f"- {' '.join(opening)}: {part.get(what, '')} [{', '.join(rest)}]".split())


def _flat(part: Any) -> str:
    return " ".join(map(str, part.values())) if isinstance(part, dict) else str(part)
