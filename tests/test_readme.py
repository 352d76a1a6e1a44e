"""Everything that the README names is there: commands, options, settings, files, queues, figures of profiles."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any, get_args

import click
import pytest
import typer
from pydantic import BaseModel

from ops import cli, exit_codes
from ops.commands import up
from pipeline.ranking import bm25
from pipeline.ranking.model import Weights
from pipeline.retrieval import candidates, profiles
from pipeline.retrieval.profiles import PROFILES, PURPOSES, Parameters
from pipeline.store import keyword_search, memories, vector_search
from schemas.backfills import BackfillKind
from schemas.context import BlockKind, Context
from schemas.messages import (
    FIRST_YEAR,
    LANGUAGES,
    LAST_YEAR,
    MAX_CONTENT_BYTES,
    MAX_METADATA_BYTES,
    MAX_METADATA_DEPTH,
    ChatIn,
    MessageIn,
)
from schemas.payloads import ContextQuery, IngestPayload, parse_payload
from schemas.search import MoreQuery, SearchMode, SearchQuery
from schemas.settings import PREFIX, Settings
from tests.conftest import CHECKOUT
from workers import queues

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PYTHON = [body for language, body in BLOCKS if language == "python"]
SHELL = [body for language, body in BLOCKS if language == "bash"]
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
CODE = re.findall(r"`([^`]+)`", PROSE)
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")] for line in PROSE.splitlines() if line[:2] == "| "
]


def commands() -> Iterator[list[str]]:
    """Each `backscroll …` of the README, as the words that a shell would pass on."""
    lines = [line for body in SHELL for line in body.replace("\\\n", " ").splitlines()]
    for text in [*lines, *CODE]:
        found = re.match(r"backscroll\s+(?!_)(.+)", " ".join(text.split()))
        if found and not found[1].startswith("("):
            yield shlex.split(found[1], comments=True)


def command_named(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words begin with, and the rest of them."""
    command: Any = typer.main.get_command(cli.app)
    while words and hasattr(command, "get_command") and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words[0])
        assert inner is not None, f"there is no command {words[0]!r}"
        command, words = inner, words[1:]
    return command, words


def options_of(command: click.Command) -> set[str]:
    """Every spelling of the command's options."""
    return {"--help", *(name for p in command.params for name in (*p.opts, *p.secondary_opts))}


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_a_command_of_the_readme_is_there_with_its_options(words: list[str]) -> None:
    command, rest = command_named(words)
    given = {word.partition("=")[0] for word in rest if word.startswith("--")}
    assert given <= options_of(command)
    if words[:2] == ["backfills", "start"]:
        assert rest[0] in get_args(BackfillKind)
    if words[0] == "worker":
        assert set(rest) <= {*queues.QUEUES, "QUEUE"}


def test_every_option_that_the_text_mentions_belongs_to_a_command() -> None:
    def walk(command: Any) -> Iterator[click.Command]:
        yield command
        if hasattr(command, "list_commands"):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield from walk(command.get_command(context, name))

    known = {option for command in walk(typer.main.get_command(cli.app)) for option in options_of(command)}
    mentioned = {code for code in CODE if re.fullmatch(r"--[a-z-]+", code)}
    assert mentioned <= known | {"--rev-id"}


def test_the_table_of_settings_is_complete_and_has_their_defaults() -> None:
    table = {row[0].strip("`"): row[1] for row in ROWS if row[0].startswith(f"`{PREFIX}")}
    assert list(table) == [PREFIX + name.upper() for name in Settings.model_fields]
    for name, field in Settings.model_fields.items():
        stated = table[PREFIX + name.upper()]
        if field.default is not None and field.default_factory is None:
            expected = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
            assert stated == f"`{expected}`", name


def test_every_variable_that_is_named_is_read_by_something() -> None:
    settings = {PREFIX + name.upper() for name in Settings.model_fields}
    around = "".join(
        (CHECKOUT / name).read_text(encoding="utf-8")
        for name in ("ops/environment.sh", "compose.yaml", ".env.example", "schemas/settings.py")
    )
    for name in set(re.findall(rf"\b{PREFIX}[A-Z_]+[A-Z]\b", README)) - settings:
        known = name in around or name.removeprefix(PREFIX) == "CONFIG"
        assert known, name


def test_the_other_names_of_settings_are_taken() -> None:
    others = {
        str(choice)
        for field in Settings.model_fields.values()
        for choice in getattr(field.validation_alias, "choices", ())
        if not str(choice).startswith(PREFIX)
    }
    stated = {code.removesuffix("…") for code in CODE if re.match(r"(CONTEXT|VECTOR)_", code)}
    assert all(any(other.startswith(name) for other in others) for name in stated)
    assert all(any(other.startswith(name) for name in stated) for other in others)


