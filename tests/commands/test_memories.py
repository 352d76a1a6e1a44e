"""What an operator relies on when statements are written by hand."""

import pytest

from pipeline.ingest import accept
from pipeline.store.database import Database
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
    run: Run, workers: Workers, chat: str
) -> None:
    tea = run("memories", "add", "Prefers tea.", "--user", "telegram:11", "--unseen", "--json").json
    assert tea["outcome"] == "new"
    assert "known already" in run("memories", "add", "prefers  tea.", "--user", "telegram:11").out
    workers.finish()
    (listed,) = run("memories", "list", "--user", "telegram:11", "--json").json["memories"]
    assert (listed["id"], listed["scope"], listed["type"]) == (tea["id"], "user", "manual")
    assert listed["importance"] == 5
    assert "Prefers tea." in run("memories", "list").out
    assert (
        "[user telegram:11] Prefers tea."
        in run("context", "tea?", "--chat", chat, "--user", "telegram:11").out
    )
    assert run("memories", "remove", tea["id"]).out == f"{tea['id']}: removed\n"
    assert run("memories", "remove", tea["id"]).code == 3
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


def test_what_cannot_be_remembered_is_refused_by_its_field(run: Run, chat: str) -> None:
    for wrong, told in {
        ("add", " "): "content: is empty",
        ("add", "x", "--type", "gossip"): "type:",
        ("add", "x", "--importance", "11"): "importance:",
        ("add", "x", "--expires", "soon"): "expires_at:",
        ("add", "x", "--session", "99999"): "session_id: there is no session 99999",
        ("add", "x", "--session", str(2**70)): "session_id:",
        ("add", "x", "--chat", "test:nowhere"): "learned_in: there is no chat",
        ("list", "--scope", "world"): "scope:",
        ("list", "--after", "first"): "after:",
        ("remove", "first"): "UUID",
    }.items():
        refused = run("memories", *wrong)
        assert (refused.code, told in refused.err) == (2, True), refused
    assert run("memories", "list", "--chat", "test:nowhere").code == 3
    run("chats", "memory", chat, "off")
    assert "kept out" in run("memories", "add", "Learned here.", "--chat", chat).out
