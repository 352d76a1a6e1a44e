"""A backup is made while messages come in, and read back whole; what is no backup changes nothing."""

import json
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from alembic import command

from migrations import REVISION
from ops.commands.forget import write_forgotten
from ops.local import migrate
from ops.local.embedded.folder import open_lock, take
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.stack import LOCK
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.erasure import forget
from pipeline.ingest.accept import accept
from pipeline.people import api_keys
from pipeline.store import api_keys as stored_keys
from pipeline.store.connections.database import Database
from schemas.bots import KeyIn, NewKey, Rotation
from schemas.messages import ChatIn
from schemas.people import Subject
from tests.conftest import TENANT, message
from tests.ops.conftest import Here
from tests.ops.running import backscroll
from tests.waiting import ended

CHAT = "test:chat"


@contextmanager
def opened(data_dir: Path) -> Iterator[Database]:
    """The database of a data folder, as Backscroll opens it."""
    with (
        EmbeddedPostgres(data_dir, durable=False) as server,
        closing(Database(server.dsn("app"), server.dsn("maintenance"))) as database,
    ):
        yield database


def said_in(database: Database) -> list[str]:
    with database.tenant(TENANT) as connection:
        return list(connection.exec_driver_sql("SELECT content FROM messages ORDER BY sent_at").scalars())


SECRETS = {"Секрет Ани", "这是李雷的秘密", "سر في رسالة", "Geheimnis"}
FORGOTTEN = (
    Subject(kind="user", sender_id="test:аня"),
    Subject(kind="user", sender_id="test:李雷"),
    Subject(kind="message", chat_id="test:غرفة", external_id="٣"),
    Subject(kind="chat", chat_id="test:küche 🍲"),
)


def talk(database: Database) -> None:
    """Say something of each of the forgotten, and something else."""
    room = [
        message(0, "Секрет Ани", id="١", sender_id="test:аня"),
        message(1, "这是李雷的秘密", id="٢", sender_id="test:李雷"),
        message(2, "سر في رسالة", id="٣", sender_id="test:kept"),
        message(3, "stays", id="٤", sender_id="test:kept"),
    ]
    accept(database, TENANT, ChatIn(chat_id="test:غرفة"), room)
    kitchen = [message(0, "Geheimnis", sender_id="test:kept")]
    accept(database, TENANT, ChatIn(chat_id="test:küche 🍲"), kitchen)


@contextmanager
def sending(database: Database) -> Iterator[None]:
    """While this holds messages come in."""
    stop = threading.Event()

    def send() -> None:
        number = 0
        while not stop.is_set():
            accept(database, TENANT, ChatIn(chat_id=CHAT), [message(number, f"number {number}")])
            number += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        stop.set()
        ended(sender)


@dataclass
class Made:
    """A backup, the data folder that it is of, and what was forgotten and which keys were ended after it."""

    dump: Path
    data_dir: Path
    forgotten: Path
    keys: list[NewKey]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("backed up")
    with EmbeddedPostgres(folder / "data", durable=False) as server:
        migrate.upgrade(server.dsn("owner"), DeterministicEmbedder().space)
        database = Database(server.dsn("app"), server.dsn("maintenance"))
        talk(database)
        keys = [
            api_keys.create(database, TENANT, KeyIn(label=label, scopes=["read"]))
            for label in ("отозван", "替换", "später", "كما هو")
        ]
        forget.start(database, TENANT, Subject(kind="user", sender_id="test:gone"))
        with sending(database):
            told = backscroll("backup", "b.dump", "--json", "--data-dir", "data", cwd=folder)
        assert told.returncode == 0, told.stderr
        for subject in FORGOTTEN:
            forget.start(database, TENANT, subject)
        # the end of three of four keys: one now, one replaced now, one later
        api_keys.revoke(database, TENANT, keys[0].id)
        api_keys.rotate(database, TENANT, keys[1].id, Rotation(keep_hours=0))
        api_keys.rotate(database, TENANT, keys[2].id, Rotation(keep_hours=24))
        listed = forget.suppressed(database, TENANT)
        assert listed is not None
        write_forgotten(folder / "забыто.jsonl", listed)
        database.close()
    return Made(folder / "b.dump", folder / "data", folder / "забыто.jsonl", keys)


