"""A read replica answers questions while it has everything; nobody can tell, but for the load on the primary."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.connections.database import Database
from schemas.errors import Retryable, SettingsError
from schemas.settings import Settings
from tests.api.conftest import body, said, served
from tests.conftest import TENANT
from tests.deployment.standby import Standby, standby_of
from tests.waiting import until

CHAT = "test:house"
WORDS = (
    "Die Fähre geht um 7:40 ⛴",
    "Паром уходит в семь",
    "渡轮七点四十分出发",
    "العبّارة تغادر في السابعة",
    "फेरी सात बजे",
)


@pytest.fixture(scope="module")
def standby(postgres: EmbeddedPostgres, memory_folder: Path) -> Iterator[Standby]:
    with standby_of(postgres, memory_folder / "standby") as standby:
        yield standby


@pytest.fixture
def settings(settings: Settings, standby: Standby, database_name: str) -> Settings:
    return settings.model_copy(
        update={"database_read_url": SecretStr(standby.dsn("app", database=database_name))}
    )


def ask(client: httpx.Client, **fields: object) -> str:
    answer = client.post(
        "/v1/context", json={"chat_id": CHAT, "query": "When does the ferry leave?"} | fields
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["text"])


def read_there(database: Database) -> float:
    """How many of today's contexts the standby was asked for."""
    with database.tenant(TENANT) as connection:
        statement = "SELECT coalesce(sum(value), 0) FROM daily_counters WHERE name = 'contexts_on_replica'"
        return float(connection.scalar(text(statement)) or 0)


@contextmanager
def with_replica(settings: Settings) -> Iterator[Database]:
    database = Database.from_settings(settings, with_replica=True)
    try:
        yield database
    finally:
        database.close()


def on_standby(database: Database, read: Callable[[Database], object] = lambda _reader: True) -> object:
    """What a read returns there. On a busy machine the standby may be late for one question, and for some."""
    found = until(
        lambda: database.reading(lambda reader: [read(reader)] if reader.is_replica else []), "it is asked"
    )
    return found[0]


def test_what_one_process_has_just_stored_or_deleted_another_shows_or_does_not_show(
    settings: Settings,
    database: Database,
) -> None:
    with served(settings) as writer, served(settings) as reader:
        for number, words in enumerate(WORDS * 3):
            writer.post("/v1/messages", json=body(said(number, f"{words} №{number}"))).raise_for_status()
            assert f"№{number}" in ask(reader)
            writer.delete(f"/v1/messages/{CHAT}/m{number}").raise_for_status()
            assert f"№{number}" not in ask(reader)
        # and some of that the standby showed
        until(lambda: ask(reader) and read_there(database) > 0, "it is asked")


def test_a_standby_that_falls_behind_or_goes_away_costs_no_answer(
    settings: Settings,
    database: Database,
    standby: Standby,
) -> None:
    with served(settings) as client:
        standby.run("SELECT pg_wal_replay_pause()")
        client.post("/v1/messages", json=body(said(1, WORDS[1]))).raise_for_status()
        assert WORDS[1] in ask(client)
        assert read_there(database) == 0
        standby.run("SELECT pg_wal_replay_resume()")
        until(lambda: WORDS[1] in ask(client) and read_there(database) > 0, "the standby is asked again")
        # cleanly: after a kill it would copy databases anew that are copied as files, and have changed
        standby.stop()
        assert WORDS[1] in ask(client)
        before = read_there(database)
        assert client.post("/v1/search", json={"chat_id": CHAT, "query": "паром"}).status_code == 200
        standby.start()
        until(lambda: WORDS[1] in ask(client) and read_there(database) > before, "it is asked again")


def test_what_conflicts_with_what_the_standby_replays_is_asked_of_the_primary(
    settings: Settings,
) -> None:
    tried: list[bool] = []

    def conflicting(reader: Database) -> bool:
        tried.append(reader.is_replica)
        if reader.is_replica:
            raise Retryable("canceling statement due to conflict with recovery")
        return True

    with with_replica(settings) as database:
        database.look_at_replica()
        until(lambda: database.reading(conflicting) and any(tried), "it is asked")
        assert tried[-2:] == [True, False]
        # the next one may be answered there
        assert on_standby(database)


def test_the_standby_keeps_tenants_and_chats_apart(settings: Settings) -> None:
    with served(settings) as client:
        client.post("/v1/messages", json=body(said(1, WORDS[2]))).raise_for_status()
        # a key of other chats is refused as ever
        new = client.post(
            "/v1/keys", json={"label": "a", "scopes": ["context"], "chats": ["test:other"]}
        ).json()
        bearer = {"Authorization": f"Bearer {new['key']}"}
        asked = {"chat_id": CHAT, "query": "渡轮"}
        assert client.post("/v1/context", json=asked, headers=bearer).status_code == 403

    def count(reader: Database, tenant: str) -> object:
        with reader.tenant(tenant) as connection:
            return connection.scalar(text("SELECT count(*) FROM messages"))

    with with_replica(settings) as database:
        database.look_at_replica()
        assert on_standby(database, lambda reader: count(reader, TENANT)) == 1
        assert on_standby(database, lambda reader: count(reader, "another")) == 0
        confined = database.for_chats(["test:other"])
        assert on_standby(confined, lambda reader: reader.only_chats) == '["test:other"]'


@pytest.mark.parametrize("wrong", ["superuser", "database"])
def test_a_url_that_would_mix_tenants_or_databases_is_refused_at_the_start(
    settings: Settings, standby: Standby, database_name: str, wrong: str
) -> None:
    url, says = {
        "superuser": (standby.superuser_dsn(database_name), "logs in as postgres, which row-level security"),
        "database": (standby.dsn("app"), "names another database"),
    }[wrong]
    with with_replica(settings.model_copy(update={"database_read_url": SecretStr(url)})) as database:
        with pytest.raises(SettingsError, match=f"BACKSCROLL_DATABASE_READ_URL {says}"):
            database.look_at_replica()
        assert not database.reading(lambda reader: reader.is_replica)


def test_a_standby_that_was_promoted_is_asked_no_more(
    settings: Settings, postgres: EmbeddedPostgres, memory_folder: Path, database_name: str
) -> None:
    with standby_of(postgres, memory_folder / "promoted") as other:
        url = SecretStr(other.dsn("app", database=database_name))
        with with_replica(settings.model_copy(update={"database_read_url": url})) as database:
            database.look_at_replica()
            assert on_standby(database)
            with psycopg.connect(other.superuser_dsn()) as connection:
                connection.execute("SELECT pg_promote()")
            # even before anybody has looked
            assert not database.reading(lambda reader: reader.is_replica)