def test_every_file_that_is_named_exists() -> None:
    path = re.compile(r"(?:\.?/)?[\w./-]+/[\w.-]*|[\w.-]+\.(?:py|sh|yaml|toml|example)|LICENSE")
    made = (".venv/", "/var/lib/backscroll", "/docs", "/metrics", "/healthcheck", "/healthz", "/readyz")
    links = re.findall(r"\]\((?!http|#)([^)]+)\)", README)
    inside = ["", "pipeline/", "pipeline/platforms/"]
    for name in [*(code for code in CODE if path.fullmatch(code) and not code.startswith(made)), *links]:
        assert any((CHECKOUT / folder / name).exists() for folder in inside), name


def test_the_map_of_the_tree_is_the_tree() -> None:
    (text,) = [body for language, body in BLOCKS if language == "text" and body.startswith("schemas/")]
    folder = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            folder = line.split()[0]
            assert (CHECKOUT / folder).exists(), folder
        for name in re.findall(r"[\w]+(?:\.py|/)(?=[\s;,)]|$)", line):
            assert (CHECKOUT / folder / name).exists() or (CHECKOUT / name).exists(), name


def test_every_queue_is_explained_and_no_other() -> None:
    named = set(re.findall(r"`(backscroll\.[a-z]+)`", PROSE)) - {"backscroll.ingest", "backscroll.dump"}
    real = {queue.full_name for queue in queues.QUEUES.values()} | {queues.DEAD}
    assert named | {"backscroll.ingest"} == real


@pytest.mark.parametrize("body", PYTHON, ids=range(len(PYTHON)))
def test_python_of_the_readme_compiles(body: str) -> None:
    compile(body, "README.md", "exec")


def test_the_task_that_bots_send_is_one_that_a_worker_of_that_queue_takes() -> None:
    sent: dict[str, Any] = {}

    class Celery:
        def __init__(self, broker: str) -> None:
            sent["broker"] = broker

        def send_task(self, name: str, **given: Any) -> None:
            sent.update(given, name=name)

    (body,) = [body for body in PYTHON if "send_task" in body]
    body = body.replace("import celery\n", "").replace("import os\n", "")
    body = body.replace('os.environ["BACKSCROLL_REDIS_URL"]', '"redis://localhost"')
    exec(body, {"celery": type("celery", (), {"Celery": Celery})})  # noqa: S102 - our own README

    assert sent["queue"] == queues.ACCEPT.full_name
    from workers.tasks.ingest import ingest

    assert sent["name"] == ingest.name
    assert parse_payload(IngestPayload, sent["kwargs"]).messages
    text = sent["kwargs"]["messages"][0]["content"]
    assert text not in sent["argsrepr"] + sent["kwargsrepr"]


def test_bodies_that_curl_sends_are_taken() -> None:
    bodies: dict[str, Any] = {
        "/v1/messages": IngestPayload,
        "/v1/context": ContextQuery,
        "/v1/more": MoreQuery,
    }
    sent = []
    for line in "\n".join(SHELL).replace("\\\n", " ").splitlines():
        if line.startswith("curl") and " -d " in line:
            words = shlex.split(line)
            (path,) = [path for path in bodies if any(word.endswith(path) for word in words)]
            parse_payload(bodies[path], json.loads(words[words.index("-d") + 1]))
            sent.append(path)
    assert set(sent) == set(bodies)


def test_the_four_curl_lines_are_those_that_the_demo_prints() -> None:
    from datetime import UTC, datetime

    def shape(line: str) -> str:
        line = line.replace('"Authorization: Bearer $KEY"', "'Authorization: Bearer KEY'")
        return re.sub(r'(curl-|"sent_at": ")[^"]*', r"\1…", line)

    printed = up.curl_lines("http://127.0.0.1:8420", "KEY", datetime.now(UTC))
    shown = [line for line in "\n".join(SHELL).splitlines() if line.startswith("curl -sw")]
    assert [shape(line) for line in shown] == [shape(line) for line in printed]


def test_lines_of_our_own_format_are_read() -> None:
    from pipeline.platforms import jsonlines
    from pipeline.platforms.records import Broken, ImportOptions, Record

    (body,) = [body for language, body in BLOCKS if language == "json"]
    read = list(jsonlines.parse(body.splitlines(), ImportOptions()))
    assert any(isinstance(item, Record) for item in read)
    assert not any(isinstance(item, Broken) for item in read)


def test_the_table_of_profiles_has_their_numbers() -> None:
    (names,) = [row[1:] for row in ROWS if row[0] == "parameter"]
    assert [name.strip("`") for name in names] == list(PROFILES)
    told: set[str] = set()
    for row in ROWS:
        found = re.match(r"`(\w+)`", row[0])
        if found and found[1] in Parameters.__dataclass_fields__ and len(row) == len(PROFILES) + 1:
            numbers = [getattr(profile, found[1]) for profile in PROFILES.values()]
            assert [float(cell) for cell in row[1:]] == numbers, found[1]
            told.add(found[1])
    assert told == set(Parameters.__dataclass_fields__)


