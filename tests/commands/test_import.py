"""People bring in what they have, twice, longer, broken, and in the middle of a live chat."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from ops.processes import environment
from pipeline import ingest
from pipeline.store.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.commands.conftest import SAMPLE, Run, Workers
from tests.conftest import CHECKOUT, TENANT, message
from tests.platforms.reading import FIXTURES

CHAT = "whatsapp:Harbour House"
Write = Callable[..., Path]


def lines(*minutes: int) -> list[str]:
    return [f"13/01/24, 10:{minute:02d} - Ana: message of {minute}" for minute in minutes]


def test_a_chat_imported_is_a_chat_that_is_listed(run: Run, workers: Workers, whatsapp: Write) -> None:
    imported = run("import", whatsapp(*lines(0, 1, 2)), "--tz", "Europe/Lisbon")
    assert imported.code == 0
    assert "new 3, already there 0, broken 0, skipped 0" in imported.out
    assert "backscroll status --watch" in imported.out
    workers.finish()
    chat = run("chats", "list", "--json").json["chats"][0]
    assert (chat["chat_id"], chat["message_count"], chat["sessions"]) == (CHAT, 3, 1)
    assert chat["time_zone"] == "Europe/Lisbon"


def test_importing_twice_adds_nothing(run: Run) -> None:
    first = run("import", SAMPLE, "--json").json
    second = run("import", SAMPLE, "--json").json
    assert (first["new"], first["duplicates"]) == (418, 0)
    assert (second["new"], second["duplicates"]) == (0, 418)


def test_a_longer_export_adds_only_what_is_new(run: Run, whatsapp: Write) -> None:
    run("import", whatsapp(*lines(0, 1, 1, 2)))
    again = run("import", whatsapp(*lines(0, 1, 1, 2, 3, 4)), "--json").json
    assert (again["new"], again["duplicates"]) == (2, 4)


def test_every_format_goes_through_the_same_way(run: Run) -> None:
    for path in ("telegram/all.json", "slack", "discord/Harbour - general [700].json", "jsonl/garden.jsonl"):
        first, second = (run("import", FIXTURES / path, "--json").json for _ in range(2))
        assert first["new"] > 0
        assert (second["new"], second["duplicates"]) == (0, first["new"] + first["duplicates"])


def test_a_broken_line_is_named_counted_and_skipped(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    good = {"chat_id": "app:1", "sender_id": "app:7", "content": "hi", "sent_at": "2024-05-01T09:00:00Z"}
    path.write_text("\n".join([json.dumps(good), "{not json", json.dumps(good | {"sent_at": "soon"})]))
    imported = run("import", path)
    assert imported.code == 0
    assert "new 1, already there 0, broken 2" in imported.out
    assert f"{path}, line 2: is not JSON" in imported.err
    assert f"{path}, line 3: sent_at" in imported.err


def test_twenty_broken_lines_are_shown_and_the_others_counted(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    good = {"chat_id": "app:1", "sender_id": "app:7", "content": "hi", "sent_at": "2024-05-01T09:00:00Z"}
    path.write_text("\n".join([json.dumps(good), *["{"] * 50]))
    imported = run("import", path)
    assert "broken 50" in imported.out
    assert imported.err.count("is not JSON") == 20
    assert "only counted" in imported.err


def test_strict_writes_nothing_when_a_line_is_broken(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    good = {"chat_id": "app:1", "sender_id": "app:7", "content": "hi", "sent_at": "2024-05-01T09:00:00Z"}
    path.write_text(json.dumps(good) + "\n{")
    refused = run("import", path, "--strict")
    assert refused.code == 2
    assert "line 2" in refused.err
    assert "nothing was written" in refused.err
    assert run("chats", "list", "--json").json == {"chats": []}
    path.write_text(json.dumps(good))
    assert run("import", path, "--strict", "--json").json["new"] == 1


def test_system_lines_are_counted_by_their_reason(run: Run, whatsapp: Write) -> None:
    path = whatsapp(
        "13/01/24, 09:59 - Ana added Ben", *lines(0), "13/01/24, 10:01 - Ben: This message was deleted"
    )
    imported = run("import", path)
    assert "new 1, already there 0, broken 0, skipped 2 (" in imported.out
    assert run("import", path, "--json").json["skipped"] == {"system line": 1, "deleted message": 1}


def test_a_multi_chat_export_has_a_line_for_each_chat(run: Run) -> None:
    imported = run("import", FIXTURES / "telegram/all.json", "--json").json
    assert len(imported["chats"]) > 1
    assert sum(chat["new"] for chat in imported["chats"]) == imported["new"]


def test_waiting_ends_when_everything_is_remembered(run: Run, workers: Workers) -> None:
    with workers.busy():
        imported = run("import", SAMPLE, "--wait", "--json").json
    memory = imported["memory"]
    assert (memory["waiting"], memory["owed"], memory["dead"]) == (0, 0, 0)
    assert memory["embedded"] == memory["to_embed"] == memory["messages"] == 418
    assert memory["summarized"] == memory["closed"] > 0


def test_work_that_was_given_up_ends_the_waiting_with_code_5(
    run: Run, workers: Workers, database: Database, whatsapp: Write
) -> None:
    path = whatsapp(*lines(0, 1))
    run("import", path)
    workers.finish()
    with database.tenant(TENANT) as connection:
        connection.exec_driver_sql(
            "INSERT INTO work (tenant_id, kind, key, dead_at, last_error) "
            "SELECT tenant_id, 'embed', 'message:' || id, now(), 'too odd' FROM messages"
        )
    ended = run("import", path, "--wait")
    assert ended.code == 5
    assert "too odd" in ended.err


def test_a_chat_that_also_arrives_live_is_warned_of(run: Run, database: Database, whatsapp: Write) -> None:
    """Imported and live ids of one WhatsApp message never match."""
    path = whatsapp(*lines(0, 1, 2, 3))
    live = [message(0, id="live-1", sent_at="2024-01-13T10:02:00Z"), message(0, id="live-2")]
    ingest.accept(database, TENANT, ChatIn(chat_id=CHAT), live)
    imported = run("import", path, "--json").json
    assert any("may now be there twice" in notice for notice in imported["notices"])
    assert imported["chats"][0]["overlapping"] == 2
    # nothing new: nothing to warn of
    assert not any("twice" in notice for notice in run("import", path, "--json").json["notices"])


def test_an_import_that_ends_before_the_bot_came_is_not_warned_of(
    run: Run, database: Database, whatsapp: Write
) -> None:
    ingest.accept(database, TENANT, ChatIn(chat_id=CHAT), [message(0, id="live-1")])
    imported = run("import", whatsapp(*lines(0, 1)), "--json").json
    assert not any("twice" in notice for notice in imported["notices"])


def test_a_platforms_own_ids_meet_those_of_the_live_bot(run: Run, database: Database) -> None:
    with SAMPLE.open() as file:
        next(file)
        first = json.loads(next(file))
    live = message(0, id=first["external_id"], sent_at=first["sent_at"])
    ingest.accept(database, TENANT, ChatIn(chat_id="telegram:-100420"), [live])
    imported = run("import", SAMPLE, "--json").json
    assert (imported["new"], imported["duplicates"], imported["notices"]) == (417, 1, [])


WRONG_FILES = {
    None: "does not exist",
    b"": "is empty",
    b"   \n": "is empty",
    "13/01/24, 10:00 - Ana: caf\xe9\n".encode("latin-1"): "is not UTF-8",
    b"dear diary, today nothing happened\n": "none of the formats",
    b"<!doctype html><html></html>": "is a web page",
    b"\x89PNG\x00\x00": "is no text",
}


def test_a_wrong_file_is_refused_with_what_to_do(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    for content, said in WRONG_FILES.items():
        if content is not None:
            path.write_bytes(content)
        refused = run("import", path)
        assert refused.code == 2
        assert said in refused.err
        assert refused.out == ""


def test_a_file_without_a_single_message_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"type": "chat", "chat_id": "app:1"}\n{\n')
    refused = run("import", path)
    assert refused.code == 2
    assert "holds no messages (new 0, already there 0, broken 1, skipped 0)" in refused.err
    assert run("chats", "list", "--json").json == {"chats": []}


def test_wrong_options_name_what_is_allowed(run: Run, whatsapp: Write) -> None:
    path = whatsapp(*lines(0))
    assert "Europe/Lisbon" in run("import", path, "--tz", "Lisbon").err
    assert "english" in run("import", path, "--language", "klingon").err
    assert run("import", path, "--format", "fax").code == 2


def test_without_redis_an_import_works_and_says_so_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, workers: Workers
) -> None:
    monkeypatch.setenv("BACKSCROLL_REDIS_URL", "redis://127.0.0.1:1/0")
    imported = run("import", FIXTURES / "telegram/all.json", "--json")
    assert imported.json["new"] > 0
    assert imported.err.count("Redis does not answer") == 1
    workers.finish()
    assert run("chats", "list", "--json").json["chats"][0]["message_count"] > 0


def test_without_postgres_nothing_is_read_and_the_exit_code_says_try_later(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSCROLL_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    refused = run("import", SAMPLE)
    assert refused.code == 1
    assert "Postgres cannot be reached" in refused.err


def test_ctrl_c_keeps_what_was_accepted_and_says_how_to_go_on(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    with path.open("w") as file:
        for number in range(50_000):
            at = 1_700_000_000 + number
            file.write(
                f'{{"chat_id": "app:1", "sender_id": "app:7", "content": "{number}", "sent_at": {at}}}\n'
            )
    command = [sys.executable, "-m", "ops.cli", "import", str(path)]
    process = subprocess.Popen(
        command,
        env=environment(settings),
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        deadline = time.monotonic() + 60
        while not _messages(database) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command again" in err
    assert "Traceback" not in err
    assert 0 < _messages(database) < 50_000


def test_the_batches_of_an_import_settle_before_they_are_summarized(
    run: Run, settings: Settings, database: Database, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSCROLL_SETTLE_SECONDS", "3600")
    run("import", SAMPLE)
    workers.finish()
    with database.tenant(TENANT) as connection:
        due = connection.exec_driver_sql(
            "SELECT min(due_at) - now() FROM work WHERE kind = 'summarize'"
        ).scalar()
    assert due > timedelta(minutes=50)


def _messages(database: Database) -> int:
    with database.tenant(TENANT) as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM messages").scalar() or 0
