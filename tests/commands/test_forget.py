"""What an operator relies on when somebody asks to be forgotten."""

import io
import sys
from pathlib import Path

import pytest

from ops.commands.forget import write_forgotten
from pipeline.erasure import derived
from pipeline.people import suppression
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from schemas.people import Forgotten
from tests.commands.conftest import CHAT, SAMPLE, Run
from tests.conftest import TENANT
from tests.harness.pipeline import rows

pytestmark = pytest.mark.usefixtures("house")


def test_a_chat_is_forgotten_when_that_is_wanted_with_a_receipt_that_does_not_name_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("memories", "add", "Инес боится высоты.", "--user", "telegram:11", "--chat", CHAT).code == 0
    shown = run("forget", "chat", CHAT, "--dry-run", "--json").json
    assert shown["would_forget"] == {"messages": 418, "chats": 1, "memories": 1, "queries": 0}
    refused = run("forget", "chat", CHAT, "--json")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert run("forget", "chat", CHAT).code == 1
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418
    receipt = run("forget", "chat", CHAT, "--yes", "--json").json
    assert receipt["finished_at"]
    assert (receipt["counts"]["messages"], receipt["counts"]["found_again_texts"]) == (418, 0)
    assert CHAT not in str(receipt)
    assert run("chats", "list", "--json").json["chats"] == []
    assert [r["id"] for r in run("forget", "receipts", "--json").json["receipts"]] == [receipt["id"]]
    assert "Receipt 2" in run("forget", "message", CHAT, "1041", "--yes").out


def test_a_tenant_is_forgotten_when_its_name_is_said_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("forget", "tenant", "--json")
    assert (refused.code, f"--confirm {TENANT}" in refused.err) == (2, True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert run("forget", "tenant").code == 2
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{TENANT}\n"))
    assert run("forget", "tenant").code == 0
    assert run("chats", "list", "--json").json["chats"] == []


def test_a_forgetting_that_cannot_go_on_ends_with_its_error_and_what_to_do(
    run: Run, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSCROLL_JOB_MAX_ATTEMPTS", "1")

    def broken(*given: object, **options: object) -> None:
        raise ValueError("no luck")

    with monkeypatch.context() as patched:
        patched.setattr(derived, "erase_messages", broken)
        ended = run("forget", "chat", CHAT, "--yes")
    assert ended.code == 5
    assert "ValueError: no luck" in ended.err
    assert "backscroll jobs replay forget 1" in ended.err
    # nothing comes back meanwhile, and an import says so
    assert run("import", SAMPLE, "--json").json["kept_out"] == 418
    assert run("jobs", "replay", "forget", 1).code == 0
    again = run("forget", "chat", CHAT, "--yes", "--json").json
    assert again["finished_at"]
    assert rows(database, "SELECT count(*) FROM messages") == [(0,)]


def listed(database: Database, key: bytes, *named: suppression.Named) -> Forgotten:
    """A list of another database, with an entry for each of these and one for somebody who is not known here."""
    with database.tenant(TENANT) as connection:
        until = chats.clock(connection).isoformat()
    entries = [
        {
            "hash": suppression.hash_of(key, *each).hex(),
            "kind": each[0],
            "until": None if each[0] == "message" else until,
        }
        for each in (*named, ("user", "telegram:незнакомка"))
    ]
    return Forgotten.model_validate({"tenant": TENANT, "key": key.hex(), "entries": entries})


@pytest.mark.parametrize("own_key", [False, True])
def test_a_list_of_another_database_is_forgotten_here(
    run: Run, database: Database, tmp_path: Path, *, own_key: bool
) -> None:
    file = tmp_path / "遗忘.jsonl"
    one = str(rows(database, "SELECT min(external_id) FROM messages WHERE sender_id <> 'telegram:12'")[0][0])
    if own_key:
        run("forget", "message", CHAT, "неизвестное", "--unseen", "--yes")
    write_forgotten(file, listed(database, b"k" * 32, ("user", "telegram:12"), ("message", CHAT, one)))
    done = run("forget", "again", file, "--json").json
    assert (done["taken_over"], done["lost"], len(done["receipts"])) == ((2, 1, 2) if own_key else (3, 0, 2))
    assert all(receipt["finished_at"] for receipt in done["receipts"])
    left = rows(database, "SELECT sender_id, external_id FROM messages WHERE chat_id = 'telegram:-100420'")
    assert left
    assert "telegram:12" not in {sender for sender, _ in left}
    assert one not in {external for _, external in left}
    # the others of the person are left alone, and once more there is nothing to do
    assert own_key or run("forget", "again", file, "--json").json["receipts"] == []
    # and what this one has can be taken to the next
    exported = run("forget", "export", tmp_path / "ещё.jsonl", "--json").json
    assert exported["entries"] >= 2
    assert (tmp_path / "ещё.jsonl").stat().st_mode & 0o077 == 0
    assert run("forget", "again", file, "--tenant", "another").code == 2


def test_without_any_forgetting_there_is_no_list(run: Run, tmp_path: Path) -> None:
    assert run("forget", "export", tmp_path / "нет.jsonl").code == 3
    assert run("forget", "again", tmp_path / "нет.jsonl").code == 2


def test_a_dry_run_counts_what_a_run_deletes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_RETENTION_MESSAGES_PER_CHAT", "100")
    assert "318" in run("prune", "--dry-run").out
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] == 418
    by_rule = {rule["rule"]: rule["rows"] for rule in run("prune", "--json").json["rules"]}
    assert by_rule["messages_by_count"] == 318
    chat = run("chats", "list", "--json").json["chats"][0]
    assert chat["message_count"] == 100
    # what was said of them stays
    assert chat["summarized"] > 30
    assert "have been pruned" in run("sessions", "show", 1).out