def assert_forgotten(data_dir: Path, keys: list[NewKey]) -> None:
    """What was forgotten after the backup is so again and does not come back; keys are valid that were."""
    with opened(data_dir) as database:
        said = said_in(database)
        assert (SECRETS & set(said), "stays" in said, len(said) > 1) == (set(), True, True)
        late = message(-5, "опять", id="٩", sender_id="test:аня")
        assert accept(database, TENANT, ChatIn(chat_id="test:غرفة"), [late]).kept_out == 1
        with database.tenant("") as connection:
            labels = {api_keys.digest_of(key.key): key.label for key in keys}
            valid = {labels[key]: kept for key, kept in stored_keys.find(connection, list(labels)).items()}
    assert valid.keys() == {"später", "كما هو"}
    assert (valid["später"].expires_at is None, valid["كما هو"].expires_at) == (False, None)


def test_a_backup_made_under_way_is_restored_and_replaces_what_is_there_only_when_that_was_said(
    here: Here, made: Made, tmp_path: Path
) -> None:
    fresh = tmp_path / "fresh"
    assert stat.S_IMODE(made.dump.stat().st_mode) == 0o600
    told = here("restore", str(made.dump), "--json", "--data-dir", "fresh")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert (found["migration"], found["tenants"], found["chats"]) == (REVISION, 1, 3)
    with opened(fresh) as database:
        stored = said_in(database)
        assert len(stored) == found["messages"]
        assert set(stored) >= SECRETS | {"stays"}
        # Then who was forgotten before is still kept out, by the key that came along, and what comes now is taken
        late = message(0.5, "again", id="gone-1", sender_id="test:gone")
        assert accept(database, TENANT, ChatIn(chat_id=CHAT), [late]).kept_out == 1
        assert accept(database, TENANT, ChatIn(chat_id=CHAT), [message(9000, id="other")]).new == 1
    refused = here("restore", str(made.dump), "--data-dir", "fresh")
    assert refused.returncode == 2
    assert f"holds {found['messages'] + 1:,} messages" in refused.stderr
    assert "--replace" in refused.stderr
    lock = open_lock(fresh / LOCK)
    assert take(lock)
    running = here("restore", str(made.dump), "--replace", "--data-dir", "fresh")
    assert (running.returncode, "wait until it has ended" in running.stderr) == (1, True)
    os.close(lock)
    # When it is replaced, with the list of what was forgotten since
    again = ("--replace", "--forgotten", str(made.forgotten))
    replaced = here("restore", str(made.dump), "--data-dir", "fresh", *again)
    assert replaced.returncode == 0, replaced.stderr
    assert "4 were there, and are forgotten again" in replaced.stdout
    # what starts it can be copied as it is
    assert replaced.stdout.endswith(f"Start it with: backscroll up --data-dir {fresh}\n")
    assert_forgotten(fresh, made.keys)


def test_what_was_forgotten_after_the_backup_stays_so_where_it_is_restored_in_place(
    here: Here, made: Made
) -> None:
    told = here("restore", str(made.dump), "--replace", "--data-dir", str(made.data_dir))
    assert told.returncode == 0, told.stderr
    assert "4 were there, and are forgotten again" in told.stdout
    assert_forgotten(made.data_dir, made.keys)
    # of a folder that does not run a backup is made as well
    cold = here("backup", "cold.dump", "--data-dir", str(made.data_dir))
    assert cold.returncode == 0, cold.stderr
    assert "backscroll restore cold.dump" in cold.stdout


