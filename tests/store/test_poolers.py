"""Behind a pooler whose next transaction is another server process's, everything works and nothing is left there."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr
from sqlalchemy import text

from ops.local import backup, migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.roles import LOGIN_ROLES, LoginRole, provision
from ops.local.embedded.server import free_port
from pipeline.ingest.accept import accept
from pipeline.store.connections import trips
from pipeline.store.connections.database import Database
from schemas.errors import SettingsError
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.api.conftest import body, said, served
from tests.commands.conftest import Run, run  # noqa: F401 - a fixture
from tests.conftest import TENANT, message
from tests.harness.doctor import found
from tests.harness.pipeline import rows
from tests.waiting import until

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
TEXTS = ("Кто чинит котёл?", "暖气坏了 🔧", "المدفأة معطلة", "who fixes the boiler")
CONFIG = """\
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
"""


@pytest.fixture(scope="module")
def pooler(postgres: EmbeddedPostgres) -> Iterator[int]:
    """The port of a PgBouncer in transaction mode, each role with two server processes for everybody."""
    if PGBOUNCER is None:
        pytest.skip("there is no pgbouncer")
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        server = conninfo_to_dict(postgres.dsn("app", tcp=True))
        (folder / "pgbouncer.ini").write_text(
            CONFIG.format(host=server["host"], port=server["port"], listen=port, folder=folder)
        )
        logins = [conninfo_to_dict(postgres.dsn(role)) for role in LOGIN_ROLES]
        (folder / "users.txt").write_text("".join(f'"{of["user"]}" "{of["password"]}"\n' for of in logins))
        folder.chmod(0o755)
        # it refuses to run as root
        account = {"user": "nobody"} if os.geteuid() == 0 else {}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [PGBOUNCER, folder / "pgbouncer.ini"], stdout=log, stderr=log, **account
            )
        try:
            until(lambda: b"process up" in (folder / "log").read_bytes(), "PgBouncer runs", 30)
            yield port
        finally:
            process.kill()
            process.wait(60)


def through(postgres: EmbeddedPostgres, port: int, name: str, role: LoginRole) -> SecretStr:
    login = conninfo_to_dict(postgres.dsn(role))
    return SecretStr(f"postgresql://{login['user']}:{login['password']}@127.0.0.1:{port}/{name}")


@pytest.fixture
def behind(settings: Settings, postgres: EmbeddedPostgres, pooler: int, database_name: str) -> Settings:
    """The settings of somebody whose every URL names the pooler."""
    urls = {f"{role}_database_url": through(postgres, pooler, database_name, role) for role in LOGIN_ROLES}
    return settings.model_copy(update=urls | {"database_url": urls.pop("app_database_url")})


def talk(client: httpx.Client, number: int) -> tuple[int, int]:
    """Send a message and ask; the two statuses."""
    chat, said_there = f"test:дом{number % 3}", TEXTS[number % 4]
    sent = client.post("/v1/messages", json=body(said(number, said_there), chat=chat))
    asked = client.post("/v1/context", json={"chat_id": chat, "query": said_there})
    return sent.status_code, asked.status_code


def test_messages_and_questions_go_through_a_pooler(behind: Settings, database: Database) -> None:
    with served(behind) as client, ThreadPoolExecutor(8) as senders:
        assert set(senders.map(partial(talk, client), range(24))) == {(202, 200)}
        assert client.get("/readyz").json()["status"] == "ready"
    assert rows(database, "SELECT count(*) FROM messages") == [(24,)]


def test_what_belongs_to_a_session_is_refused_through_a_pooler(behind: Settings, tmp_path: Path) -> None:
    assert behind.owner_database_url
    with pytest.raises(SettingsError, match="BACKSCROLL_OWNER_DATABASE_URL goes through a connection pooler"):
        migrate.upgrade(behind.owner_database_url.get_secret_value())
    with pytest.raises(SettingsError, match="BACKSCROLL_BACKUP_DATABASE_URL goes through"):
        backup.back_up(behind, tmp_path / "x.dump", lambda _: None)
    with pytest.raises(SettingsError, match="SUPERUSER_URL goes through"):
        provision(behind.owner_database_url.get_secret_value(), passwords=dict.fromkeys(LOGIN_ROLES, "x"))


def test_the_doctor_says_which_url_may_not_name_a_pooler(
    run: Run,  # noqa: F811
    behind: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("", "MAINTENANCE_", "OWNER_"):
        url = getattr(behind, f"{name.lower()}database_url")
        monkeypatch.setenv(f"BACKSCROLL_{name}DATABASE_URL", url.get_secret_value())
    assert found(run) == {"pooler": "warning"}


def test_nothing_is_left_in_a_session_that_a_pooler_would_give_to_somebody_else(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, postgres: EmbeddedPostgres, database_name: str
) -> None:
    # Given a server that seems to be behind a pooler, so that it can be seen where there is none
    monkeypatch.setattr(trips, "is_pooled", lambda _: True)
    kept = "SELECT (SELECT count(*) FROM pg_prepared_statements), current_setting('lock_timeout'), {}"
    with served(settings) as client:
        assert {talk(client, number) for number in range(8)} == {(202, 200)}
    with closing(Database.from_settings(settings, pool_size=1)) as database:
        for number in range(3):
            accept(database, TENANT, ChatIn(chat_id="test:house"), [message(number, TEXTS[number])])
        # Then a transaction has what every one relies on
        with database.tenant(TENANT) as connection:
            within = connection.execute(text(kept.format("current_setting('hnsw.iterative_scan')"))).one()
            driver = connection.connection.driver_connection
        assert tuple(within) == (0, "15s", "relaxed_order")
        # and the session has nothing of it
        assert isinstance(driver, psycopg.Connection)
        assert driver.execute(kept.format("current_setting('app.tenant_id', true)")).fetchone() == (
            0,
            "0",
            "",
        )
        driver.rollback()
