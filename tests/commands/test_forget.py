"""What an operator relies on when somebody asks to be forgotten."""

import io
import sys

import pytest
from sqlalchemy import text

from pipeline.erasure import erase
from pipeline.store.database import Database
from tests.commands.conftest import CHAT, SAMPLE, Run
from tests.conftest import TENANT
from tests.test_pipeline import rows


@pytest.fixture
def database_name(house: str) -> str:
    """The sample chat, all of it in memory."""
    return house


def test_a_dry_run_says_how_much_and_forgets_nothing(run: Run, database: Database) -> None:
    shown = run("forget", "chat", CHAT, "--dry-run", "--json").json
    learned = len(run("memories", "list", "--json").json["memories"])
    assert learned > 0
    assert shown["would_forget"] == {"messages": 418, "chats": 1, "memories": learned, "queries": 0}
    assert "418 messages" in run("forget", "chat", CHAT, "--dry-run").out
    # what others' decisions rest on alone goes with whoever said it
    said_alone = rows(
        database,
        "SELECT min(sender_id) FROM memory_evidence e JOIN memories m ON m.id = e.memory_id "
        "WHERE m.scope = 'organization' GROUP BY memory_id HAVING count(DISTINCT sender_id) = 1",
    )
    person = str(said_alone[0][0])
    planned = run("forget", "user", person, "--dry-run", "--json").json["would_forget"]["memories"]
    owned = rows(database, f"SELECT count(*) FROM memories WHERE user_id = '{person}'")
    assert planned > int(str(owned[0][0]))
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418


def test_nothing_is_forgotten_unasked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("forget", "chat", CHAT, "--json")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert run("forget", "chat", CHAT).code == 1
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418


def test_a_tenant_is_forgotten_when_its_name_is_said_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("forget", "tenant", "--json")
    assert (refused.code, f"--confirm {TENANT}" in refused.err) == (2, True)
    assert run("forget", "tenant", "--confirm", "another").code == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert run("forget", "tenant").code == 2
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{TENANT}\n"))
    assert run("forget", "tenant").code == 0
    assert run("chats", "list", "--json").json["chats"] == []
    assert run("forget", "tenant", "--confirm", TENANT, "--json").json["finished_at"]


def test_forgetting_a_chat_gives_a_receipt_that_does_not_name_it(run: Run) -> None:
    receipt = run("forget", "chat", CHAT, "--yes", "--json").json
    assert receipt["finished_at"]
    assert (receipt["counts"]["messages"], receipt["counts"]["found_again_texts"]) == (418, 0)
    assert CHAT not in str(receipt)
    assert run("chats", "list", "--json").json["chats"] == []
    assert [r["id"] for r in run("forget", "receipts", "--json").json["receipts"]] == [receipt["id"]]
    assert "Receipt 2" in run("forget", "message", CHAT, "1041", "--yes").out


def test_a_forgetting_that_cannot_go_on_ends_with_its_error_and_what_to_do(
    run: Run, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSCROLL_JOB_MAX_ATTEMPTS", "1")

    def broken(*given: object, **options: object) -> None:
        raise ValueError("no luck")

    with monkeypatch.context() as patched:
        patched.setattr(erase, "erase_messages", broken)
        ended = run("forget", "chat", CHAT, "--yes")
    assert ended.code == 5
    assert "ValueError: no luck" in ended.err
    assert "backscroll jobs replay forget 1" in ended.err
    # nothing comes back meanwhile, and an import says so
    assert run("import", SAMPLE, "--json").json["kept_out"] == 418
    assert "kept out as forgotten, pruned or not to be remembered 418" in run("import", SAMPLE).out
    assert run("jobs", "replay", "forget", 1).code == 0
    again = run("forget", "chat", CHAT, "--yes", "--json").json
    assert again["finished_at"]
    with database.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT count(*) FROM messages")) == 0


def test_what_was_asked_is_listed_with_its_answer(run: Run) -> None:
    context = run(
        "context", "Which internet provider?", "--chat", CHAT, "--user", "telegram:11", "--json"
    ).json
    told = run("queries", "answer", context["context_id"], "Ondaclara.", "--remember")
    assert (told.code, "are the memory" in told.out) == (0, True)
    again = run("queries", "answer", context["context_id"], "Ondaclara.", "--json").json
    assert again["outcome"] == "known"
    (listed,) = run("queries", "list", "--json").json["queries"]
    assert (listed["query"], listed["answer"]) == ("Which internet provider?", "Ondaclara.")
    assert "Which internet provider?" in run("queries").out
    assert run("queries", "answer", "ctx_none", "x").code == 3
