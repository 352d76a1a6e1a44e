"""What an operator relies on when people are linked, shown, exported and switched off, and audiences are set."""

import json
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.commands.conftest import CHAT, Run, Workers
from tests.conftest import TENANT, message


def test_audiences_and_members_are_shown_and_set(run: Run, database: Database) -> None:
    assert run("tenant", "audience", "--json").json["audience"] == "strict"
    assert run("tenant", "audience", "chat").out.startswith("chat: a memory")
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)])
    assert run("chats", "members", "test:1").out == "test:ann\n"
    both = ["--set", "test:bob", "--set", "test:cy", "--unseen"]
    assert run("chats", "members", "test:1", *both, "--json").json["members"] == ["test:bob", "test:cy"]


@pytest.mark.usefixtures("house")
def test_an_export_holds_all_of_a_user_and_nothing_that_others_said(run: Run, database: Database) -> None:
    statement = text("SELECT sender_id, count(*) FROM messages GROUP BY 1 ORDER BY 2 DESC LIMIT 1")
    with database.tenant(TENANT) as connection:
        sender, count = connection.execute(statement).one()
    for user, said in ((sender, "likes tea"), ("somebody:else", "likes coffee")):
        run("memories", "add", said, "--user", user, "--unseen")
    records = [json.loads(line) for line in run("export", "user", sender).out.splitlines()]
    counted = Counter(record["record"] for record in records)
    assert (counted["message"], counted["memory"]) == (count, 1)
    assert {record["sender_id"] for record in records if record["record"] == "message"} == {sender}
    assert {record["chat_id"] for record in records if record["record"] == "session"} == {CHAT}


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
