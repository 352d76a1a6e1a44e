"""What meets a newcomer: nothing there yet, nothing configured, and text that means harm."""

import unicodedata
from pathlib import Path

import pytest

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.commands.conftest import Run, Workers
from tests.conftest import TENANT, message


def test_an_empty_database_says_how_to_begin(run: Run) -> None:
    for command in ("chats", "sessions", "backfills"):
        listed = run(command)
        assert listed.code == 0
        assert listed.out.startswith("There is no")
    assert "backscroll import" in run("chats").out


def test_a_joined_session_leads_to_the_one_it_went_into(run: Run, workers: Workers, tmp_path: Path) -> None:
    export = tmp_path / "WhatsApp Chat with Ana.txt"
    first, last = "13/01/24, 10:00 - Ana: one\n", "13/01/24, 10:50 - Ana: three\n"
    export.write_text(first + last)
    run("import", export)
    workers.finish()
    assert len(run("sessions", "list", "--json").json["sessions"]) == 2
    export.write_text(first + "13/01/24, 10:25 - Ana: two\n" + last)
    run("import", export)
    workers.finish()
    shown = run("sessions", "show", 2)
    assert "Session 2 was joined into session 1" in shown.out
    assert run("sessions", "show", 2, "--json").json["asked_for"] == 2


def test_what_people_wrote_cannot_steer_the_terminal(run: Run, workers: Workers, database: Database) -> None:
    said = "\x1b[2J\x1b]0;owned\x07 [bold]hi[/bold]"
    chat = ChatIn(chat_id="app:1", title="\x1b[31mred")
    accept.accept(database, TENANT, chat, [message(n, said, sender_name="\x9bAnn") for n in range(4)])
    workers.finish()
    for command in (["chats"], ["chats", "show", "app:1"], ["sessions"], ["sessions", "show", 1]):
        shown = run(*command).out
        assert not set(shown) & {"\x1b", "\x9b", "\x07"}
    assert "[bold]hi[/bold]" in run("sessions", "show", 1).out


@pytest.mark.parametrize(
    "steers",
    ["\x1b]2;título\x07", "\u202e\u0645\u0631\u062d", "Вера\r\x08"],
)
def test_nor_can_what_an_error_quotes(run: Run, database: Database, steers: str) -> None:
    title = f"{steers} Сад 花園"
    accept.accept(database, TENANT, ChatIn(chat_id="app:garden-4", title=title), [message(1, "да")])
    shown = run("chats", "show", "app:garden-5")
    assert shown.code == 3
    assert "Сад 花園" in shown.err
    signs = {sign for sign in steers if unicodedata.category(sign) in {"Cc", "Cf"}}
    assert not signs & set(shown.err)


def test_nothing_runs_and_nothing_is_configured(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "MAINTENANCE_DATABASE_URL"):
        monkeypatch.delenv(f"BACKSCROLL_{name}")
    monkeypatch.chdir(tmp_path)
    refused = run("chats", "--help")
    assert refused.code == 0
    refused = run("chats", "list", "--data-dir", tmp_path / "empty")
    assert refused.code == 1
    assert "backscroll up" in refused.err
