"""A question on the command line gets what a bot would get, and the reasons for it."""

import os
import re
from collections.abc import Iterator

import pytest

from ops import connection
from ops.local import stack
from ops.local.embedded.folder import open_lock, take
from schemas.settings import Settings
from tests.api.conftest import served
from tests.commands.conftest import CHAT, Run
from tests.platforms.reading import FIXTURES
from tests.providers.http_server import Answered, serving

QUESTION = "was it the pressure sensor of the boiler?"

pytestmark = pytest.mark.usefixtures("house")


def test_a_context_holds_what_was_said_and_with_reasons_why_each_line_is_there(
    run: Run, running: object
) -> None:
    plain = run("context", QUESTION, "--chat", CHAT)
    # how surely it answers stands beside what a model gets
    told = re.fullmatch(r"Evidence: (strong|weak) \(\d+ %\): [a-z ]+\n", plain.err)
    assert (plain.code, bool(told)) == (0, True)
    assert "Evidence:" not in plain.out
    assert "pressure sensor" in plain.out
    assert plain.out.rstrip().endswith(QUESTION)
    whole = run("context", QUESTION, "--explain-all", "--budget", 500).out
    for expected in (
        "Sessions found",
        "Messages found",
        "meaning 0.",
        "vectors #",
        "Not shown",
        "of 500",
        "by rarity",
    ):
        assert expected in whole
    also = run("context", "War es der Fühler?", "--also", QUESTION, "--no-history", "--explain-all").out
    assert "by query 1" in also
    # and it is short unless all of it is wanted
    short = run("context", QUESTION, "--explain", "--user", "telegram:11").out
    why = short[short.index("─ why ─") :]
    assert len(why.splitlines()) < 50
    assert "--explain-all" in why


def test_search_passes_on_modes_and_filters(run: Run, running: object) -> None:
    exact = run("search", "PRESSURE sensor", "--mode", "exact", "--json").json["hits"]
    assert exact
    assert all("pressure sensor" in hit["text"].lower() for hit in exact)
    theme = run("search", "boiler", "--mode", "topic", "--since", "2020-01-01", "--limit", 50, "--json").json
    assert len(theme["sessions"]) > 3
    told = run("search", "the boiler's pressure sensor", "--mode", "contextual").out
    assert exact[0]["speaker"] in told
    for nothing in (["--role", "assistant", "--sender", "telegram:11"], ["--metadata", "a=b"]):
        assert run("search", "boiler", *nothing, "--json").json["hits"] == []
    assert "Nothing in" in run("search", "zeppelin", "--mode", "exact").out
    found = run("search", QUESTION, "--json").json
    assert f"Evidence: {found['evidence']} (" in run("search", QUESTION).out


def test_more_goes_through_a_session_page_by_page(run: Run, running: object) -> None:
    hit = run("search", "pressure sensor", "--limit", 1, "--json").json["hits"][0]
    page = run("more", hit["session_id"], "--shown", hit["id"], "--limit", 4, "--json").json
    assert len(page["messages"]) == 4
    assert hit["id"] not in [line["id"] for line in page["messages"]]
    told = run("more", hit["session_id"], "--shown", hit["id"], "--limit", 4)
    assert f"backscroll more {hit['session_id']} --shown {hit['id']} --shown" in told.out
    assert run("more", 1_000_000).code == 3
    # the chat is that of the session
    run("import", FIXTURES / "jsonl/garden.jsonl")
    assert run("more", 30, "--json").json["session_id"] == 30
    assert run("more", 30, "--chat", "app:garden").code == 3


def test_the_chat_must_be_named_where_there_are_several(run: Run, running: object) -> None:
    run("import", FIXTURES / "jsonl/garden.jsonl")
    asked = run("context", "boiler")
    assert (asked.code, "--chat" in asked.err, CHAT in asked.err) == (2, True, True)
    missed = run("search", "boiler", "--chat", "telegram:100420")
    assert missed.code == 3
    assert "did you mean telegram:-100420 (Harbour House)?" in missed.err
    wrong = run("search", "hi", "--mode", "fuzzy", "--chat", CHAT)
    assert (wrong.code, "mode" in wrong.err, "'hybrid'" in wrong.err) == (2, True, True)


