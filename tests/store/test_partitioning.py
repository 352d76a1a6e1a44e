"""Partitioning keeps what is there, behind the same walls, and what names a chat reads its partition alone."""

import re
import subprocess
import sys
from contextlib import closing

import psycopg
import pytest
from alembic import command
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from psycopg.errors import InsufficientPrivilege
from pydantic import SecretStr
from sqlalchemy import Connection, create_engine, text

from migrations import REVISION, partitioning
from migrations.concurrently import build, concurrently, drop
from migrations.partitioning import CannotPartition
from ops.local import migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.store import vector_spaces, vectors
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.api.conftest import served
from tests.conftest import CHECKOUT, PARTITIONS, TENANT, Templates, alembic_config, copied, message, partition
from tests.harness.owner import owner_of
from tests.harness.pipeline import embed_all, place

FIRST = "'test:0'"
TABLES = ("messages", "message_vectors")
CHATS = [f"test:{number}" for number in range(12)]
SECURITY = """
    SELECT (SELECT json_agg(p ORDER BY policyname) FROM (SELECT policyname, permissive, roles, cmd, qual, with_check
            FROM pg_policies WHERE tablename = '{0}') p),
        (SELECT json_agg(g::text ORDER BY g::text) FROM pg_class, aclexplode(relacl) g
            WHERE oid = '{0}'::regclass),
        (SELECT json_agg(attname || g::text ORDER BY attname || g::text) FROM pg_attribute, aclexplode(attacl) g
            WHERE attrelid = '{0}'::regclass),
        (SELECT json_agg(pg_get_triggerdef(oid) ORDER BY tgname) FROM pg_trigger
            WHERE tgrelid = '{0}'::regclass AND NOT tgisinternal),
        (SELECT json_agg(replace(indexdef, ' ONLY ', ' ') ORDER BY indexname) FROM pg_indexes
            WHERE tablename = '{0}' AND indexname <> '{0}_pkey'),
        (SELECT json_agg(a ORDER BY attnum) FROM (SELECT attnum, attname, atttypid, attnotnull, attidentity,
            attgenerated, attcollation, attstorage, pg_get_expr(adbin, adrelid) FROM pg_attribute
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
            WHERE attrelid = '{0}'::regclass AND attnum > 0) a),
        (SELECT json_agg(d ORDER BY d) FROM (SELECT pg_get_constraintdef(oid) AS d FROM pg_constraint
            WHERE conrelid = '{0}'::regclass AND contype IN ('c', 'f', 'u') AND conparentid = 0
                AND confrelid <> 'messages'::regclass) c),
        (SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = '{0}'::regclass)
"""


def fill(database: Database) -> None:
    for tenant in (TENANT, "other"):
        for chat in CHATS:
            said = [message(n, f"the boiler of {tenant} in {chat} number {n}") for n in range(10)]
            accept.accept(database, tenant, ChatIn(chat_id=chat), said)
    place(database)
    embed_all(database)


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("spoken", fill)


def test_what_is_there_stays_with_all_that_guards_and_finds_it(
    postgres: EmbeddedPostgres, template: str
) -> None:
    with copied(postgres, "partitioned_here", template) as name:
        url = postgres.superuser_dsn(name)
        with psycopg.connect(url, autocommit=True) as superuser:

            def state(table: str) -> tuple[object, object]:
                rows = superuser.execute(f"SELECT {table}::text FROM {table} ORDER BY 1".encode()).fetchall()
                return rows, superuser.execute(SECURITY.format(table).encode()).fetchone()

            before = {table: state(table) for table in TABLES}
            assert partition(postgres.dsn("owner", database=name)) == 2 * 2 * 10 * len(CHATS)
            assert {table: state(table) for table in TABLES} == before
            held = superuser.execute(
                "SELECT count(*) FROM pg_class WHERE relispartition AND relkind = 'r' AND relrowsecurity "
                "AND relforcerowsecurity AND array_to_string(reloptions, ' ') ~ 'autovacuum_vacuum_scale_factor=0.02'"
            )
            assert held.fetchone() == (len(TABLES) * PARTITIONS,)
            # what a chat has is in partitions of the same number
            used = superuser.execute(
                "SELECT DISTINCT m.tableoid::regclass::text, v.tableoid::regclass::text "
                "FROM messages m JOIN message_vectors v ON message_id = id"
            ).fetchall()
            assert len(used) > 1
            assert all(vectors == f"message_vectors{messages[-4:]}" for messages, vectors in used)
        # and it is not done twice
        with pytest.raises(CannotPartition, match="already"):
            partition(postgres.dsn("owner", database=name))


