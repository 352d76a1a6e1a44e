"""An id that was never seen is named as such, with the nearest that exist, before anything is changed."""

import json

import pytest

from tests.commands.conftest import CHAT, Run

pytestmark = pytest.mark.usefixtures("house")


@pytest.fixture
def sender(run: Run) -> str:
    """Somebody who has written."""
    return str(run("chats", "members", CHAT).out.split()[0])


MISSPELT = (
    "remember user {user} off",
    "users link {user} ann",
    "users show {user}",
    "users merge {there} {user}",
    "forget user {user} --yes",
    "forget user {user} --dry-run",
    "forget chat {chat} --yes",
    "forget message {chat} 1 --yes",
    "memories add Tea. --user {user}",
    "memories list --chat {chat}",
    "chats members {known} --set {there} --set {user}",
    "queries list --chat {chat} --json",
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
    # and so is one that was there
    for _ in range(2):
        assert run("forget", "message", CHAT, "1041", "--yes").code == 0


def test_somebody_who_is_still_to_come_can_be_kept_out_and_forgotten(run: Run) -> None:
    late = "telegram:late"
    assert run("remember", "user", late, "off", "--unseen").out == f"{late}: not remembered\n"
    # From then on the id is known
    assert run("remember", "user", late).out == f"{late}: not remembered\n"
    assert run("remember", "user", late, "on").code == 0
    for what in ("user", "chat"):
        assert run("forget", what, late, "--yes", "--json").code == 3
        receipt = json.loads(run("forget", what, late, "--unseen", "--yes", "--json").out)
        assert receipt["finished_at"]
        # and so is one that was forgotten
        assert run("forget", what, late, "--yes", "--json").code == 0
