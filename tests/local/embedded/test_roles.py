"""Stories about the database roles: each can do its work, and nothing that it must not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import text

from ops.local import migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.roles import (
    LOGIN_ROLES,
    ROLE_NAMES,
    LoginRole,
    ProvisioningFailed,
    provision,
    role_name,
)
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.errors import DatabaseUnavailable
from schemas.messages import ChatIn
from tests.conftest import TENANT, message


@contextmanager
def connected(postgres: EmbeddedPostgres, role: LoginRole) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn(role), autocommit=True) as connection:
        yield connection


def assert_no_role_is_more_than_it_must_be(url: str) -> None:
    with psycopg.connect(url) as app:
        rows = app.execute(
            "SELECT rolname, rolcanlogin, rolbypassrls,"
            " rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication"
            " FROM pg_roles WHERE rolname LIKE 'backscroll%' ORDER BY 1"
        ).fetchall()
    assert rows == [
        ("backscroll_app", True, False, False),
        ("backscroll_backup", True, True, False),
        ("backscroll_maintenance", True, False, False),
        ("backscroll_owner", True, False, False),
        ("backscroll_search", False, True, False),
    ]


@pytest.mark.parametrize("role", ["app", "maintenance"])
def test_workers_make_temporary_tables_and_nothing_that_stays(
    postgres: EmbeddedPostgres, role: LoginRole
) -> None:
    with connected(postgres, role) as worker:
        worker.execute("CREATE TEMPORARY TABLE batch (word text)")
        for attempt in (
            "CREATE TABLE public.mine (word text)",
            "DROP EXTENSION vector",
            "CREATE ROLE mine",
            "SELECT rolpassword FROM pg_authid",
            "SELECT pg_read_file('PG_VERSION')",
            "COPY (SELECT 1) TO PROGRAM 'true'",
        ):
            with pytest.raises((InsufficientPrivilege, psycopg.errors.UndefinedFile)):
                worker.execute(attempt)


def test_provisioning_again_changes_passwords_and_corrects_rights(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, durable=False) as own:
        superuser = own.superuser_dsn()
        for password in ("first", "it's \\second"):
            passwords = dict.fromkeys(LOGIN_ROLES, password)
            assert provision(superuser, passwords=passwords, database='other "one"').vector_version
            login = {"dbname": 'other "one"', "user": "backscroll_app", "password": password}
            app_url = psycopg.conninfo.make_conninfo(superuser, **login)
            with psycopg.connect(app_url) as app:
                member = "SELECT pg_has_role(current_user, 'backscroll_search', 'MEMBER')"
                assert app.execute(member).fetchall() == [(False,)]
            assert_no_role_is_more_than_it_must_be(app_url)
            # When somebody gives the app too much
            with psycopg.connect(superuser, autocommit=True) as server:
                server.execute("ALTER ROLE backscroll_app SUPERUSER BYPASSRLS")
                server.execute("GRANT backscroll_search TO backscroll_app")


def test_roles_of_one_database_do_not_get_into_another(postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres.superuser_dsn(), autocommit=True) as server:
        server.execute("CREATE ROLE stranger LOGIN PASSWORD 'known'")
    url = psycopg.conninfo.make_conninfo(postgres.dsn("app"), user="stranger", password="known")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(url)


def test_only_a_superuser_can_provision(postgres: EmbeddedPostgres) -> None:
    passwords = dict.fromkeys(LOGIN_ROLES, "some")
    with pytest.raises(
        ProvisioningFailed, match="backscroll_owner is not a superuser, and has not both CREATEROLE"
    ):
        provision(postgres.dsn("owner"), passwords=passwords)
    with pytest.raises(DatabaseUnavailable, match="cannot be reached"):
        provision("postgresql://postgres@127.0.0.1:1/postgres", passwords=passwords)


def test_an_administrator_who_is_no_superuser_makes_a_database_that_everything_works_on(
    tmp_path: Path,
) -> None:
    # Given a Postgres as managed ones are: none of ours in it, and nobody gets in as its superuser
    passwords: dict[LoginRole, str] = {role: f"{role}-secret" for role in LOGIN_ROLES}
    with EmbeddedPostgres(tmp_path, durable=False) as server:
        with psycopg.connect(server.superuser_dsn(), autocommit=True) as superuser:
            superuser.execute("DROP DATABASE backscroll")
            for name in ROLE_NAMES:
                superuser.execute(f"DROP ROLE {name}")
            superuser.execute(
                "CREATE ROLE manager LOGIN CREATEROLE CREATEDB BYPASSRLS PASSWORD 'manager-secret'"
            )

        def url(user: str, password: str, database: str = "backscroll") -> str:
            parts = urlsplit(server.superuser_dsn())
            return f"postgresql://{user}:{password}@/{database}?{parts.query}"

        administrator = url("manager", "manager-secret", "postgres")
        # who may not make the extension, which this one's provider does
        assert provision(administrator, passwords=passwords).vector_version is None
        with psycopg.connect(server.superuser_dsn("backscroll")) as superuser:
            superuser.execute("CREATE EXTENSION vector")
        assert provision(administrator, passwords=passwords).vector_version is not None
        # When the tables are made and a message is stored, summarized by nobody yet
        urls = {role: url(role_name(role), passwords[role]) for role in LOGIN_ROLES}
        assert migrate.upgrade(urls["owner"], DeterministicEmbedder().space).vector_tables
        database = Database(urls["app"], urls["maintenance"])
        accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0, "the lighthouse")])
        with database.tenant(TENANT) as connection:
            found = connection.execute(
                text("SELECT scores FROM keyword_search('test:1', NULL, '{lighthous}', 1, 1, 9, 9)")
            )
            assert len(found.scalar_one()) == 1
        database.close()
        # Then the backup reads all of it, sequences as well, and nobody has more than it must
        with psycopg.connect(urls["backup"], autocommit=True) as backup:
            names = backup.execute(
                "SELECT quote_ident(relname) FROM pg_class WHERE relkind IN ('r', 'S') "
                "AND relnamespace = 'public'::regnamespace"
            ).fetchall()
            assert len(names) > 20
            for (name,) in names:
                backup.execute(f"SELECT * FROM {name}")
            assert backup.execute("SELECT count(*) FROM messages").fetchall() == [(1,)]
        assert_no_role_is_more_than_it_must_be(urls["app"])
        # and what a superuser gave too much is not passed over
        with psycopg.connect(server.superuser_dsn(), autocommit=True) as superuser:
            superuser.execute("ALTER ROLE backscroll_app SUPERUSER")
            with pytest.raises(ProvisioningFailed, match="backscroll_app has SUPERUSER"):
                provision(administrator, passwords=passwords)