def test_partitions_are_made_before_there_are_messages_and_not_when_there_are(
    postgres: EmbeddedPostgres, template: str
) -> None:
    parts = text("SELECT count(*) FROM pg_inherits WHERE inhparent = 'messages'::regclass")
    with copied(postgres, "partitioned_first") as name:
        url = postgres.dsn("owner", database=name)
        # a second time, as at each start of a container, changes nothing
        for _ in range(2):
            assert migrate.upgrade(url, partitions=5).found == REVISION
        with closing(Database(postgres.dsn("app", database=name))) as database:
            with database.tenant(TENANT) as connection:
                assert connection.scalar(parts) == 5
            assert accept.accept(database, TENANT, ChatIn(chat_id="चैट"), [message(0, "नमस्ते")]).new == 1
        with pytest.raises(CannotPartition, match="into 5: that is not changed"):
            migrate.upgrade(url, partitions=6)
    with copied(postgres, "partitioned_late", template) as name:
        with pytest.raises(
            CannotPartition, match=r"there are messages already.* migrations\.partitioning 5`"
        ):
            migrate.upgrade(postgres.dsn("owner", database=name), partitions=5)
        with (
            closing(Database(postgres.dsn("app", database=name))) as database,
            database.tenant(TENANT) as connection,
        ):
            assert connection.scalar(parts) == 0
            assert connection.scalar(text("SELECT count(*) FROM messages")) == 10 * len(CHATS)


def test_pgvector_may_come_later_and_vectors_are_partitioned_as_the_messages_are(
    postgres: EmbeddedPostgres,
) -> None:
    with copied(postgres, "partitioned_early") as name:
        url = postgres.dsn("owner", database=name)
        with psycopg.connect(postgres.superuser_dsn(name), autocommit=True) as superuser:
            superuser.execute("DROP TABLE message_vectors, session_vectors, memory_vectors")
            superuser.execute("DROP EXTENSION vector")
            assert not migrate.upgrade(url, partitions=3).vector_tables
            superuser.execute("CREATE EXTENSION vector")
            # with all that guards them, or it would be refused
            assert migrate.upgrade(url, DeterministicEmbedder().space).vector_tables
        with closing(
            Database(postgres.dsn("app", database=name), postgres.dsn("maintenance", database=name))
        ) as database:
            fill(database)
            with database.tenant(TENANT) as connection:
                embedded = text("SELECT count(*), count(DISTINCT tableoid) FROM message_vectors")
                assert connection.execute(embedded).one() == (10 * len(CHATS), 3)