def test_an_older_backup_is_brought_up_to_date_and_one_that_is_newer_damaged_or_none_is_refused(
    here: Here, made: Made, tmp_path: Path
) -> None:
    data_dir = made.data_dir
    (tmp_path / "text.dump").write_text("not a backup")
    whole = made.dump.read_bytes()
    (tmp_path / "short.dump").write_bytes(whole[: len(whole) // 2])
    with (
        EmbeddedPostgres(data_dir, durable=False) as server,
        psycopg.connect(server.superuser_dsn("backscroll"), autocommit=True) as connection,
    ):
        for name, at in (("newer.dump", "9999"), ("development.dump", "0018"), ("", REVISION)):
            connection.execute("UPDATE alembic_version SET version_num = %s", [at])
            assert not name or here("backup", name, "--data-dir", str(data_dir)).returncode == 0
        command.downgrade(migrate.config(server.dsn("owner")), "-1")
        assert here("backup", "old.dump", "--data-dir", str(data_dir)).returncode == 0
        command.upgrade(migrate.config(server.dsn("owner")), "head")
    for name, code, told in (
        ("none.dump", 2, "cannot be read"),
        ("text.dump", 2, "is no backup of Backscroll"),
        ("newer.dump", 4, "does not know: update the program"),
        ("development.dump", 4, "older development version (migration 0018)"),
    ):
        refused = here("restore", name, "--data-dir", "fresh")
        assert (refused.returncode, told in refused.stderr) == (code, True), refused.stderr
        assert not (tmp_path / "fresh").exists()
    # What is damaged further on is noticed while it is read: nothing is replaced
    with opened(data_dir) as database:
        before = said_in(database)
    short = here("restore", "short.dump", "--replace", "--data-dir", str(data_dir))
    assert short.returncode in {1, 2}, short.stderr
    assert "Traceback" not in short.stderr
    with opened(data_dir) as database:
        assert said_in(database) == before
    told = here("restore", "old.dump", "--json", "--data-dir", "fresh")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["migration"] == REVISION


def test_nothing_is_written_over(here: Here, tmp_path: Path) -> None:
    assert here("backup", "b.dump", "--data-dir", "data").returncode == 3
    (tmp_path / "b.dump").write_bytes(b"PGDMP kept")
    kept = here("backup", "b.dump", "--data-dir", "data")
    assert kept.returncode == 2
    assert "--overwrite" in kept.stderr


def test_a_file_that_is_no_suppression_list_is_refused(here: Here, made: Made, tmp_path: Path) -> None:
    for text in ("Привет", '{"tenant": "default", "key": "00", "entries": []}'):
        (tmp_path / "забыто.jsonl").write_text(text)
        refused = here("restore", str(made.dump), "--data-dir", "fresh", "--forgotten", "забыто.jsonl")
        assert refused.returncode == 2
        assert "Traceback" not in refused.stderr
        assert not (tmp_path / "fresh").exists()


def test_a_postgres_of_ones_own_takes_its_url_or_is_told_the_command(
    here: Here, postgres: EmbeddedPostgres, database_name: str, tmp_path: Path
) -> None:
    app = {"BACKSCROLL_DATABASE_URL": postgres.dsn("app", database=database_name)}
    refused = here("backup", "b.dump", **app)
    assert refused.returncode == 4
    assert "pg_dump --format custom --file backscroll.dump 'postgresql://backscroll_backup@" in refused.stderr
    backup = {"BACKSCROLL_BACKUP_DATABASE_URL": postgres.dsn("backup", database=database_name)}
    made = here("backup", "b.dump", **app, **backup)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "b.dump").read_bytes().startswith(b"PGDMP")
    refused = here("restore", "b.dump", **app)
    assert refused.returncode == 4
    assert "pg_restore" in refused.stderr
    assert "secret" not in refused.stderr
    away = here("backup", "c.dump", BACKSCROLL_BACKUP_DATABASE_URL="postgresql://x:secret@127.0.0.1:1/x")
    assert away.returncode == 1
    assert "secret" not in away.stderr
