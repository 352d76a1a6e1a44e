"""Whoever types something wrong is told which field it is, what is allowed, and by the exit code that it was they."""

import pytest

from tests.commands.conftest import CHAT, Run

pytestmark = pytest.mark.usefixtures("house")

WRONG = (
    (["chats", "members", CHAT, "--set", ""], "members", "at least 1 character"),
    (["chats", "language", CHAT, "klingon"], "LANGUAGE", "german"),
    (["backfills", "start", "embed", "--since", "2026-02-01", "--until", "2026-01-01"], "since", "before"),
    (["jobs", "list", "--older-than", "soon"], "--older-than", "90s, 30min, 2h or 7d"),
    (["chats", "--tenant", "a b"], "--tenant", "letters, digits"),
    (["import", "/no/such.zip"], "/no/such.zip", "does not exist"),
    (["worker", "mail"], "queue mail", "accept, ingest"),
    (["keys", "create", "x", "--scope", "admin"], "scopes", "'ingest', 'context', 'read', 'write', 'erase'"),
    (["memories", "add", "x", "--expires", "soon"], "expires_at", "ISO 8601"),
    (["memories", "add", "x", "--session", str(2**70)], "session_id", "there is no session"),
    (["memories", "rm", "first"], "'ID'", "UUID"),
)


def test_wrong_input_is_named_with_what_is_allowed(run: Run) -> None:
    for words, named, allowed in WRONG:
        told = run(*words)
        assert (told.code, "Traceback" in told.err) == (2, False), told.err
        assert named in told.err, told.err
        assert allowed in " ".join(told.err.split()), told.err


def test_of_an_unknown_command_the_nearest_is_named(run: Run) -> None:
    for wrong, told in {"serch": "did you mean search?", "memory": "did you mean memories?"}.items():
        refused = run(wrong, "boiler")
        assert (refused.code, told in refused.err) == (2, True), refused.err
    assert "did you mean" not in run("zzz").err


@pytest.fixture
def sender(run: Run) -> str:
    """Somebody who has written."""
    return str(run("chats", "members", CHAT).out.split()[0])


MISSPELT = (
    "remember user {user} off",
    "users link {user} ann",
    "users merge {there} {user}",
    "forget user {user} --yes",
    "forget chat {chat} --yes",
    "forget message {chat} 1 --yes",
    "memories add Tea. --user {user}",
    "memories list --chat {chat}",
    "chats members {known} --set {there} --set {user}",
    "export user {user}",
)


def test_a_misspelt_id_changes_nothing_and_the_nearest_are_named(run: Run, sender: str) -> None:
    given = {
        "user": sender.replace("gram", "grm"),
        "there": sender,
        "chat": CHAT.replace("gram", "grm"),
        "known": CHAT,
    }
    known = run("memories", "list", "--json").json
    for words in MISSPELT:
        refused = run(*words.format(**given).split())
        assert (refused.code, refused.out) == (3, ""), words
        meant, wrong = (CHAT, given["chat"]) if "{chat}" in words else (sender, given["user"])
        assert f"{wrong} was never seen" in refused.err
        assert f"did you mean {meant}" in refused.err
    assert run("forget", "receipts", "--json").json["receipts"] == []
    assert run("users", "list", "--json").json["users"] == []
    assert run("memories", "list", "--json").json == known
    assert len(run("chats", "members", CHAT).out.split()) > 1


def test_a_message_that_was_never_seen_is_not_forgotten_unless_that_is_said(run: Run) -> None:
    for wrong, told in {
        "10411": f"message 10411 of {CHAT} was never seen; did you mean 1411 or 1041",
        "nosuch": f"message nosuch of {CHAT} was never seen (for",
    }.items():
        refused = run("forget", "message", CHAT, wrong, "--yes")
        assert (refused.code, refused.out) == (3, "")
        assert told in refused.err
    assert run("forget", "receipts", "--json").json["receipts"] == []
    # one that is still to come is kept out, and known from then on
    assert run("forget", "message", CHAT, "nosuch", "--unseen", "--yes").code == 0
    assert run("forget", "message", CHAT, "nosuch", "--yes").code == 0