def test_the_weights_are_those_of_the_ranking() -> None:
    stated = dict(re.findall(r"`(\w+)` (-?[\d.]*\d)", PROSE))
    weights = {name: getattr(Weights(), name) for name in profiles.WEIGHTS}
    assert {name: float(stated[name]) for name in weights} == weights


def test_the_limits_of_retrieval_are_those_of_the_code() -> None:
    assert f"Chats of up to {candidates.WHOLE_UP_TO:,} messages are read whole" in PROSE
    assert PROSE.count(f"the {candidates.CANDIDATES_PER_ARM} ") == 2
    neighbours = {2: "two", 3: "three", 4: "four", 5: "five"}[candidates.REACH]
    assert f"each with {neighbours} neighbours on either side" in " ".join(PROSE.split())
    assert f"over {vector_search.EXACT_UP_TO:,} of them" in PROSE
    assert f"in more than {keyword_search.CANDIDATES:,} messages together" in " ".join(PROSE.split())
    assert f"(k1 = {bm25.K1}, b = {bm25.B})" in PROSE
    assert f"The latest {memories.SESSIONS} sessions count." in PROSE


def test_the_context_is_described_field_by_field() -> None:
    fields = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[0])}
    assert set(Context.model_fields) <= fields
    kinds = re.search(r"Blocks come in this order.*?\n\n", PROSE, re.DOTALL)
    assert kinds is not None
    assert tuple(re.findall(r"`(\w+)`", kinds[0])) == get_args(BlockKind)
    query = re.search(r"A query has.*?\n\n", PROSE, re.DOTALL)
    assert query is not None
    assert set(re.findall(r"`(\w+)`", query[0])) == set(ContextQuery.model_fields)
    assert f"[{len(LANGUAGES)} configurations]" in README


def table_under(heading: str) -> list[list[str]]:
    """The rows of the one table whose first column has this heading."""
    (table,) = re.findall(rf"^\| {heading} \|.*?(?=\n\n)", PROSE, re.MULTILINE | re.DOTALL)
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()[2:]]


def test_every_profile_is_explained_in_the_words_of_the_code() -> None:
    told = {row[0].strip("`"): row[1] for row in table_under("profile")}
    assert told == PURPOSES
    assert list(told) == list(PROFILES)


def as_told(field: dict[str, Any]) -> tuple[str, str]:
    """A field's type and limit as the README writes them, from its JSON schema."""
    kinds = [kind for kind in _flat(field) if kind.get("type") != "null"]
    types = [str(kind.get("type")) for kind in kinds if "type" in kind]
    if any(kind.get("format") == "date-time" for kind in kinds):
        return "time", ""
    if values := next((kind["enum"] for kind in kinds if "enum" in kind), None):
        *first, last = [f"`{value}`" for value in values]
        return f"{', '.join(first)} or {last}", ""
    bounds = {name: value for kind in kinds for name, value in kind.items() if name.startswith(("m", "M"))}
    limit = ""
    if "maxLength" in bounds:
        least = f"{bounds['minLength']}–" if "minLength" in bounds else ""
        limit = f"{least}{bounds['maxLength']} characters"
    if "maximum" in bounds:
        limit = f"{bounds['minimum']}–{bounds['maximum']}"
    return " or ".join(types), limit


def _flat(field: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield field
    for inner in field.get("anyOf", []):
        yield from _flat(inner)


# What no JSON schema says.
LIMITS = {
    "content": f"{MAX_CONTENT_BYTES:,} bytes",
    "sent_at": f"years {FIRST_YEAR}–{LAST_YEAR}",
    "metadata": f"{MAX_METADATA_BYTES:,} bytes, {MAX_METADATA_DEPTH} levels",
}


@pytest.mark.parametrize(("what", "model"), [("message", MessageIn), ("chat", ChatIn)])
def test_the_fields_of_what_is_handed_over_are_those_of_the_schema(what: str, model: type[BaseModel]) -> None:
    rows = table_under(f"field of a {what}")
    schema = model.model_json_schema()
    assert {row[0].strip("`") for row in rows} == set(schema["properties"])
    for name, kind, limit, purpose in rows:
        field = name.strip("`")
        stated, bound = as_told(schema["properties"][field])
        assert (kind, limit) == (stated, LIMITS.get(field, bound)), field
        assert purpose.startswith("must be there") == (field in schema["required"]), field


def test_every_mode_and_filter_of_a_search_is_named() -> None:
    (section,) = re.findall(r"^## Searching.*?(?=^## )", PROSE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) - {"mode"} == set(get_args(SearchMode))
    assert set(SearchQuery.model_fields) - {"chat_id", "query"} <= set(re.findall(r"`(\w+)`", section))


def test_every_exit_code_is_explained() -> None:
    of_errors = set(exit_codes.OF_ERROR.values())
    of_results = {0, exit_codes.NOT_AS_IT_SHOULD_BE, exit_codes.ERRORS_FOUND}
    real = of_errors | of_results | {exit_codes.DEFECT, exit_codes.INTERRUPTED}
    assert {int(row[0]) for row in ROWS if row[0].isdigit()} == real
