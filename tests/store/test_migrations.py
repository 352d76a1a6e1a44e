"""Migrations apply and revert, on an empty and on a filled database, and give the tables that the program knows."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event, text

from migrations import REVISION
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.ingest import accept, languages
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories.statements import remember
from pipeline.store import keyword_search
from pipeline.store.database import Database
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import CHECKOUT, TENANT, alembic_config, message, next_release
from tests.test_pipeline import place, run, summarizer

# Migrations that write a whole table anew and keep everybody waiting for it, with the reason why they may.
REWRITES: dict[str, str] = {}


def owner_url(settings: Settings) -> str:
    assert settings.owner_database_url is not None
    return settings.owner_database_url.get_secret_value()


def test_the_program_needs_the_newest_migration(settings: Settings) -> None:
    newest = ScriptDirectory.from_config(alembic_config(owner_url(settings))).get_current_head()
    assert newest == REVISION


def columns(settings: Settings) -> list[tuple[str, str, str]]:
    with psycopg.connect(owner_url(settings)) as connection:
        return connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY 1, 2"
        ).fetchall()


def test_every_migration_can_be_reverted_and_applied_again_on_an_empty_database(settings: Settings) -> None:
    config = alembic_config(owner_url(settings))
    before = columns(settings)
    command.downgrade(config, "base")
    assert columns(settings) == [("alembic_version", "version_num", "character varying")]
    command.upgrade(config, "head")
    assert columns(settings) == before


def test_every_migration_can_be_reverted_and_applied_again_on_a_filled_database(
    settings: Settings, database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(n) for n in range(5)])
    place(database, rules, policy)
    run(database, "summarize", summarizer(database), policy)
    config = alembic_config(owner_url(settings))
    revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    for _ in revisions:
        command.downgrade(config, "-1")
    command.upgrade(config, "head")
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0)])
    with database.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT count(*) FROM messages")) == 1


def test_what_was_stored_before_languages_were_detected_stays_found_and_is_indexed_anew(
    settings: Settings, database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    # Given chats of the version before, which cannot tell words of Chinese, and a document
    config = alembic_config(owner_url(settings))
    command.downgrade(config, "0008")

    def store(chat: str, language: str, texts: Sequence[str]) -> None:
        """As that version does: without `tsv`, and without who says the language."""
        given = {"t": TENANT, "c": chat, "l": language, "texts": list(texts)}
        with psycopg.connect(settings.database_url.get_secret_value()) as app:
            for statement in (
                "SELECT set_config('app.tenant_id', %(t)s, true)",
                "INSERT INTO tenants VALUES (%(t)s) ON CONFLICT DO NOTHING",
                "INSERT INTO chats (tenant_id, chat_id, language) VALUES (%(t)s, %(c)s, %(l)s) ON CONFLICT DO NOTHING",
                """
                INSERT INTO messages (tenant_id, chat_id, external_id, sender_id, role, content, token_count, sent_at,
                    language)
                SELECT %(t)s, %(c)s, md5(content), 's', 'user', content, 1, now(), %(l)s
                FROM unnest(%(texts)s::text[]) AS content
                """,
                """
                UPDATE chats SET message_count = count, lexeme_count = lexemes FROM (
                    SELECT count(*), sum(length(tsv)) AS lexemes FROM messages WHERE chat_id = %(c)s) AS m
                WHERE chat_id = %(c)s
                """,
                """
                INSERT INTO memories (tenant_id, id, scope, type, content, content_hash)
                VALUES (%(t)s, gen_random_uuid(), 'organization', 'document', '垃圾每周三收', 'x')
                ON CONFLICT DO NOTHING
                """,
            ):
                app.execute(statement, given)

    def found(chat: str, language: str, asked: str) -> list[str]:
        with database.tenant(TENANT) as connection:
            words = keyword_search.lexemes(connection, language, asked)
            statement = "SELECT content FROM messages WHERE chat_id = :c AND tsv @@ CAST(:any AS tsquery)"
            given = {"c": chat, "any": keyword_search.any_of(words)}
            return list(connection.execute(text(statement), given).scalars())

    def counted() -> list[bool]:
        with database.tenant(TENANT) as connection:
            statement = """SELECT lexeme_count = (SELECT sum(length(tsv)) FROM messages m WHERE m.chat_id = c.chat_id)
                FROM chats c"""
            return list(connection.execute(text(statement)).scalars())

    chinese = ["下午三点在公园门口见面", "我今天买了新的自行车"]
    store("test:1", "english", chinese)
    store("test:2", "german", ["Hat jemand die Rechnungen gesehen?"])
    # When the database is upgraded
    command.upgrade(config, "head")
    # Then what was found is found, and what that version goes on storing is indexed as it is now
    assert found("test:2", "german", "eine Rechnung")
    assert found("test:1", "english", chinese[0]) == []
    store("test:1", "english", ["房东说下个月涨房租五百块"])
    assert found("test:1", "english", "房租涨了多少")
    with database.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT tsv @@ '每周'::tsquery FROM memories"))
        by = {row.chat_id: row.language_by for row in connection.execute(text("SELECT * FROM chats"))}
        assert by == {"test:1": None, "test:2": "declared"}
    # And a job that is there indexes the rest anew
    assert run(database, "language", languages.labeller(database, rules), policy) == 2
    assert found("test:1", "english", "公园在哪里") == chinese[:1]
    assert counted() == [True, True]


def test_what_was_stored_with_its_accents_is_found_without_them_after_an_upgrade(
    settings: Settings, database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    # Given a chat and a memory
    accept.accept(
        database,
        TENANT,
        ChatIn(chat_id="test:1", language="portuguese"),
        [message(0, "a votação é amanhã"), message(1, "até logo")],
    )
    place(database, rules, policy)
    remember(database, TENANT, MemoryIn(scope="organization", content="a reunião"))
    with database.tenant(TENANT) as connection:
        connection.execute(text("UPDATE memories SET language = 'portuguese'"))
        connection.execute(text("UPDATE conversation_sessions SET search_text = 'a votação'"))
    tables = ("messages", "conversation_sessions", "memories")

    def holding(asked: str) -> list[int]:
        """How many rows of each table hold one of these words."""
        with psycopg.connect(settings.database_url.get_secret_value()) as app:
            app.execute("SELECT set_config('app.tenant_id', %s, true)", [TENANT])
            words = app.execute("SELECT tsvector_to_array(words_of('portuguese', %s))", [asked]).fetchone()
            assert words is not None
            counts = (
                app.execute(
                    f"SELECT count(*) FROM {table} WHERE tsv @@ %s::tsquery",
                    [keyword_search.any_of(words[0])],
                ).fetchone()
                for table in tables
            )
            return [count[0] for count in counts if count]

    assert holding("votacao reuniao") == [1, 1, 1]
    # whose words are those of the version before
    config = alembic_config(owner_url(settings))
    command.downgrade(config, "0011")
    with psycopg.connect(settings.database_url.get_secret_value()) as app:
        app.execute("SELECT set_config('app.tenant_id', %s, true)", [TENANT])
        for table in tables:
            app.execute(f"UPDATE {table} SET language = language")
        app.execute("UPDATE chats SET lexeme_count = (SELECT sum(length(tsv)) FROM messages)")
        app.execute("DELETE FROM jobs WHERE kind = 'language'")
    assert holding("votacao reuniao") == [0, 0, 0]
    assert holding("votação reunião") == [1, 1, 1]
    # When the database is upgraded, and the job that is there has run
    command.upgrade(config, "head")
    assert holding("reuniao") == [0, 0, 1]
    assert run(database, "language", languages.labeller(database, rules), policy) == 1
    # Then all are found without their accents
    assert holding("votacao reuniao") == holding("votação reunião") == [1, 1, 1]
    with database.tenant(TENANT) as connection:
        row = connection.execute(
            text("SELECT lexeme_count = (SELECT sum(length(tsv)) FROM messages), words_after FROM chats")
        ).one()
        assert tuple(row) == (True, None)


def test_vectors_are_kept_when_chunks_come_and_go(
    settings: Settings, database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    # Given a message with a vector, and one with several
    accept.accept(database, TENANT, ChatIn(chat_id="test:1"), [message(0), message(1, "word " * 2000)])
    place(database, rules, policy)
    run(database, "embed", embed.embedder(database, DeterministicEmbedder()), policy)
    config = alembic_config(owner_url(settings))
    chunked = ScriptDirectory.from_config(config).get_revision("0003")

    def stored(what: str) -> list[tuple[object, ...]]:
        with database.tenant(TENANT) as connection:
            rows = connection.execute(text(f"SELECT {what} FROM message_vectors ORDER BY 1, 2"))
            return [tuple(row) for row in rows]

    before = stored("message_id, chunk_index, embedding::text")
    assert [row[1] for row in before] == [0, 0, 1, 2]
    # When there are none any more, and then again
    command.downgrade(config, str(chunked.down_revision))
    first = [(row[0], row[2]) for row in before if row[1] == 0]
    assert stored("message_id, embedding::text") == first
    command.upgrade(config, "head")
    # Then the first ones are there, the key is that of chunks, and tenants are apart
    assert stored("message_id, embedding::text, chunk_index") == [(*row, 0) for row in first]
    run(database, "embed", embed.embedder(database, DeterministicEmbedder()), policy)
    with database.tenant("other") as connection:
        assert connection.scalar(text("SELECT count(*) FROM message_vectors")) == 0
    with psycopg.connect(owner_url(settings)) as owner:
        keys = owner.execute(
            "SELECT conname, cardinality(conkey) FROM pg_constraint "
            "WHERE contype = 'p' AND conname LIKE '%\\_vectors\\_pkey' ORDER BY 1"
        ).fetchall()
        assert keys == [(f"{name}_vectors_pkey", 4) for name in ("memory", "message", "session")]
        forced = "SELECT bool_and(relforcerowsecurity) FROM pg_class WHERE relname LIKE '%\\_vectors' AND relkind = 'r'"
        assert owner.execute(forced).fetchone() == (True,)


BUILDS = """
op.execute("ALTER TABLE messages ADD COLUMN IF NOT EXISTS mood text")
with concurrently():
    build("messages_first", "messages (tenant_id, sender_id)")
    build("messages_second", "messages (tenant_id, chat_id, sent_at)")
