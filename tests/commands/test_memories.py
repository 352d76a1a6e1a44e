"""What an operator relies on when statements are written by hand."""

import re

import pytest

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.commands.conftest import CHAT, Run, Workers
from tests.conftest import TENANT, message


@pytest.fixture
def chat(database: Database, workers: Workers) -> str:
    """A chat with one session."""
    accept.accept(
        database, TENANT, ChatIn(chat_id=CHAT), [message(n, f"step {n}", id=f"{n}") for n in range(4)]
    )
    workers.finish()
    return CHAT


def test_a_statement_is_remembered_listed_shown_in_contexts_and_removed(
    run: Run, workers: Workers, chat: str, running: object
) -> None:
    tea = run("memories", "add", "Prefers tea.", "--user", "telegram:11", "--unseen", "--json").json
    assert tea["outcome"] == "new"
    assert "known already" in run("memories", "add", "prefers  tea.", "--user", "telegram:11").out
    workers.finish()
    (listed,) = run("memories", "list", "--user", "telegram:11", "--json").json["memories"]
    assert (listed["id"], listed["scope"], listed["type"]) == (tea["id"], "user", "manual")
    assert listed["importance"] == 5
    assert "Prefers tea." in run("memories", "list").out
    shown = run("context", "tea?", "--chat", chat, "--user", "telegram:11").out
    assert re.search(r"\[telegram:11, since [^\]]+\] Prefers tea\.", shown)
    assert run("memories", "rm", tea["id"]).out == f"{tea['id']}: removed\n"
    assert run("memories", "rm", tea["id"]).code == 3
    assert run("memories", "list", "--json").json == {"memories": []}


def test_whose_it_is_is_said_by_the_options(run: Run, chat: str) -> None:
    (session,) = run("sessions", "list", "--chat", chat, "--json").json["sessions"]
    lines: dict[str, list[object]] = {
        "organization": ["--chat", chat],
        "agent": ["--agent", "helper", "--type", "persona", "--importance", 2],
        "user": ["--user", "test:ann", "--agent", "helper"],
        "session": ["--session", session["id"], "--expires", "2100-01-01T00:00:00Z"],
    }
    for scope, options in lines.items():
        run("memories", "add", f"Of the {scope}.", *options)
        (listed,) = run("memories", "list", "--scope", scope, "--json").json["memories"]
        assert listed["content"] == f"Of the {scope}."
    assert listed["learned_in"] == chat
    page = run("memories", "list", "--limit", 1)
    assert "There may be more: --after" in page.out


def test_memories_are_searched_with_reasons_and_filters(
    run: Run, workers: Workers, chat: str, running: object
) -> None:
    run("memories", "add", "Prefers green tea.", "--user", "test:ann", "--chat", chat, "--type", "preference")
    run("memories", "add", "The tea is in the blue box.", "--chat", chat)
    workers.finish()
    found = run("memories", "search", "who prefers green tea?", "--json").json
    assert [hit["memory"]["content"] for hit in found["hits"]] == [
        "Prefers green tea.",
        "The tea is in the blue box.",
    ]
    assert found["query"] == "who prefers green tea?"
    table = run("memories", "search", "green tea", "--user", "test:ann", "--limit", 1).out
    for told in ("user test:ann", "preference", chat, "Prefers green tea.", "words 0.", "confidence 1.00"):
        assert told in table
    for nothing in (
        ["--type", "goal", "--type", "event"],
        ["--metadata", "topic=tea"],
        ["--source", "form"],
        ["--as-of", "2020-01-01"],
        ["--min-importance", 9],
        ["--scope", "agent"],
    ):
        assert run("memories", "search", "tea", *nothing).out == "No memory matches.\n"
    for nowhere in (["--user", "test:nobody"], ["--chat", "test:nowhere"]):
        assert run("memories", "search", "tea", *nowhere).code == 3


def test_what_is_learned_where_memory_is_off_is_kept_out(run: Run, chat: str) -> None:
    assert run("memories", "list", "--chat", "test:nowhere").code == 3
    run("chats", "memory", chat, "off")
    assert "kept out" in run("memories", "add", "Learned here.", "--chat", chat).out
