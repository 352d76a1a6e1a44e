"""Chats are removed, renamed and merged by the command line."""

import io
import sys

import pytest

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.commands.conftest import CHAT, SAMPLE, Run
from tests.conftest import TENANT, message
from tests.test_pipeline import rows

pytestmark = pytest.mark.usefixtures("house")


EMPTY = (
    "messages",
    "chats",
    "conversation_sessions",
    "message_vectors",
    "suppression_list",
    "arrivals",
    "chat_members",
)


def test_a_removed_chat_leaves_nothing_and_can_be_imported_again(run: Run, database: Database) -> None:
    shown = run("chats", "remove", CHAT, "--dry-run", "--json").json
    assert shown["would_remove"]["messages"] == 418
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418
    receipt = run("chats", "remove", CHAT, "--yes", "--json").json
    assert (receipt["kind"], receipt["counts"]["messages"], receipt["counts"]["chats"]) == ("removal", 418, 1)
    for table in EMPTY:
        assert rows(database, f"SELECT count(*) FROM {table}") == [(0,)], table
    assert run("import", str(SAMPLE), "--json").json["chats"][0]["new"] == 418


def test_what_was_forgotten_in_a_removed_chat_stays_forgotten(run: Run) -> None:
    run("forget", "message", CHAT, "1041", "--yes")
    assert "is removed" in run("chats", "remove", CHAT, "--yes").out
    again = run("import", str(SAMPLE), "--json").json["chats"][0]
    assert (again["new"], again["kept_out"]) == (417, 1)


def test_a_chat_is_not_removed_unasked_nor_one_that_is_not_there(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run("chats", "remove", CHAT, "--json")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert run("chats", "remove", CHAT).code == 1
    missing = run("chats", "remove", f"{CHAT}0", "--yes")
    assert (missing.code, CHAT in missing.err) == (3, True)
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418


def test_a_chat_is_renamed_and_found_under_both_ids(run: Run) -> None:
    receipt = run("chats", "rename", CHAT, "telegram:-1009", "--yes", "--json").json
    assert (receipt["kind"], receipt["counts"]["messages"]) == ("move", 418)
    assert [chat["chat_id"] for chat in run("chats", "list", "--json").json["chats"]] == ["telegram:-1009"]
    assert run("chats", "show", CHAT, "--json").json["chat_id"] == "telegram:-1009"
    # the same file once more is what is there already
    assert run("import", str(SAMPLE), "--json").json["chats"][0]["new"] == 0
    assert "is telegram:-1009 now" in run("chats", "rename", CHAT, "telegram:-1009", "--yes").out


def test_two_chats_are_merged_and_a_rename_never_merges(run: Run, database: Database) -> None:
    accept.accept(database, TENANT, ChatIn(chat_id="telegram:-7"), [message(0)])
    refused = run("chats", "rename", CHAT, "telegram:-7", "--yes")
    assert (refused.code, "chats merge" in refused.err) == (2, True)
    assert run("chats", "merge", CHAT, "telegram:-8", "--yes").code == 3
    assert run("chats", "merge", CHAT, CHAT, "--yes").code == 2
    assert run("chats", "merge", CHAT, "telegram:-7", "--json").code == 2
    assert "is telegram:-7 now" in run("chats", "merge", CHAT, "telegram:-7", "--yes").out
    assert rows(database, "SELECT DISTINCT chat_id FROM messages") == [("telegram:-7",)]
