"""Whoever asks what is known of them gets it, and whoever will not be remembered is not."""

import json
from collections import Counter

import pytest
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.memories.statements import remember
from pipeline.store.connections.database import Database
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from tests.commands.conftest import CHAT, Run
from tests.conftest import TENANT, message

pytestmark = pytest.mark.usefixtures("house")


def test_an_export_holds_all_of_a_user_and_nothing_that_others_said(run: Run, database: Database) -> None:
    with database.tenant(TENANT) as connection:
        sender, count = connection.execute(
            text("SELECT sender_id, count(*) FROM messages GROUP BY 1 ORDER BY 2 DESC LIMIT 1")
        ).one()
    remember(database, TENANT, MemoryIn(scope="user", user_id=sender, content="likes tea"))
    remember(database, TENANT, MemoryIn(scope="user", user_id="somebody:else", content="likes coffee"))
    records = [json.loads(line) for line in run("export", "user", sender).out.splitlines()]
    counted = Counter(record["record"] for record in records)
    assert (counted["message"], counted["memory"]) == (count, 1)
    assert counted["session"] > 10
    assert {record["sender_id"] for record in records if record["record"] == "message"} == {sender}
    assert {record["chat_id"] for record in records if record["record"] == "session"} == {CHAT}
    nobody = run("export", "user", "nobody:1")
    assert (nobody.code, nobody.out) == (3, "")


def test_a_user_can_be_switched_off_and_on(run: Run, database: Database) -> None:
    assert run("remember", "user", "test:ann", "--unseen", "--json").json["remembered"] is True
    assert run("remember", "user", "test:ann", "off", "--unseen", "--json").json["remembered"] is False
    assert accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)]).kept_out == 1
    assert "not remembered" in run("remember", "user", "test:ann").out
    run("remember", "user", "test:ann", "on")
    assert accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)]).new == 1
