"""Write the guide's configuration page from the settings and their docstrings."""

from pathlib import Path
from typing import Any

from schemas.settings import PREFIX, Settings

PAGE = Path(__file__).parents[1] / "guide" / "configuration.md"

SECTIONS = {
    "database_url": "Servers and data",
    "tenant": "HTTP API, Flower and logs",
    "session_memory_enabled": "Sessions and summaries",
    "llm_daily_budget": "Language models",
    "embedding_provider": "Models",
    "memory_session_ttl_minutes": "Memories",
    "context_budget_tokens": "Contexts and the query log",
    "retention_days": "Retention",
    "sweep_seconds": "Jobs",
}
"""Heading above the setting of this name, and above those that follow it."""

INTRODUCTION = f"""\
<!-- Written by `backscroll dev docs` from schemas/settings.py: change it there. -->

# Configuration

A setting is a variable `{PREFIX}…` in the environment, which wins, in `.env` in the working directory, or in the file
that `{PREFIX}CONFIG` names. Backscroll refuses to start with a wrong value or an unknown `{PREFIX}…`.

`{PREFIX}VENV` and `PYTHON` tell `./ops/run` and `./ops/test` where to make the environment, and with which Python;
`.env.example` has what `compose.yaml` wants besides.

In parentheses are a setting's default and what is allowed; “also” names another variable that it is read from.
"""


def configuration() -> str:
    """Return the page as Markdown."""
    lines = [INTRODUCTION]
    properties = Settings.model_json_schema(by_alias=False)["properties"]
    for name, schema in properties.items():
        if name in SECTIONS:
            lines.append(f"\n## {SECTIONS[name]}\n")
        values = "; ".join(filter(None, (_default(schema), _allowed(schema))))
        lines.append(f"- `{PREFIX}{name.upper()}` ({values}): {_meaning(name)}")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _default(schema: dict[str, Any]) -> str:
    if "default" not in schema:
        return "–"
    value = schema["default"]
    return "unset" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _allowed(schema: dict[str, Any]) -> str:
    """Return a setting's bounds or values, or its type where the default does not tell it."""
    (kind,) = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    if "minimum" in kind and "maximum" in kind:
        return f"{kind['minimum']}–{kind['maximum']}"
    signs = {"exclusiveMinimum": "> ", "minimum": "≥ ", "maximum": "≤ "}
    bounds = [f"{sign}{kind[name]}" for name, sign in signs.items() if name in kind]
    plain = {"boolean": "", "password": "secret"}
    kind_of = kind.get("format", "text") if kind["type"] == "string" else kind["type"]
    return ", ".join(bounds) or plain.get(kind_of, kind_of)


def _meaning(name: str) -> str:
    field = Settings.model_fields[name]
    aliases = [
        f"`{choice}`"
        for choice in getattr(field.validation_alias, "choices", ())
        if not str(choice).startswith(PREFIX)
    ]
    also = f" Also {', '.join(aliases)}." if aliases else ""
    return " ".join((field.description or "").split()) + also
