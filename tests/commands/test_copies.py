"""Chats that hold the same messages are not merged unasked."""

import shlex
from pathlib import Path

import pytest

from pipeline.store.connections.database import Database
from tests.commands.conftest import Run
from tests.commands.test_import import Write, lines
from tests.test_pipeline import rows

ONE, TWO = "whatsapp:bc", "whatsapp:book club"


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
def test_one_export_that_was_imported_as_two_chats_does_not_stand_twice_in_one(
    run: Run, database: Database, whatsapp: Write, zone: str
) -> None:
    path = whatsapp(*lines(0, 1, 2))
    imported(run, path, ONE)
    imported(run, path, TWO, zone)
    refused = run("chats", "merge", ONE, TWO, "--yes")
    assert refused.code == 2
    assert "3 of the 3 messages" in refused.err
    assert "Ana: message of 0" in refused.err
    assert "2024-01-13 10:00" in refused.err
    remove, merge = commands(refused.err)
    assert run(*remove, "--yes").code == 0
    assert rows(database, "SELECT chat_id, count(*) FROM messages GROUP BY 1") == [(TWO, 3)]
    assert merge[:4] == ["chats", "merge", ONE, TWO]


def test_copies_are_kept_when_that_is_said(run: Run, database: Database, whatsapp: Write) -> None:
    path = whatsapp(*lines(0, 1, 2))
    imported(run, path, ONE)
    imported(run, path, TWO)
    _, merge = commands(run("chats", "merge", ONE, TWO, "--yes").err)
    assert run(*merge, "--yes").code == 0
    assert rows(database, "SELECT count(*) FROM messages") == [(6,)]
    # once done it is told as it is
    assert run("chats", "merge", ONE, TWO, "--yes").code == 0


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
