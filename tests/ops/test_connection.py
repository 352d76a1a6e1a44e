"""Commands find their servers: the settings first, then what runs with the data folder."""

import io
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from ops import connection
from ops.local import stack
from ops.local.embedded.folder import open_lock, take
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.roles import LOGIN_ROLES
from ops.local.stack import Running, RunsAlready
from pipeline.ingest.accept import accept
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from schemas.errors import ApiUnavailable, DatabaseUnavailable, Retryable
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.ops.conftest import Here

RUNNING = Running(
    pid=1,
    api_url="http://127.0.0.1:1",
    api_key="kept",
    database_url="postgresql://app@/running",
    maintenance_database_url="postgresql://maintenance@/running",
    owner_database_url="postgresql://owner@/running",
    redis_url="redis://running",
    tenant="default",
)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("BACKSCROLL_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[None]:
    """What a running `backscroll up` holds."""
    descriptor = open_lock(tmp_path / stack.LOCK)
    assert take(descriptor)
    stack.publish(tmp_path, RUNNING)
    yield
    os.close(descriptor)


def test_what_was_killed_is_not_believed(tmp_path: Path) -> None:
    stack.publish(tmp_path, RUNNING)
    assert stack.running(tmp_path) is None
    with pytest.raises(DatabaseUnavailable, match="backscroll up"):
        connection.open_stack(tmp_path)


def test_a_command_waits_for_one_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with stack.alone(tmp_path, starts=True):
        # Given one that is ready after a moment
        ready = SimpleNamespace(sleep=lambda _: stack.publish(tmp_path, RUNNING))
        monkeypatch.setattr(connection, "time", ready)
        assert connection.require_api(tmp_path, None).api_key == RUNNING.api_key
    told = capsys.readouterr()
    assert (told.out, told.err.count("is starting")) == ("", 1)


TOLD = {
    "starting": "is starting with the data folder .* wait until it is ready",
    "ending": "is stopping, or a restore is working, with the data folder .* wait until it has ended",
    "killed": "was killed or crashed: start it again with `backscroll up`",
    "none": "Nothing runs with the data folder .* start it with `backscroll up`",
}


@pytest.mark.parametrize("phase", TOLD)
def test_what_is_not_there_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    monkeypatch.setattr(connection, "START_SECONDS", 0.0)
    # Given one that starts, stops, was killed or never was
    with ExitStack() as cleanup:
        if phase in ("starting", "ending"):
            cleanup.enter_context(stack.alone(tmp_path, starts=phase == "starting"))
        if phase == "killed":
            stack.publish(tmp_path, RUNNING)
        for find in (connection.open_stack, lambda folder: connection.require_api(folder, None)):
            with pytest.raises(Retryable, match=TOLD[phase]):
                find(tmp_path)
        # and whoever starts a second one hears the same
        if phase in ("starting", "ending"):
            with pytest.raises(RunsAlready, match=f"{TOLD[phase]}.*--data-dir"), stack.alone(tmp_path):
                pass


def test_a_second_one_is_refused_with_where_the_first_one_is(tmp_path: Path, lock: None) -> None:
    with pytest.raises(RunsAlready, match=r"runs already .*process 1, HTTP API http.*--data-dir"):
        stack.require_free(tmp_path)


def test_an_api_that_does_not_answer_is_told_by_what_the_running_up_knows_of_it(
    tmp_path: Path, lock: None
) -> None:
    with pytest.raises(ApiUnavailable, match=r"`backscroll up` \(process 1\) restarts it.*api\.log"):
        connection.require_api(tmp_path, None).get("/v1/chats", ChatIn)
    stack.publish(tmp_path, replace(RUNNING, failing={"api": "api ended with code 1, again and again."}))
    with pytest.raises(ApiUnavailable, match="again and again"):
        connection.require_api(tmp_path, None).get("/v1/chats", ChatIn)


def test_settings_come_before_what_runs(tmp_path: Path, lock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_DATABASE_URL", "postgresql://mine")
    settings = connection.open_stack(tmp_path)
    assert settings.database_url
    assert settings.database_url.get_secret_value() == "postgresql://mine"
    # never one database as one role and another as the other
    assert settings.owner_database_url is None
    assert settings.redis_url
    assert settings.redis_url.get_secret_value() == RUNNING.redis_url


@pytest.fixture
def environment(settings: Settings, tmp_path: Path) -> dict[str, str]:
    """The settings as a user would set them."""
    given = {
        "DATABASE_URL": settings.database_url,
        "MAINTENANCE_DATABASE_URL": settings.maintenance_database_url,
        "OWNER_DATABASE_URL": settings.owner_database_url,
        "REDIS_URL": settings.redis_url,
    }
    told = {f"BACKSCROLL_{name}": url.get_secret_value() for name, url in given.items() if url}
    return told | {"BACKSCROLL_EMBEDDING_PROVIDER": "deterministic", "BACKSCROLL_DATA_DIR": str(tmp_path)}


def test_reset_asks_first(
    here: Here, environment: dict[str, str], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(database, TENANT, ChatIn(chat_id="test:chat"), [message(0)])
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert here("db", "reset", **environment).returncode == 1
    with database.tenant(TENANT) as connection:
        assert chats.get(connection, "test:chat")
    assert here("db", "reset", "--yes", **environment).returncode == 0
    with database.tenant(TENANT) as connection:
        assert chats.get(connection, "test:chat") is None


def test_pgvector_in_another_schema_is_found_by_the_roles(
    here: Here, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    schema = "расширения & mehr"
    passwords = {role: conninfo_to_dict(postgres.dsn(role))["password"] for role in LOGIN_ROLES}
    (tmp_path / "passwords.json").write_text(json.dumps(passwords))
    with psycopg.connect(postgres.superuser_dsn(), autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS hosted WITH (FORCE)")
        server.execute("CREATE DATABASE hosted")
    with psycopg.connect(postgres.superuser_dsn("hosted"), autocommit=True) as server:
        server.execute(f'CREATE SCHEMA "{schema}"; CREATE EXTENSION vector SCHEMA "{schema}"')
    made = here(
        "db", "roles", postgres.superuser_dsn(), "--database", "hosted", "--passwords-file", "passwords.json"
    )
    assert made.returncode == 0, made.stderr
    (tmp_path / ".env").write_text(made.stdout)
    settings = {
        "BACKSCROLL_REDIS_URL": "redis://127.0.0.1:1/0",
        "BACKSCROLL_EMBEDDING_PROVIDER": "deterministic",
    }
    upgraded = here("db", "upgrade", "--json", **settings)
    assert upgraded.returncode == 0, upgraded.stderr
    assert json.loads(upgraded.stdout)["vector_tables"]
    findings = json.loads(here("doctor", "--json", **settings).stdout)["findings"]
    assert [each["check"] for each in findings] == ["redis"]


def test_pgvector_in_a_schema_that_no_role_searches_is_said_with_what_to_run(
    here: Here, environment: dict[str, str], postgres: EmbeddedPostgres, database_name: str
) -> None:
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as server:
        server.execute("CREATE SCHEMA elsewhere; ALTER EXTENSION vector SET SCHEMA elsewhere")
    told = here("db", "upgrade", **environment)
    assert (told.returncode, "Traceback" in told.stderr) == (4, False)
    assert "pgvector is in the schema elsewhere" in told.stderr
    assert "ALTER EXTENSION vector SET SCHEMA public" in told.stderr
    told = here("doctor", **environment)
    assert (told.returncode, "pgvector is in the schema elsewhere" in told.stdout) == (6, True)
