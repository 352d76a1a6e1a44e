"""Everything that the README and the guide name is there: commands, options, settings, files, links, routes."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import pytest
import typer

from ops import cli
from ops.dev import generate
from pipeline.jobs.failures import backoff_seconds
from pipeline.operations.doctor.facts import DEFAULT_PAGE
from pipeline.operations.doctor.facts import PAGES as FINDINGS
from pipeline.platforms import jsonlines, kinds
from pipeline.platforms.records import Broken, ImportOptions, Record
from schemas.backfills import BackfillKind
from schemas.context import AnswerIn
from schemas.payloads import ContextQuery, IngestPayload, parse_payload
from schemas.search import MoreQuery
from schemas.settings import PREFIX, Settings
from tests.conftest import CHECKOUT
from tests.guide.pages import PAGES, README, Page, page
from workers import queues
from workers.api.app import make_web_app

INSPECTED = {f"/inspect/{name}" for name in "chats jobs backfills spaces cost queries people".split()}
WRITE = "it is written by `backscroll dev docs`"
of_each_page = pytest.mark.parametrize("page", PAGES, ids=str)


def commands(page: Page) -> Iterator[list[str]]:
    """Each `backscroll …` of a page, as the words that a shell would pass on."""
    yield from (words[1:] for words in page.shell() if words[:1] == ["backscroll"])
    for code in page.code:
        found = re.match(r"backscroll\s+(?!_)(.+)", " ".join(code.split()))
        if found and not found[1].startswith("("):
            yield shlex.split(found[1])


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


@of_each_page
def test_a_command_of_the_guide_is_there_with_its_options(page: Page) -> None:
    for words in commands(page):
        command, rest = command_named(words)
        given = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert given <= options_of(command), words
        if words[:2] == ["backfills", "start"]:
            assert rest[0] in get_args(BackfillKind)
        if words[0] == "worker":
            assert set(rest) <= {*queues.QUEUES, "QUEUE"}


@of_each_page
def test_every_option_that_the_text_mentions_belongs_to_a_command(page: Page) -> None:
    def walk(command: Any) -> Iterator[click.Command]:
        yield command
        if hasattr(command, "list_commands"):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield from walk(command.get_command(context, name))

    known = {option for command in walk(typer.main.get_command(cli.app)) for option in options_of(command)}
    assert {code.split()[0] for code in page.code if re.match(r"--[a-z]", code)} <= known


def test_the_configuration_page_is_as_the_settings_describe_themselves() -> None:
    assert generate.PAGE.read_text(encoding="utf-8") == generate.configuration(), WRITE
    assert all(field.description for field in Settings.model_fields.values())
    assert set(generate.SECTIONS) <= set(Settings.model_fields)


def test_the_page_of_kinds_is_as_their_tables_are() -> None:
    assert generate.KINDS_PAGE.read_text(encoding="utf-8") == generate.kinds_page(), WRITE
    written = Path(kinds.__file__).parent.glob("*.toml")
    assert sorted(kinds.TABLES) == sorted(path.stem for path in written)


@of_each_page
def test_every_variable_that_is_named_is_read_by_something(page: Page) -> None:
    settings = {PREFIX + name.upper() for name in Settings.model_fields}
    around = "".join(
        (CHECKOUT / name).read_text(encoding="utf-8")
        for name in (
            "ops/environment.sh",
            "compose.yaml",
            ".env.example",
            "schemas/settings.py",
            "ops/clients/python/backscroll_client/client.py",
        )
    )
    for name in set(re.findall(rf"\b{PREFIX}[A-Z_]+[A-Z]\b", page.text)) - settings:
        assert name in around or name.removeprefix(PREFIX) == "CONFIG", name


@of_each_page
def test_every_file_that_is_named_exists(page: Page) -> None:
    path = re.compile(r"\.?/?(?:[\w.-]+/)+[\w.-]*|[\w.-]+\.(?:py|sh|yaml|toml|example)|LICENSE")
    made = (".venv/", "/", "metrics", "message:")
    missing = [
        code
        for code in page.code
        if path.fullmatch(code) and not code.startswith(made) and not (CHECKOUT / code).exists()
    ]
    assert not missing


@of_each_page
def test_every_link_leads_to_a_file_and_a_heading(page: Page) -> None:
    for target, anchor in page.links:
        there = Page((page.path.parent / target).resolve() if target else page.path)
        assert there.path.exists(), target
        assert not anchor or anchor in there.anchors, f"{target}#{anchor}"


def test_every_page_of_the_guide_is_linked_from_the_readme() -> None:
    linked = {Path(target).name for target, _ in README.links}
    assert {each.path.name for each in PAGES[1:]} <= linked
    # which is short
    assert len(README.text.splitlines()) <= 300


def test_what_is_written_in_json_is_taken() -> None:
    (body,) = page("importing").blocks("json")
    read = list(jsonlines.parse(body.splitlines(), ImportOptions()))
    assert any(isinstance(item, Record) for item in read)
    assert not any(isinstance(item, Broken) for item in read)
    (body,) = page("context").blocks("json")
    assert parse_payload(AnswerIn, json.loads(body)).used
    for code in (code for each in PAGES for code in each.code if code.startswith('{"')):
        json.loads(code)


@of_each_page
def test_bodies_that_curl_sends_are_taken(page: Page) -> None:
    bodies: dict[str, Any] = {
        "/v1/messages": IngestPayload,
        "/v1/context": ContextQuery,
        "/v1/more": MoreQuery,
    }
    for words in page.shell():
        if words[:1] == ["curl"] and "-d" in words:
            (path,) = [path for path in bodies if any(word.endswith(path) for word in words)]
            parse_payload(bodies[path], json.loads(words[words.index("-d") + 1]))


@of_each_page
def test_python_of_the_guide_compiles(page: Page) -> None:
    for body in page.blocks("python"):
        compile(body, str(page), "exec")


def test_the_bot_of_the_readme_sends_what_the_api_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}

    class Response:
        def read(self) -> bytes:
            return b'{"messages": []}'

    def urlopen(request: Any, timeout: float) -> Response:
        sent[request.selector] = json.loads(request.data)
        return Response()

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setenv("BACKSCROLL_API_KEY", "key")
    (body,) = README.blocks("python")
    exec(body, {})  # noqa: S102 - our own README
    assert parse_payload(IngestPayload, sent["/v1/messages"]).messages
    assert parse_payload(ContextQuery, sent["/v1/context"]).query


def test_the_task_that_bots_send_is_one_that_a_worker_of_that_queue_takes() -> None:
    sent: dict[str, Any] = {}

    class Celery:
        def __init__(self, broker: str) -> None:
            sent["broker"] = broker

        def send_task(self, name: str, **given: Any) -> None:
            sent.update(given, name=name)

    (body,) = [body for body in page("bots").blocks("python") if "send_task" in body]
    body = body.replace("import celery\n", "").replace("import os\n", "")
    body = body.replace('os.environ["BACKSCROLL_REDIS_URL"]', '"redis://localhost"')
    exec(body, {"celery": type("celery", (), {"Celery": Celery})})  # noqa: S102 - our own guide

    assert sent["queue"] == queues.ACCEPT.full_name
    from workers.tasks import ingest

    assert sent["name"] == ingest.name
    assert parse_payload(IngestPayload, sent["kwargs"]).messages
    text = sent["kwargs"]["messages"][0]["content"]
    assert text not in sent["argsrepr"] + sent["kwargsrepr"]


def test_every_queue_is_explained_and_no_other() -> None:
    named = {row[0].strip("`") for row in page("operating").table("queue")}
    assert named == {queue.full_name for queue in queues.QUEUES.values()}


def test_every_route_that_is_named_is_one() -> None:
    nowhere = {"database_url": "postgresql://127.0.0.1:1/none", "redis_url": "redis://127.0.0.1:1"}
    app = make_web_app(Settings(_env_file=None, api_key="key", **nowhere))
    paths = app.openapi()["paths"]
    real = {f"{method.upper()} {_shape(path)}" for path, methods in paths.items() for method in methods}
    named = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE) /(?:v1|healthz|readyz|mcp)[^ ?]*")
    told = {
        found[0] for page in PAGES for code in page.code if (found := named.match(" ".join(code.split())))
    }
    assert len(told) > 15
    assert {_shape(route) for route in told} <= real


def _shape(path: str) -> str:
    """Return a path without the names of its parameters."""
    return re.sub(r"\{\w+\}", "{}", path)


CHANGES = (
    "the gap by a chat's kind",
    "an embedding provider",
    "a language model's API",
    "a ranking feature",
    "a search mode",
    "a platform",
    "an HTTP route with its own table and scope",
    "the retry backoff",
    "a queue for a new kind of job",
    "what forgetting a user does",
    "a column to messages and show it in explanations",
    "support Korean",
)
"""What a newcomer must find, in the page's words."""


