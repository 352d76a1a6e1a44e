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


def test_people_are_linked_and_parted_from_the_command_line(run: Run) -> None:
    assert run("users", "link", "telegram:11", "ann", "--unseen", "--json").json["outcome"] == "linked"
    merged = run("users", "merge", "slack:U1", "telegram:11", "--unseen", "--json").json
    assert merged["outcome"] == "merged"
    assert run("users", "show", "slack:U1", "--json").json["user_id"] == "ann"
    assert "slack:U1, telegram:11" in run("users", "list").out
    assert run("users", "unlink", "slack:U1").out.startswith("Unlinked.")
    assert "nobody else" in run("users", "show", "slack:U1", "--unseen").out


def test_audiences_and_members_are_shown_and_set(run: Run, database: Database) -> None:
    assert run("tenant", "audience", "--json").json["audience"] == "strict"
    assert run("tenant", "audience", "chat").out.startswith("chat: a memory")
    assert run("tenant", "audience", "everybody").code == 2
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)])
    assert run("chats", "members", "test:1").out == "test:ann\n"
    both = ["--set", "test:bob", "--set", "test:cy", "--unseen"]
    assert run("chats", "members", "test:1", *both, "--json").json["members"] == ["test:bob", "test:cy"]


def test_a_persons_page_is_shown_with_what_was_earlier(run: Run, database: Database) -> None:
    accept.accept(database, TENANT, ChatIn(chat_id="test:1", title="Harbour House"), [message(0)])
    add = ["memories", "add", "--user", "test:ann", "--json"]
    porto = run(*add, "Ann lives in Porto.", "--chat", "test:1").json["id"]
    run(*add, "Ann has a boat.")
    run("memories", "correct", porto, "Ann lives in Braga.")
    known, earlier = run("users", "show", "test:ann", "--chat", "test:1").out.split("Earlier")
    for expected, where in (
        ("Ann lives in Braga.", known),
        ("Harbour House", known),
        ("Ann lives in Porto.", earlier),
    ):
        assert expected in where
    page = run("users", "show", "test:ann", "--limit", 1, "--json").json
    rest = run("users", "show", "test:ann", "--after", page["current"][0]["id"], "--json").json
    assert [each["content"] for each in rest["current"]] == ["Ann has a boat."]
    assert rest["earlier"][0]["superseded_by"][0]["content"] == "Ann lives in Braga."


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


def test_a_user_can_be_switched_off_and_on(run: Run, database: Database) -> None:
    assert run("remember", "user", "test:ann", "off", "--unseen", "--json").json["remembered"] is False
    assert accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)]).kept_out == 1
    assert "not remembered" in run("remember", "user", "test:ann").out
    run("remember", "user", "test:ann", "on")
    assert accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)]).new == 1
