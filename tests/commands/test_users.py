"""What an operator relies on when people are linked, shown, exported and switched off, and audiences are set."""

import json
from collections import Counter

import pytest
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.commands.conftest import CHAT, Run
from tests.conftest import TENANT, message


def test_audiences_and_members_are_shown_and_set(run: Run, database: Database) -> None:
    assert run("tenant", "audience", "--json").json["audience"] == "strict"
    assert run("tenant", "audience", "chat").out.startswith("chat: a memory")
    assert run("tenant", "audience", "everybody").code == 2
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
    assert counted["session"] > 10
    assert {record["sender_id"] for record in records if record["record"] == "message"} == {sender}
    assert {record["chat_id"] for record in records if record["record"] == "session"} == {CHAT}
