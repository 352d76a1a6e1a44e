"""Whoever types something wrong is told which field it is, what is allowed, and by the exit code that it was they."""

from pathlib import Path

import pytest

from tests.commands.conftest import CHAT, Run

ASKED = ["--chat", CHAT]


@pytest.fixture
def database_name(house: str) -> str:
    return house


@pytest.mark.parametrize(
    ("words", "named", "allowed"),
    [
        (["context", "", *ASKED], "query", "at least 1 character"),
        (["context", "   ", *ASKED], "query", "is empty"),
        (["context", "hi", *ASKED, "--as-of", "0001-01-01"], "as_of", "years 2 to 9998"),
        (["context", "x" * 8001, *ASKED], "query", "at most 8000 characters, not 8001"),
        (["context", "hi", "--budget", 10], "budget_tokens", "greater than or equal to 50"),
        (["context", "hi", "--profile", "fancy"], "profile", "balanced, group, ask"),
        (["search", "hi", "--mode", "fuzzy"], "mode", "'hybrid'"),
        (["search", "hi", "--since", "yesterday"], "since", "2026-01-31T18:00"),
        (["search", "hi", "--role", "boss"], "roles", "'assistant'"),
        (["search", "hi", "--metadata", "x"], "--metadata", "NAME=TEXT"),
        (["chats", "members", CHAT, "--set", ""], "members", "at least 1 character"),
        (["users", "link", "", "ann"], "sender_id", "at least 1 character"),
        (["remember", "user", "", "off"], "user_id", "at least 1 character"),
        (["export", "user", " "], "user_id", "at least 1 character"),
        (["forget", "user", ""], "sender_id", "at least 1 character"),
        (["backfills", "start", "embed", "--rate", 0], "rate_per_second", "greater than 0"),
        (
            ["backfills", "start", "embed", "--since", "2026-02-01", "--until", "2026-01-01"],
            "since",
            "before",
        ),
        (["jobs", "list", "--older-than", "soon"], "--older-than", "90s, 30min, 2h or 7d"),
        (["chats", "--tenant", "a b"], "--tenant", "letters, digits"),
        (["db", "roles", "postgresql://", "--passwords-file", "/no/such"], "--passwords-file", "/no/such"),
        (["import", "/no/such.zip"], "/no/such.zip", "does not exist"),
        (["worker", "mail"], "queue mail", "accept, ingest"),
    ],
    ids=lambda value: " ".join(map(str, value))[:50] if isinstance(value, list) else "",
)
def test_wrong_input_is_named_with_what_is_allowed(
    run: Run, words: list[object], named: str, allowed: str
) -> None:
    told = run(*words)
    assert told.code == 2
    assert named in told.err
    assert allowed in told.err
    assert "Traceback" not in told.err


@pytest.mark.parametrize(
    "words",
    [
        ["chats", "show", "no"],
        ["context", "hi", "--chat", "no"],
        ["sessions", "show", 999],
        ["more", 999],
        ["documents", "show", "no"],
        ["backfills", "status", 999],
        ["jobs", "show", "summarize", "session:999"],
        ["queries", "answer", "no", "hi"],
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_what_is_not_there_is_named_and_said_where_to_look(run: Run, words: list[object]) -> None:
    told = run(*words)
    assert told.code == 3
    assert str(words[-1] if words[0] != "queries" else "no").split(":")[-1] in told.err


def test_a_wrong_database_url_is_named_by_its_setting(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("BACKSCROLL_DATABASE_URL", "mysql://x")
    told = run("chats")
    assert (told.code, "BACKSCROLL_DATABASE_URL" in told.err) == (4, True)


def test_list_is_what_a_group_does_when_nothing_else_is_said(run: Run) -> None:
    for group, named in {
        "chats": "chats",
        "sessions": "sessions",
        "queries": "queries",
        "jobs": "jobs",
    }.items():
        assert run(group, "--json").json[named] == run(group, "list", "--json").json[named]
    assert len(run("sessions", "--limit", 2, "--json").json["sessions"]) == 2
    assert "Commands" in run("sessions", "--help").out


def test_a_session_is_told_more_of_without_naming_its_chat(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(
        '{"chat_id": "app:x", "sender_id": "a:1", "content": "hi", "sent_at": "2026-05-01T09:00:00Z"}\n'
    )
    assert run("import", other).code == 0
    assert run("more", 30, "--json").json["session_id"] == 30
    assert run("more", 30, "--chat", "app:x").code == 3


def test_of_an_unknown_command_the_nearest_is_named(run: Run) -> None:
    for wrong, told in {"serch": "did you mean search?", "memory": "did you mean memories?"}.items():
        refused = run(wrong, "boiler")
        assert (refused.code, told in refused.err) == (2, True), refused.err
    assert "did you mean" not in run("zzz").err
