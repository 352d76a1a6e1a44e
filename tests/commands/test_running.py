"""A question on the command line is answered by the Backscroll that runs, alike to the letter."""

import json
import os
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from ops import connection
from ops.local import stack
from ops.local.embedded.folder import open_lock, take
from pipeline.clients import factory
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace
from tests.api.conftest import served
from tests.commands.conftest import CHAT, Run
from tests.conftest import TENANT
from tests.ingest.test_quarantine import as_owner

QUESTION = "was it the pressure sensor of the boiler?"
# Of no two answers the same.
CHANGING = {"context_id", "timings_ms"}


@pytest.fixture
def database_name(house: str) -> str:
    """The sample chat, all of it in memory."""
    return house


@pytest.fixture
def api(settings: Settings) -> Iterator[httpx.Client]:
    """The HTTP API on that database."""
    with served(settings) as client:
        yield client


@pytest.fixture
def url(api: httpx.Client, run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where it is; commands are told, and would fail at a database or a model of their own."""
    url = str(api.base_url).rstrip("/")
    monkeypatch.setenv("BACKSCROLL_URL", url)
    monkeypatch.delenv("BACKSCROLL_DATABASE_URL")
    monkeypatch.delenv("BACKSCROLL_MAINTENANCE_DATABASE_URL")
    return url


NOW = re.compile(r"Today: [^\n]*")


def same(value: Any) -> Any:
    """An answer without what changes from one to the next."""
    if isinstance(value, dict):
        return {name: same(inner) for name, inner in value.items() if name not in CHANGING}
    if isinstance(value, float):
        # a memory's score falls with every moment
        return round(value, 3)
    if isinstance(value, str):
        # the minute may be over
        return NOW.sub("Today:", value)
    return [same(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "arguments",
    [
        ("context", QUESTION, "--json"),
        ("context", QUESTION, "--explain", "--json"),
        ("context", QUESTION, "--chat", CHAT, "--budget", "500", "--profile", "ask", "--json"),
        ("context", QUESTION),
        ("search", "pressure sensor", "--json"),
        ("search", "pressure sensor", "--mode", "contextual", "--since", "2020-01-01"),
        ("search", "boiler", "--mode", "topic", "--json"),
        ("search", "nothing of the kind", "--mode", "exact"),
    ],
    ids=" ".join,
)
def test_the_running_backscroll_answers_as_this_process_does(
    run: Run,
    settings: Settings,
    database: Database,
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = run(*arguments, "--local")
    with database.tenant(TENANT) as connection:
        # what was shown counts for more the next time
        connection.execute(text("UPDATE memories SET access_count = 0, last_accessed_at = NULL"))
    with served(settings) as api, monkeypatch.context() as patch:
        patch.setenv("BACKSCROLL_URL", str(api.base_url))
        patch.delenv("BACKSCROLL_DATABASE_URL")
        there = run(*arguments)
    assert (there.code, there.err) == (here.code, here.err) == (0, "")
    if "--json" in arguments:
        assert same(json.loads(there.out)) == same(json.loads(here.out))
    else:
        assert same(there.out) == same(here.out)


def test_the_page_of_a_context_is_the_same(run: Run, url: str, tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    assert run("context", QUESTION, "--html", page).code == 0
    text = page.read_text()
    assert "Sessions over time" in text
    assert len(re.findall("<rect", text)) > 30


def test_a_document_is_cut_by_what_runs(run: Run, url: str, tmp_path: Path) -> None:
    page = tmp_path / "rules.md"
    page.write_text("# House rules\n\nThe boiler is serviced every May.")
    assert run("documents", "add", page, "--json").json == {
        "document_id": "rules.md",
        "outcome": "new",
        "chunks": 1,
        "written": 1,
    }
    assert run("documents", "add", page).out == "rules.md: unchanged, 1 chunks\n"


@pytest.fixture
def running_up(api: httpx.Client, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What runs, known by its data folder alone, and with another database than the API's; the URL of the API's."""
    assert settings.api_key is not None
    assert settings.database_url is not None
    settings.data_dir.mkdir()
    publish_up(settings, api, "postgresql://nobody@127.0.0.1:1/none")
    for name in ("DATABASE_URL", "MAINTENANCE_DATABASE_URL", "REDIS_URL", "API_KEY"):
        monkeypatch.delenv(f"BACKSCROLL_{name}")
    lock = open_lock(settings.data_dir / stack.LOCK)
    assert take(lock)
    yield settings.database_url.get_secret_value()
    os.close(lock)


def publish_up(settings: Settings, api: httpx.Client, database_url: str, **servers: str) -> None:
    """Say in the data folder what runs there."""
    assert settings.api_key is not None
    running = stack.Running(
        pid=1,
        api_url=str(api.base_url),
        api_key=settings.api_key.get_secret_value(),
        database_url=database_url,
        maintenance_database_url="",
        owner_database_url="",
        redis_url="redis://127.0.0.1:1",
        tenant=settings.tenant,
        model_servers=servers,
    )
    stack.publish(settings.data_dir, running)


def test_a_running_up_is_found_by_its_data_folder(run: Run, running_up: str) -> None:
    assert "pressure sensor" in run("context", QUESTION).out
    # another tenant's data is not what it serves
    assert run("context", QUESTION, "--tenant", "other").code == 1


def test_a_search_by_somebody_who_was_never_seen_is_told_so_by_what_runs_here(
    run: Run, running_up: str, api: httpx.Client, settings: Settings
) -> None:
    publish_up(settings, api, running_up)
    missed = run("search", "boiler", "--sender", "telegrm:11", "--json")
    assert (missed.code, missed.out) == (3, "")
    assert "telegrm:11 was never seen; did you mean telegram:11" in missed.err
    assert run("search", "zeppelin", "--mode", "exact", "--sender", "telegram:11", "--json").code == 0


@pytest.mark.usefixtures("run")
def test_another_shell_knows_where_the_servers_of_models_are_and_keeps_what_it_says_itself(
    running_up: str, api: httpx.Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = {"openai_base_url": "http://127.0.0.1:8000/v1", "ollama_url": "http://127.0.0.1:8001"}
    publish_up(settings, api, running_up, **started)
    monkeypatch.setenv("BACKSCROLL_OPENAI_BASE_URL", "http://127.0.0.1:9000/v1")
    found = connection.open_stack(settings.data_dir)
    assert {name: getattr(found, name) for name in started} == started | {
        "openai_base_url": "http://127.0.0.1:9000/v1"
    }


class LoadedModel(DeterministicEmbedder):
    """A local model that is loaded at once."""

    space = EmbeddingSpace(provider="sentence-transformers", model="mine", dimensions=256)


def test_without_one_it_says_that_a_model_is_loaded(
    run: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_owner(settings, "UPDATE embedding_spaces SET provider = 'sentence-transformers', model = 'mine'")
    monkeypatch.setattr(factory, "SentenceTransformersEmbedder", lambda *_, **__: LoadedModel())
    told = run("context", QUESTION, "--json")
    assert told.code == 0
    assert "Loading the embedding model" in told.err
    assert "BACKSCROLL_URL" in told.err
    assert run("search", "boiler", "--mode", "exact").err == ""


def test_what_the_api_refuses_ends_as_it_does_here(
    run: Run, url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.database_url is not None
    for wrong, code, told in (
        (["--profile", "none"], 2, "profile"),
        (["--budget", 1], 2, "budget_tokens"),
        (["--chat", ""], 2, "chat_id"),
        (["--chat", "app:a/b c?#ü"], 3, "there is no chat app:a/b c?#ü"),
        (["--chat", "telegram:100420"], 3, "did you mean telegram:-100420 (Harbour House)?"),
    ):
        answered = run("context", QUESTION, *wrong)
        assert answered.code == code, answered.err
        assert told in answered.err
        assert "Traceback" not in answered.err
        with monkeypatch.context() as patch:
            # the same in this process
            patch.delenv("BACKSCROLL_URL")
            patch.setenv("BACKSCROLL_DATABASE_URL", settings.database_url.get_secret_value())
            here = run("context", QUESTION, *wrong)
        assert (here.code, here.err) == (answered.code, answered.err)


def test_a_refused_key_a_missing_key_and_a_dead_address_are_told(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSCROLL_API_KEY", "another")
    refused = run("context", QUESTION)
    assert refused.code == 4
    assert "refuses the API key" in refused.err
    monkeypatch.delenv("BACKSCROLL_API_KEY")
    missing = run("context", QUESTION)
    assert missing.code == 4
    assert "BACKSCROLL_API_KEY is not" in missing.err
    monkeypatch.setenv("BACKSCROLL_API_KEY", "test-key")
    monkeypatch.setenv("BACKSCROLL_URL", "http://127.0.0.1:1")
    away = run("search", "boiler")
    assert away.code == 1
    assert "does not answer" in away.err
    assert "--local" in away.err


@pytest.mark.parametrize(
    ("status", "body", "code", "told"),
    [
        (200, b'{"openapi": "3", "info": {"version": "9.9"}}', 4, "is version 9.9"),
        (404, b'{"detail": "Not Found", "info": {"version": "9.9"}}', 4, "is version 9.9"),
        (200, b"<html>a proxy</html>", 4, "no Backscroll at all"),
        (500, b'{"type": "x", "detail": "a defect", "request_id": "r1"}', 70, "a defect r1"),
        (503, b'{"type": "x", "detail": "Postgres cannot be reached."}', 1, "Postgres cannot be reached"),
    ],
)
def test_answers_of_another_version_and_failures_are_told(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, code: int, told: str
) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/openapi.json" else status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("BACKSCROLL_URL", f"http://127.0.0.1:{server.server_port}")
        answered = run("context", QUESTION)
        server.shutdown()
    assert answered.code == code, answered.err
    assert told in answered.err


def test_asking_imports_neither_a_model_nor_a_database(run: Run, url: str) -> None:
    # In a process of its own: here everything is imported already
    import os
    import subprocess

    probe = (
        "import atexit, sys; sys.argv[0] = 'backscroll'\n"
        "atexit.register(lambda: print('IMPORTED', *[n for n in ('torch', 'sqlalchemy', 'celery') "
        "if n in sys.modules], file=sys.stderr))\n"
        "from ops.cli import main; main()"
    )
    told = subprocess.run(
        [sys.executable, "-c", probe, "context", QUESTION],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=dict(os.environ),
    )
    assert "pressure sensor" in told.stdout, told.stderr
    assert told.stderr.strip() == "IMPORTED"
