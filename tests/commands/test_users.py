"""What an operator relies on when people are linked and audiences are set."""

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.commands.conftest import Run
from tests.conftest import TENANT, message


def test_people_are_linked_and_parted_from_the_command_line(run: Run) -> None:
    assert run("users", "link", "telegram:11", "ann", "--unseen", "--json").json["outcome"] == "linked"
    merged = run("users", "merge", "slack:U1", "telegram:11", "--unseen", "--json").json
    assert merged["outcome"] == "merged"
    assert run("users", "show", "slack:U1", "--json").json["user_id"] == "ann"
    assert "slack:U1, telegram:11" in run("users", "list").out
    assert [u["user_id"] for u in run("users", "list", "--json").json["users"]] == ["ann"]
    assert run("users", "unlink", "slack:U1").out.startswith("Unlinked.")
    assert "nobody else" in run("users", "show", "slack:U1", "--unseen").out
    refused = run("users", "link", "telegram:11", "x" * 256)
    assert (refused.code, "user_id" in refused.err, "255" in refused.err) == (2, True, True)


def test_audiences_and_members_are_shown_and_set(run: Run, database: Database) -> None:
    assert run("tenant", "audience", "--json").json["audience"] == "strict"
    assert run("tenant", "audience", "chat").out.startswith("chat: a memory")
    assert run("tenant", "audience", "--json").json["audience"] == "chat"
    assert run("tenant", "audience", "everybody").code == 2
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)])
    assert run("chats", "members", "test:1").out == "test:ann\n"
    both = ["--set", "test:bob", "--set", "test:cy", "--unseen"]
    told = run("chats", "members", "test:1", *both, "--json").json
    assert told["members"] == ["test:bob", "test:cy"]
    assert run("chats", "members", "test:2").code == 3


def test_a_persons_page_is_shown_with_what_was_earlier(run: Run, database: Database) -> None:
    accept.accept(database, TENANT, ChatIn(chat_id="test:1", title="Harbour House"), [message(0)])
    add = ["memories", "add", "--user", "test:ann", "--json"]
    porto = run(*add, "Ann lives in Porto.", "--chat", "test:1").json["id"]
    run(*add, "Ann has a boat.")
    run("memories", "correct", porto, "Ann lives in Braga.")
    shown = run("users", "show", "test:ann", "--chat", "test:1").out
    known, earlier = shown.split("Earlier")
    assert "Ann lives in Braga." in known
    assert "Harbour House" in known
    assert "Ann lives in Porto." in earlier
    page = run("users", "show", "test:ann", "--limit", 1, "--json").json
    assert [each["content"] for each in page["current"]] == ["Ann lives in Braga."]
    rest = run("users", "show", "test:ann", "--after", page["current"][0]["id"], "--json").json
    assert [[each["content"] for each in rest[name]] for name in ("current", "earlier")] == [
        ["Ann has a boat."],
        ["Ann lives in Porto."],
    ]
    assert rest["earlier"][0]["superseded_by"][0]["content"] == "Ann lives in Braga."
    assert run("users", "show", "test:ann", "--chat", "test:2").code == 3