def test_a_search_that_finds_nothing_says_that_nobody_of_this_id_was_ever_seen(
    run: Run, running: object
) -> None:
    for asked in (["--user", "telegrm:11"], ["--sender", "telegrm:11", "--mode", "exact"]):
        missed = run("search", "zeppelin", *asked, "--json")
        assert (missed.code, missed.out) == (3, "")
        assert "telegrm:11 was never seen; did you mean telegram:11" in missed.err


@pytest.fixture
def running_up(settings: Settings, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What runs, known by its data folder alone, with a database that cannot be reached from here."""
    for name in ("DATABASE_URL", "MAINTENANCE_DATABASE_URL", "REDIS_URL", "API_KEY"):
        monkeypatch.delenv(f"BACKSCROLL_{name}")
    settings.data_dir.mkdir()
    with served(settings) as api:
        assert settings.api_key is not None
        running = stack.Running(
            pid=1,
            api_url=str(api.base_url),
            api_key=settings.api_key.get_secret_value(),
            database_url="postgresql://nobody@127.0.0.1:1/none",
            maintenance_database_url="",
            owner_database_url="",
            redis_url="redis://127.0.0.1:1",
            tenant=settings.tenant,
            model_servers={
                "openai_base_url": "http://127.0.0.1:8000/v1",
                "ollama_url": "http://127.0.0.1:8001",
            },
        )
        stack.publish(settings.data_dir, running)
        lock = open_lock(settings.data_dir / stack.LOCK)
        assert take(lock)
        yield
        os.close(lock)


def test_a_running_up_is_found_by_its_data_folder(
    run: Run, running_up: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "pressure sensor" in run("context", QUESTION).out
    # another tenant's data is not what it serves
    other = run("context", QUESTION, "--tenant", "other")
    assert (other.code, "No running Backscroll serves the tenant other" in other.err) == (1, True)
    # another shell knows where the servers of models are, and keeps what it says itself
    monkeypatch.setenv("BACKSCROLL_OPENAI_BASE_URL", "http://127.0.0.1:9000/v1")
    found = connection.open_stack(settings.data_dir)
    assert (found.openai_base_url, found.ollama_url) == ("http://127.0.0.1:9000/v1", "http://127.0.0.1:8001")


def test_a_refused_key_a_missing_key_a_dead_address_and_nothing_at_all_are_told(
    run: Run, running: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(code: int) -> str:
        answered = run("context", QUESTION)
        assert answered.code == code, answered.err
        return answered.err

    monkeypatch.setenv("BACKSCROLL_API_KEY", "another")
    assert "refuses the API key" in told(4)
    monkeypatch.delenv("BACKSCROLL_API_KEY")
    assert "BACKSCROLL_API_KEY is not" in told(4)
    monkeypatch.setenv("BACKSCROLL_API_KEY", "test-key")
    monkeypatch.setenv("BACKSCROLL_URL", "http://127.0.0.1:1")
    assert "does not answer" in told(1)
    monkeypatch.delenv("BACKSCROLL_URL")
    assert "backscroll up" in told(1)


@pytest.mark.parametrize(
    ("status", "body", "code", "told"),
    [
        (200, b'{"openapi": "3", "info": {"version": "9.9"}}', 4, "is version 9.9"),
        (200, b"<html>a proxy</html>", 4, "no Backscroll at all"),
        (500, b'{"type": "x", "detail": "a defect", "request_id": "r1"}', 70, "a defect r1"),
    ],
)
def test_answers_of_another_version_and_failures_are_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, code: int, told: str
) -> None:
    def answer(_method: str, path: str, *_: object) -> Answered:
        return 200 if path == "/openapi.json" else status, {}, body

    with serving(answer) as url:
        monkeypatch.setenv("BACKSCROLL_URL", url)
        answered = run("context", QUESTION)
    assert answered.code == code, answered.err
    assert told in answered.err
