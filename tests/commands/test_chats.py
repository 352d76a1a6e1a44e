"""Chats are removed, renamed and merged by the command line; those that hold the same messages not unasked."""

import io
import shlex
import sys
from pathlib import Path

import pytest

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.commands.conftest import CHAT, SAMPLE, Run, Write, lines
from tests.conftest import TENANT, message
from tests.harness.pipeline import rows

ONE, TWO = "whatsapp:bc", "whatsapp:book club"
EMPTY = ("messages", "chats", "conversation_sessions", "message_vectors", "suppression_list", "chat_members")


@pytest.mark.usefixtures("house")
def test_a_removed_chat_leaves_nothing_and_can_be_imported_again(
    run: Run, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = run("chats", "remove", CHAT, "--dry-run", "--json").json
    assert shown["would_remove"]["messages"] == 418
    # not unasked
    refused = run("chats", "remove", CHAT, "--json")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert run("chats", "remove", CHAT).code == 1
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418
    receipt = run("chats", "remove", CHAT, "--yes", "--json").json
    assert (receipt["kind"], receipt["counts"]["messages"], receipt["counts"]["chats"]) == ("removal", 418, 1)
    for table in EMPTY:
        assert rows(database, f"SELECT count(*) FROM {table}") == [(0,)], table
    assert run("import", SAMPLE, "--json").json["chats"][0]["new"] == 418
    # what was forgotten stays forgotten
    run("forget", "message", CHAT, "1041", "--yes")
    assert "is removed" in run("chats", "remove", CHAT, "--yes").out
    again = run("import", SAMPLE, "--json").json["chats"][0]
    assert (again["new"], again["kept_out"]) == (417, 1)


@pytest.mark.usefixtures("house")
def test_a_chat_is_renamed_and_found_under_both_ids_and_a_rename_never_merges(
    run: Run, database: Database
) -> None:
    receipt = run("chats", "rename", CHAT, "telegram:-1009", "--yes", "--json").json
    assert (receipt["kind"], receipt["counts"]["messages"]) == ("move", 418)
    assert run("chats", "show", CHAT, "--json").json["chat_id"] == "telegram:-1009"
    # the same file once more is what is there already
    assert run("import", SAMPLE, "--json").json["chats"][0]["new"] == 0
    accept.accept(database, TENANT, ChatIn(chat_id="telegram:-7"), [message(0)])
    refused = run("chats", "rename", CHAT, "telegram:-7", "--yes")
    assert (refused.code, "chats merge" in refused.err) == (2, True)
    assert "is telegram:-7 now" in run("chats", "merge", CHAT, "telegram:-7", "--yes").out
    assert rows(database, "SELECT DISTINCT chat_id FROM messages") == [("telegram:-7",)]


def commands(told: str) -> list[list[str]]:
    """The commands that a refusal names, without the program."""
    return [
        shlex.split(line[line.index("backscroll ") :])[1:]
        for line in told.splitlines()
        if "  backscroll " in line
    ]


def imported(run: Run, path: Path, chat: str, zone: str = "Europe/Lisbon") -> None:
    assert run("import", path, "--chat", chat, "--tz", zone).code == 0


@pytest.mark.parametrize("zone", ["Europe/Lisbon", "Europe/Berlin"])
def test_one_export_that_was_imported_as_two_chats_does_not_stand_twice_in_one_unless_that_is_said(
    run: Run, database: Database, whatsapp: Write, zone: str
) -> None:
    path = whatsapp(*lines(0, 1, 2))
    imported(run, path, ONE)
    imported(run, path, TWO, zone)
    refused = run("chats", "merge", ONE, TWO, "--yes")
    assert refused.code == 2
    for expected in ("3 of the 3 messages", "Ana: message of 0", "2024-01-13 10:00"):
        assert expected in refused.err
    remove, merge = commands(refused.err)
    if zone == "Europe/Lisbon":
        assert run(*remove, "--yes").code == 0
        assert rows(database, "SELECT chat_id, count(*) FROM messages GROUP BY 1") == [(TWO, 3)]
    else:
        assert run(*merge, "--yes").code == 0
        assert rows(database, "SELECT count(*) FROM messages") == [(6,)]


def test_what_is_in_one_of_two_overlapping_chats_alone_is_brought_over_by_its_export(
    run: Run, database: Database, whatsapp: Write
) -> None:
    imported(run, whatsapp(*lines(0, 1, 2)), TWO)
    path = whatsapp(*lines(2, 3, 4))
    imported(run, path, ONE)
    refused = run("chats", "merge", ONE, TWO, "--yes")
    assert "1 of the 3 messages" in refused.err
    assert f"with --chat {shlex.quote(TWO)}; then:  backscroll chats remove" in refused.err
    imported(run, path, TWO)
    assert run(*commands(refused.err)[0], "--yes").code == 0
    assert rows(database, "SELECT chat_id, count(*) FROM messages GROUP BY 1") == [(TWO, 5)]