def test_whatever_a_newcomer_changes_the_map_names_what_is_there() -> None:
    rows = page("architecture").table("to …")
    for change in CHANGES:
        (_,) = [what for what, _ in rows if change in what]
    named = re.compile(r"`([\w/]+\.py)` \(((?:`[\w.]+`(?:, )?)+)\)")
    for what, where in [*rows, ("life", page("architecture").section("## Life of a message and of a job"))]:
        found = named.findall(" ".join(where.split()))
        assert found, what
        for path, names in found:
            source = (CHECKOUT / path).read_text(encoding="utf-8")
            for name in re.findall(r"[\w.]+", names):
                last = re.escape(name.rpartition(".")[2])
                assert re.search(
                    rf"^\s*(?:async )?(?:def|class) {last}\b|^{last}\b.* = ", source, re.MULTILINE
                ), name


def test_the_numbers_of_the_map_are_those_of_the_code() -> None:
    text, settings = page("architecture").sentences, Settings(_env_file=None)
    times = [backoff_seconds(attempt, jitter) for attempt in (1, 99) for jitter in (0, 1)]
    first, second, low, high = (
        f"{seconds:g}" for seconds in (*times[:2], *(each / 60 for each in times[2:]))
    )
    assert f"after {first} to {second} s, then twice as long each time, up to {low} to {high} min" in text
    assert f"without a pause over {settings.session_gap_minutes:g} minutes" in text
    assert f"under a **lease** of {settings.lease_seconds:g} s" in text
    assert f"after {settings.job_max_attempts} failures" in text


def test_the_map_names_every_package_of_the_pipeline() -> None:
    told = {row[0].strip("`") for row in page("architecture").table("package")}
    assert all((CHECKOUT / name).exists() for name in told)
    real = {f"pipeline/{each.parent.name}/" for each in (CHECKOUT / "pipeline").glob("*/__init__.py")}
    assert real <= told


def test_a_finding_of_the_doctor_names_a_page_that_is_there() -> None:
    told = {f"ops/guide/{name}.md#{to}" for name in ("operating", "large") for to in page(name).anchors}
    assert {*FINDINGS.values(), DEFAULT_PAGE} <= told | INSPECTED
