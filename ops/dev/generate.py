"""Write what is generated: pages of settings and kinds, the newest schema, and the migrations' checksums."""

import hashlib
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

import migrations
from ops.local import migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.platforms import kinds
from pipeline.store.connections.database import Database
from pipeline.store.operations import checks
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
that `{PREFIX}CONFIG` names. Unknown ones, and values out of bounds, are refused at the start. In parentheses are a
setting's default and what is allowed. Those with * are also read with `CONTEXT_` (sessions), `VECTOR_` (embeddings) or
nothing (OpenAI) in the place of `{PREFIX}`. `.env.example` has what `compose.yaml` wants besides.
"""


def configuration() -> str:
    """Return the page as Markdown."""
    lines = [INTRODUCTION]
    properties = Settings.model_json_schema(by_alias=False)["properties"]
    for name, schema in properties.items():
        if name in SECTIONS:
            lines.append(f"\n## {SECTIONS[name]}\n")
        values = "; ".join(filter(None, (_default(schema), _allowed(schema))))
        field = Settings.model_fields[name]
        star = "*" if field.validation_alias else ""
        meaning = " ".join((field.description or "").split())
        lines.append(f"- `{PREFIX}{name.upper()}`{star} ({values}): {meaning}")
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
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "maximum": "≤"}
    bounds = [f"{sign}{kind[name]}" for name, sign in signs.items() if name in kind]
    plain = {"boolean": "", "string": "", "password": "secret"}
    kind_of = kind.get("format", kind["type"])
    return ", ".join(bounds) or plain.get(kind_of, kind_of)


KINDS_PAGE = PAGE.with_name("kinds.md")
KINDS_INTRODUCTION = """\
<!-- Written by `backscroll dev docs` from pipeline/platforms/kinds/: change it there. -->

# Kinds of messages and events

How everything that platforms send and export is treated, by the platforms' own names: `*` stands for any ending,
`pin_{a,b}` for `pin_a` and `pin_b`, and a word in brackets is put before the text. A kind that is not here is kept as
text if it holds any, and counted by its own name.
"""
_FIRST_WORD = re.compile(r"[A-Za-z]*?[a-z](?=[A-Z])|[A-Za-z]+[._]|")


def kinds_page() -> str:
    return KINDS_INTRODUCTION + "".join(map(_kinds_section, kinds.TABLES))


def _kinds_section(name: str) -> str:
    table = kinds.load(name)
    plain, marked = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for kind, fate in filter(itemgetter(0), table.fates.items()):
        told = kinds.FATES.get(fate, "counted by a name")
        mark = (
            f" [{word}]" if (word := table.words.get(kind)) else "" if fate in kinds.FATES else f" ({fate})"
        )
        plain[told] += [] if mark else [kind]
        marked[told] += [f"`{kind}`{mark}"] if mark else []
    rows = (f"- {told}: {', '.join([*_together(plain[told]), *marked[told]])}\n" for told in plain)
    return f"\n## {name}\n\n{table.about}\n\n{''.join(rows)}"


def _together(names: Iterable[str]) -> list[str]:
    """Write names that begin with the same word as one, with the rest of them in braces, and the others together.

    >>> _together(["pin_added", "pin_removed", "imageMessage", "hello"])
    ['`pin_{added,removed}`', '`{imageMessage,hello}`']
    """
    sharing = defaultdict[str, list[str]](list)
    for name in names:
        sharing[_FIRST_WORD.match(name)[0]].append(name)  # type: ignore[index]  # it matches nothing, too
    alone = [name for word, group in sharing.items() if not word or len(group) == 1 for name in group]
    together = {word: group for word, group in sharing.items() if word and len(group) > 1} | {"": alone}
    return [
        f"`{group[0]}`"
        if len(group) == 1
        else f"`{word}{{{','.join(name.removeprefix(word) for name in group)}}}`"
        for word, group in together.items()
        if group
    ]


FOLDER = Path(migrations.__file__).parent
SCHEMA, CHECKSUMS = FOLDER / "schema.txt", FOLDER / "checksums.txt"
# What runs a migration, and may change as long as what it makes does not.
_MACHINERY = {"__init__.py", "concurrently.py", "env.py", "partitioning.py", "patience.py"}


def write_schema() -> None:
    """Write both files. A checksum that stands there is kept: a committed migration is never edited."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder), durable=False) as server:
        migrate.upgrade(server.dsn("owner"))
        with closing(Database(server.dsn("app"))) as database, database.unscoped() as connection:
            SCHEMA.write_text(
                "".join(f"{line}\n" for line in checks.catalog_lines(connection)), encoding="utf-8"
            )
    known = written_checksums() if CHECKSUMS.exists() else {}
    frozen = checksums() | known
    CHECKSUMS.write_text("".join(f"{sha}  {name}\n" for name, sha in sorted(frozen.items())))


def written_checksums() -> dict[str, str]:
    """Return the committed checksum of each file, by its path in `migrations/`."""
    return {name: sha for sha, name in map(str.split, CHECKSUMS.read_text().splitlines())}


def checksums() -> dict[str, str]:
    """Return the present checksum of each file in `migrations/` that makes something."""
    paths = (path for path in FOLDER.rglob("*") if path.suffix in {".py", ".sql"})
    files = sorted(path.relative_to(FOLDER).as_posix() for path in paths)
    return {
        name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()
        for name in files
        if name not in _MACHINERY
    }