"""


def versions() -> dict[str, str]:
    """The text of each migration by its number."""
    return {path.name[:4]: path.read_text() for path in (CHECKOUT / "migrations/versions").glob("[0-9]*.py")}


def test_indexes_of_tables_that_may_be_large_are_built_beside_running_work() -> None:
    for revision, source in versions().items():
        made = set(re.findall(r"CREATE TABLE (\w+)", source))
        indexes = re.findall(r"CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)\w+\s+ON (\w+)", source)
        assert set(indexes) <= made, (
            f"{revision}: CREATE INDEX CONCURRENTLY, in op.get_context().autocommit_block()"
        )


def test_no_migration_writes_a_table_anew(settings: Settings) -> None:
    config = alembic_config(owner_url(settings))
    command.downgrade(config, "base")
    command.upgrade(config, "0001")
    with psycopg.connect(owner_url(settings), autocommit=True) as owner:

        def files() -> dict[str, int]:
            rows = owner.execute(
                "SELECT relname, relfilenode FROM pg_class WHERE relkind = 'r' AND relowner > 16383"
            )
            return {str(name): int(file) for name, file in rows}

        for revision in sorted(versions())[1:]:
            before = files()
            command.upgrade(config, revision)
            after = files()
            anew = [table for table in before.keys() & after.keys() if before[table] != after[table]]
            assert not anew or revision in REWRITES, (revision, anew)


def test_what_is_built_beside_running_work_may_take_as_long_as_its_table_is_large(
    settings: Settings, tmp_path: Path
) -> None:
    bounds = set()

    def note(connection: Any, _cursor: Any, statement: str, *_: object) -> None:
        kind = "beside others" if "INDEX CONCURRENTLY" in statement else "in a transaction"
        # beside others since 0009, in a transaction before
        if "VALIDATE CONSTRAINT" not in statement and statement.strip().startswith(
            ("CREATE", "ALTER", "DROP", "GRANT")
        ):
            with connection.connection.cursor() as asking:
                bounds.add((kind, asking.execute("SHOW statement_timeout").fetchone()[0]))

    config = next_release(owner_url(settings), tmp_path / "migrations", BUILDS)
    event.listen(Engine, "before_cursor_execute", note)
    try:
        command.downgrade(config, "base")
        command.upgrade(config, "head")
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert bounds == {("beside others", "0"), ("in a transaction", "10min")}


def test_an_index_that_stands_is_kept_and_one_that_an_interrupted_build_left_is_replaced(
    settings: Settings, postgres: EmbeddedPostgres, database_name: str, tmp_path: Path
) -> None:
    config = next_release(owner_url(settings), tmp_path / "migrations", BUILDS)
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as superuser:

        def indexes() -> dict[str, tuple[int, bool]]:
            rows = superuser.execute(
                "SELECT relname, oid::bigint, indisvalid FROM pg_class JOIN pg_index ON indexrelid = oid "
                "WHERE relname IN ('messages_first', 'messages_second')"
            )
            return {str(name): (oid, valid) for name, oid, valid in rows}

        # Given that building the first was interrupted, the second done
        superuser.execute("SET ROLE backscroll_owner")
        superuser.execute("CREATE INDEX messages_first ON messages (tenant_id)")
        superuser.execute("CREATE INDEX messages_second ON messages (tenant_id, chat_id, sent_at)")
        superuser.execute("RESET ROLE")
        superuser.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'messages_first'::regclass"
        )
        before = indexes()
        command.upgrade(config, "head")
        after = indexes()
    assert after["messages_second"] == before["messages_second"]
    assert after["messages_first"][0] != before["messages_first"][0]
    assert after["messages_first"][1]


def test_no_index_is_kept_that_row_level_security_keeps_everybody_from(
    settings: Settings, postgres: EmbeddedPostgres, database_name: str
) -> None:
    # whoever is bound by row-level security cannot use a GIN index: a function must look past it for them
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as superuser:
        unread = superuser.execute("""
            SELECT i.relname FROM pg_class i JOIN pg_index x ON x.indexrelid = i.oid
            JOIN pg_am am ON am.oid = i.relam JOIN pg_class t ON t.oid = x.indrelid
            WHERE am.amname = 'gin' AND t.relrowsecurity AND NOT EXISTS (
                SELECT 1 FROM pg_proc WHERE prosecdef AND prosrc ~ ('public.' || t.relname || '\\M'))
        """)
        assert unread.fetchall() == []


def test_tables_that_grow_large_are_vacuumed_after_a_fiftieth_of_them_has_changed(
    settings: Settings, postgres: EmbeddedPostgres, database_name: str
) -> None:
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as superuser:
        rows = superuser.execute(
            "SELECT relname, array_to_string(reloptions, ' ') FROM pg_class "
            "WHERE relname IN ('messages', 'message_vectors')"
        )
        for table, options in rows.fetchall():
            for share in ("vacuum_scale", "vacuum_insert_scale", "analyze_scale"):
                assert f"autovacuum_{share}_factor=0.02" in options, table


def test_a_message_is_found_by_its_key_before_its_table_is_first_analyzed(
    postgres: EmbeddedPostgres, database_name: str
) -> None:
    # as the foreign key of an arrival looks for it
    looked_for = "SELECT 1 FROM ONLY messages x WHERE tenant_id = 'one' AND id = 1 FOR KEY SHARE OF x"
    with psycopg.connect(postgres.superuser_dsn(database_name)) as superuser:
        superuser.execute("SET enable_seqscan = off")
        plan = "\n".join(row[0] for row in superuser.execute(f"EXPLAIN {looked_for}").fetchall())
    assert "messages_pkey" in plan