def test_vectors_that_stayed_one_table_are_partitioned_later(
    postgres: EmbeddedPostgres, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with copied(postgres, "partitioned_messages", template) as name:
        url = postgres.dsn("owner", database=name)
        # Given messages that an earlier version has partitioned, alone
        with monkeypatch.context() as earlier:
            earlier.setattr(partitioning, "_VECTORS", "nothing")
            assert partition(url) == 2 * 10 * len(CHATS)
        with closing(Database(postgres.dsn("app", database=name))) as database:

            def tables(connection: Connection) -> list[str]:
                return list(connection.scalars(text(f"SELECT {vectors.table_of(FIRST)}::text")))

            with database.tenant(TENANT) as connection:
                assert tables(connection) == ["message_vectors"]
            # Then an upgrade leaves them, and whoever asks for it gets the rest
            assert migrate.upgrade(url, partitions=PARTITIONS).vector_tables
            with pytest.raises(CannotPartition, match="already"):
                partition(url, PARTITIONS + 1)
            assert partition(url) == 2 * 10 * len(CHATS)
            with database.tenant(TENANT) as connection:
                assert tables(connection)[0].startswith("message_vectors_0")


def test_a_partition_shows_nobody_anything(database: Database) -> None:
    with database.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT count(DISTINCT tenant_id) FROM messages")) == 1
        assert connection.scalar(text("SELECT count(DISTINCT tenant_id) FROM message_vectors")) == 1
        for table in TABLES:
            savepoint = connection.begin_nested()
            with pytest.raises(Exception, match="permission denied") as denied:
                connection.execute(text(f"SELECT 1 FROM {table}_000"))
            assert isinstance(denied.value.__cause__, InsufficientPrivilege)
            savepoint.rollback()


def test_what_names_a_chat_reads_one_partition_and_numbers_go_on(database: Database) -> None:
    with database.tenant(TENANT) as connection:
        newest = connection.scalar(text("SELECT max(id) FROM messages")) or 0
    assert (
        accept.accept(database, TENANT, ChatIn(chat_id=CHATS[0]), [message(0), message(99, id="new")]).new
        == 1
    )
    with database.tenant(TENANT) as connection:
        found = connection.execute(
            text("SELECT id, tableoid::regclass::text FROM messages WHERE external_id = 'new'")
        )
        number, where = found.one()
        assert number > newest - 100
        # the tenant is the wall's to say
        read = (
            "EXPLAIN SELECT FROM messages m JOIN message_vectors v USING (chat_id) WHERE chat_id = 'test:0'"
        )
        plan = connection.scalars(text(read)).all()
    assert set(re.findall(r"on (messages_\d+)", "\n".join(plan))) == {where}
    assert set(re.findall(r"on (message_vectors_\d+)", "\n".join(plan))) == {f"message_vectors{where[-4:]}"}


def test_vectors_of_one_space_are_deleted_in_whatever_partition_they_are(
    database: Database, settings: Settings
) -> None:
    with owner_of(settings) as owner, owner.begin() as connection:
        other = vector_spaces.register(connection, DeterministicEmbedder(dimensions=384).space).space
    with database.tenant(TENANT) as connection:
        active = vectors.active_space(connection)
        assert active is not None
        ids = connection.scalars(text("SELECT id FROM messages")).all()
        vectors.put(connection, TENANT, "message", other.id or 0, [(str(n), b"", [[0.1] * 384]) for n in ids])
        assert vector_spaces.delete_vectors(connection, "message", active, 50) == 50
        left = connection.execute(text("SELECT space_id, count(*) FROM message_vectors GROUP BY 1")).all()
    assert dict(left) == {active.id: len(ids) - 50, other.id: len(ids)}


def test_later_migrations_build_and_drop_indexes_beside_running_work_all_the_same(
    postgres: EmbeddedPostgres, database_name: str
) -> None:
    engine = create_engine(postgres.dsn("owner", database=database_name).replace("://", "+psycopg://"))
    valid = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('messages_later')")
    parts = text("SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'messages\\_0%\\_messages\\_later'")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        with Operations.context(context), context.begin_transaction(), concurrently():
            # a second time changes nothing
            for _ in range(2):
                build("messages_later", "messages (tenant_id, agent_id)")
                assert connection.scalar(valid)
                assert connection.scalar(parts) == PARTITIONS
            drop("messages_later")
            assert connection.scalar(valid) is None
    engine.dispose()


def test_the_command_partitions_and_the_api_goes_on(
    postgres: EmbeddedPostgres, template: str, settings: Settings
) -> None:
    with copied(postgres, "partitioned_by_command", template) as name:
        urls = {
            f"BACKSCROLL_{setting}DATABASE_URL": postgres.dsn(role, database=name)
            for setting, role in {"": "app", "MAINTENANCE_": "maintenance", "OWNER_": "owner"}.items()
        }
        done = subprocess.run(
            [sys.executable, "-P", "-m", "migrations.partitioning", "3"],
            env=urls | {"PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        assert "480 messages and vectors in 3 partitions" in done.stdout
        # the tables are brought up to date as before
        command.upgrade(alembic_config(urls["BACKSCROLL_OWNER_DATABASE_URL"]), "head")
        url = SecretStr(urls["BACKSCROLL_DATABASE_URL"])
        with served(settings.model_copy(update={"database_url": url, "tenant": TENANT})) as api:
            found = api.post("/v1/search", json={"chat_id": "test:3", "query": "boiler"})
        assert len(found.json()["hits"]) > 0
