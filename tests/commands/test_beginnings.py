"""What meets a newcomer: nothing there yet, nothing configured, and text that means harm."""

from pathlib import Path

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
    # nor can what an error quotes
    missed = run("chats", "show", "app:2")
    assert (missed.code, "red" in missed.err, "\x1b" in missed.err) == (3, True, False)
    assert "[bold]hi[/bold]" in run("sessions", "show", 1).out
