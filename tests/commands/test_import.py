"""People bring in what they have, twice, longer, broken, and in the middle of a live chat."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ops.local.processes import environment
from pipeline.erasure import edits
from pipeline.ingest import accept
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.commands.conftest import Run, Workers, Write, lines
from tests.conftest import CHECKOUT, TENANT, message
from tests.harness.doctor import found
from tests.harness.pipeline import rows
from tests.platforms.reading import FIXTURES

CHAT = "whatsapp:Harbour House"
COUNT = "SELECT count(*) FROM messages"


def test_a_chat_imported_is_a_chat_that_is_listed(run: Run, workers: Workers, whatsapp: Write) -> None:
    imported = run("import", whatsapp(*lines(0, 1, 2)), "--tz", "Europe/Lisbon")
    assert imported.code == 0
    assert "new 3, already there 0, broken 0, skipped 0" in imported.out
    workers.finish()
    chat = run("chats", "list", "--json").json["chats"][0]
    assert (chat["chat_id"], chat["message_count"], chat["sessions"]) == (CHAT, 3, 1)
    assert chat["time_zone"] == "Europe/Lisbon"


def test_every_format_goes_through_the_same_way(run: Run) -> None:
    for path in ("telegram/all.json", "slack"):
        first, second = (run("import", FIXTURES / path, "--json").json for _ in range(2))
        assert first["new"] > 0
        assert (second["new"], second["duplicates"]) == (0, first["new"] + first["duplicates"])


def test_a_broken_line_is_named_counted_and_skipped_and_strictly_nothing_is_written(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    good = {"chat_id": "app:1", "sender_id": "app:7", "content": "hi", "sent_at": "2024-05-01T09:00:00Z"}
    path.write_text("\n".join([json.dumps(good), "{not json", json.dumps(good | {"sent_at": "soon"})]))
    refused = run("import", path, "--strict")
    assert (refused.code, "has broken lines (2), so nothing was written" in refused.err) == (2, True)
    assert run("chats", "list", "--json").json == {"chats": []}
    imported = run("import", path)
    assert imported.code == 0
    assert "new 1, already there 0, broken 2" in imported.out
    assert f"{path}, line 2: is not JSON" in imported.err
    assert f"{path}, line 3: sent_at" in imported.err
    path.write_text('{"type": "chat", "chat_id": "app:1"}\n{\n')
    empty = run("import", path)
    assert (empty.code, "holds no messages" in empty.err) == (2, True)


def test_what_is_too_long_is_cut_and_all_that_is_left_out_is_counted(
    run: Run, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    good = {"chat_id": "app:1", "sender_id": "app:7", "content": "hi", "sent_at": "2024-05-01T09:00:00Z"}
    long = {"content": "шум " * 20_000, "sender_name": "я" * 300, "metadata": {"note": "x" * 17_000, "by": 7}}
    path.write_text("\n".join(map(json.dumps, [good, good | long, good | {"content": "", "sent_at": 1e30}])))
    imported = run("import", path, "--json").json
    assert (imported["new"], imported["cut"], imported["broken"]) == (2, 1, 1)
    assert "cut as too long 1" not in run("import", path).out
    ((content, name, metadata),) = rows(
        database, "SELECT content, sender_name, metadata FROM messages WHERE length(content) > 2"
    )
    assert content.endswith(" шум… [cut: 140000 bytes]")
    assert name == "я" * 254 + "…"
    assert metadata == {"by": 7, "original_bytes": 140_000, "original_metadata_bytes": 17_021}
    # the second time nothing was stored, and the same line could not be read
    counted = rows(database, "SELECT name, sum(value) FROM daily_counters WHERE name LIKE 'left%' GROUP BY 1")
    assert dict(counted) == {"left_out:jsonl:cut": 1, "left_out:jsonl:unreadable": 2}


def test_work_that_was_given_up_ends_the_waiting_with_code_5(
    run: Run, workers: Workers, database: Database, whatsapp: Write
) -> None:
    path = whatsapp(*lines(0, 1))
    run("import", path)
    workers.finish()
    rows(
        database,
        "INSERT INTO jobs (tenant_id, kind, key, dead_at, last_error) "
        "SELECT tenant_id, 'embed', 'message:' || id, now(), 'too odd' FROM messages",
    )
    ended = run("import", path, "--wait")
    assert ended.code == 5
    assert "too odd" in ended.err


def test_a_chat_that_also_arrives_live_is_warned_of(run: Run, database: Database, whatsapp: Write) -> None:
    """Imported and live ids of one WhatsApp message never match."""
    path = whatsapp(*lines(0, 1, 2, 3))
    live = [message(0, id="live-1", sent_at="2024-01-13T10:02:00Z"), message(0, id="live-2")]
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT), live)
    imported = run("import", path, "--json").json
    assert any("may now be stored twice" in " ".join(notice.split()) for notice in imported["notices"])
    assert imported["chats"][0]["overlapping"] == 2


def test_ctrl_c_keeps_what_was_accepted_and_says_how_to_go_on(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    with path.open("w") as file:
        # more than is brought in while the signal is on its way
        for number in range(100_000):
            at = 1_700_000_000 + number
            file.write(
                f'{{"chat_id": "app:1", "sender_id": "app:7", "content": "{number}", "sent_at": {at}}}\n'
            )
    command = [sys.executable, "-m", "ops.cli", "import", str(path)]
    with subprocess.Popen(
        command, env=environment(settings), cwd=CHECKOUT, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while rows(database, COUNT) == [(0,)] and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "run the same command again" in err
    assert "Traceback" not in err
    assert (0,) < rows(database, COUNT)[0] < (100_000,)


def times(database: Database, chat: str = CHAT) -> list[str]:
    """When the messages of a chat were said, as they are stored, with their texts."""
    statement = (
        "SELECT to_char(sent_at AT TIME ZONE 'UTC', 'MM-DD HH24:MI') || ' ' || content, chat_id FROM messages"
    )
    said = rows(database, f"{statement} ORDER BY sent_at, position, content")
    return [str(row[0]) for row in said if row[1] == chat]


def settled(run: Run, workers: Workers) -> None:
    """All is placed, and sessions and counters are as the messages have it."""
    workers.finish()
    assert found(run) == {}


AMBIGUOUS = [
    "03/04/24, 10:00 - Ana: one",
    "03/04/24, 10:05 - Ben: two",
    "04/04/24, 10:00 - Ana: three",
    "05/04/24, 10:00 - Ana: four",
]


def test_dates_that_allow_two_readings_are_asked_for_and_nothing_is_written(
    run: Run, whatsapp: Write, database: Database
) -> None:
    path = whatsapp(*AMBIGUOUS)
    refused = run("import", path, "--tz", "Europe/Berlin", "--title", "Ana's house")
    assert refused.code == 2
    assert "03/04/24  day first: Wednesday, 3 April 2024; month first: Monday, 4 March 2024" in refused.err
    assert run("chats", "list", "--json").json == {"chats": []}
    asked = [shlex.split(line) for line in refused.err.splitlines() if line.startswith("  backscroll")]
    assert [words[words.index("--date-order") + 1] for words in asked] == ["dmy", "mdy"]
    # each is a whole command
    done = run(*asked[1][1:])
    assert done.code == 0
    assert "new 4" in done.out
    chat = run("chats", "show", "whatsapp:Ana's house", "--json").json
    assert (chat["title"], chat["time_zone"]) == ("Ana's house", "Europe/Berlin")
    assert times(database, chat["chat_id"])[0] == "03-04 09:00 one"


def test_another_date_order_moves_what_was_imported(
    run: Run, whatsapp: Write, workers: Workers, database: Database
) -> None:
    path = whatsapp(*AMBIGUOUS)
    run("import", path, "--date-order", "dmy")
    settled(run, workers)
    before = ["04-03 10:00 one", "04-03 10:05 two", "04-04 10:00 three", "04-05 10:00 four"]
    after = ["03-04 10:00 one", "03-04 10:05 two", "04-04 10:00 three", "05-04 10:00 four"]
    assert times(database) == before
    moved = run("import", path, "--date-order", "mdy")
    assert "new 0, moved 3, already there 1" in moved.out
    assert times(database) == after
    # what has moved is found by its words at once, and has its place in a session when it was placed
    assert found_by_stem(database, "three")
    back = run("import", path, "--date-order", "dmy", "--json").json
    assert (back["new"], back["moved"], back["duplicates"]) == (0, 3, 1)
    settled(run, workers)
    assert times(database) == before


def test_equal_texts_on_days_that_are_each_others_reading_stay_two_messages(
    run: Run, whatsapp: Write, database: Database
) -> None:
    both = ["03/04/24, 10:00 - Ana: ok", "04/03/24, 10:00 - Ana: ok"]
    # the latest messages were exported first
    run("import", whatsapp(both[1]), "--date-order", "mdy")
    longer = run("import", whatsapp(*both), "--date-order", "mdy", "--json").json
    assert (longer["new"], longer["moved"], longer["duplicates"]) == (1, 0, 1)
    other = run("import", whatsapp(*both), "--date-order", "dmy", "--json").json
    assert (other["new"], other["moved"]) == (0, 0)
    assert times(database) == ["03-04 10:00 ok", "04-03 10:00 ok"]


def test_another_clock_moves_what_was_imported_and_the_table_shows_what_is_stored(
    run: Run, whatsapp: Write, workers: Workers, database: Database
) -> None:
    path = whatsapp(*lines(0, 1, 29, 58))
    first = run("import", path)
    assert "they are read as UTC. Say --tz" in first.err
    assert "dates day first (13/01/24 is 13 January 2024, Saturday)" in first.out
    workers.finish()
    moved = run("import", path, "--tz", "Europe/Berlin")
    assert "new 0, moved 4, already there 0" in moved.out
    assert "2024-01-13 10:00" in moved.out
    assert times(database)[0] == "01-13 09:00 message of 0"
    settled(run, workers)
    # who does not say it again means the same
    again = run("import", path)
    assert ("moved" in again.out, "by the clock of Europe/Berlin" in again.out) == (False, True)


def test_a_bots_own_time_is_not_moved_by_an_export_of_seconds(
    run: Run, database: Database, tmp_path: Path
) -> None:
    accept.accept(
        database, TENANT, ChatIn(chat_id="app:1"), [message(0, id="7", sent_at="2024-05-01T09:00:00.5Z")]
    )
    path = tmp_path / "history.jsonl"
    line = {"chat_id": "app:1", "external_id": "7", "sender_id": "app:7", "content": "hi"}
    path.write_text(json.dumps(line | {"sent_at": "2024-05-01T09:00:00"}))
    assert run("import", path, "--tz", "UTC", "--json").json["moved"] == 0
    assert run("import", path, "--tz", "Asia/Tokyo", "--json").json["moved"] == 0


def test_a_message_that_was_deleted_stays_so_in_another_date_order(
    run: Run, whatsapp: Write, database: Database, settings: Settings
) -> None:
    path = whatsapp(*AMBIGUOUS)
    run("import", path, "--date-order", "dmy")
    ((gone,),) = rows(database, "SELECT external_id FROM messages WHERE content = 'one'")
    edits.delete(database, TENANT, CHAT, str(gone), SessionPolicy.of(settings))
    other = run("import", path, "--date-order", "mdy", "--json").json
    assert (other["new"], other["moved"], other["kept_out"]) == (0, 2, 1)
    assert not any("one" in line for line in times(database))


def test_a_chat_that_was_forgotten_is_not_made_again_by_what_is_told_of_it_at_the_end(
    run: Run, whatsapp: Write
) -> None:
    said = [
        f"13/01/24, {10 + n // 60}:{n % 60:02d} - {'Ana' if n else 'Harbour House'}: {n}" for n in range(120)
    ]
    path = whatsapp(*said)
    run("import", path)
    assert run("chats", "show", CHAT, "--json").json["kind"] == "direct"
    assert run("forget", "chat", CHAT, "--yes").code == 0
    again = run("import", path, "--json").json
    assert (again["new"], again["kept_out"]) == (0, 120)
    assert run("chats", "list", "--json").json == {"chats": []}
    # and it is said why, and what brings a chat in again
    assert f"by design: {CHAT}" in again["notices"][-1]
    told = run("import", path)
    assert "kept out as forgotten, pruned or not to be remembered 120" in told.out
    assert "Next:" not in told.out
    assert "backscroll chats remove" in told.err
    assert run("import", path, "--chat", "whatsapp:again", "--json").json["new"] == 120


def test_a_file_that_breaks_off_ends_with_code_5_and_says_what_is_in(run: Run, tmp_path: Path) -> None:
    whole = (FIXTURES / "telegram/result.json").read_text()
    path = tmp_path / "result.json"
    path.write_text(whole[: whole.index("Ferry at nine")])
    ended = run("import", path)
    assert ended.code == 5
    assert "is not complete" in ended.err
    assert "6 messages" in ended.err
    assert "new 6" in ended.out


GERMAN = [
    "Ich habe das mit dem Vermieter besprochen und er sagt, dass die Heizung erst im Mai kommt.",
    "Das ist doch nicht wahr, wir haben sie schon im Januar bestellt und sie war nicht billig.",
    "Ja, aber die Firma hat keine Leute und wir müssen noch ein paar Wochen warten.",
    "Dann nehmen wir den kleinen Ofen aus dem Keller, der ist zwar alt, aber er geht noch.",
]


def german() -> list[str]:
    return [f"13.01.24, 10:0{n} - Ana: {said}" for n, said in enumerate(GERMAN)]


def found_by_stem(database: Database, word: str) -> int:
    """How many messages a word finds as keyword search asks: stemmed by the language of the chat."""
    with database.tenant(TENANT) as connection:
        return connection.exec_driver_sql(
            "SELECT count(*) FROM messages m JOIN chats c USING (chat_id) "
            "WHERE m.tsv @@ to_tsquery(c.language::regconfig, %s)",
            (word,),
        ).scalar_one()


def test_a_language_that_does_not_look_like_the_declared_one_is_said_and_can_be_changed(
    run: Run, whatsapp: Write, workers: Workers, database: Database
) -> None:
    imported = run("import", whatsapp(*german()), "--language", "english")
    assert "looks German: --language german" in imported.err
    workers.finish()
    assert not found_by_stem(database, "Heizungen")
    (line,) = [line for line in imported.err.splitlines() if "backscroll chats language" in line]
    command = shlex.split(line[line.index("backscroll chats") :])
    changed = run(*command[1:])
    assert changed.code == 0
    assert "4 messages" in changed.out
    assert found_by_stem(database, "Heizungen")
    settled(run, workers)
    assert "looks" not in run("import", whatsapp(*german())).err
    assert rows(database, "SELECT DISTINCT language FROM conversation_sessions") == [("german",)]


TELEGRAM = {"type": "message", "from": "Ярослава", "from_id": "user11", "date_unixtime": "1788256860"}


def telegram(tmp_path: Path, *messages: dict[str, Any]) -> Path:
    path = tmp_path / "result.json"
    listed = [TELEGRAM | {"id": number} | message for number, message in enumerate(messages, start=1)]
    path.write_text(
        json.dumps({"name": "Лодка", "type": "private_supergroup", "id": 5, "messages": listed}), "utf-8"
    )
    return path


def test_what_people_sent_and_nobody_reads_is_named_last_and_ends_with_code_5(
    run: Run, tmp_path: Path
) -> None:
    path = telegram(
        tmp_path, {"text": "До встречи"}, {"type": "hologram", "text": "смотри 🎇"}, {"type": "hologram"}
    )
    strict = run("import", path, "--strict")
    assert (strict.code, run("chats", "list", "--json").json) == (2, {"chats": []})
    imported = run("import", path)
    assert imported.code == 5
    assert "new 2, already there 0, broken 0, skipped 0, not read 2" in imported.out
    last = "Telegram: unknown kind hologram: of 2 messages only the text was read; please report the kind"
    assert imported.err.splitlines()[-1] == last
    assert last in strict.err
    again = run("import", path, "--json")
    assert again.code == 5
    assert json.loads(again.out)["unread"] == [
        {"platform": "Telegram", "kind": "hologram", "known": False, "count": 2}
    ]
