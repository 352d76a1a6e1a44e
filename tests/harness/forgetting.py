"""A person in many sessions, and all that was made of what they said."""

from sqlalchemy import text

from pipeline.enrich.summaries import rollups, summarize
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.erasure import edits, forget
from pipeline.ingest import accept
from pipeline.memories.statements import remember
from pipeline.store.connections.database import Database
from schemas.memories import MemoryIn
from schemas.messages import ChatIn, MessageIn
from schemas.people import Receipt, Subject
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.pipeline import embed_all, forget_all, learns, place, rows, run
from tests.llm.chat_models import ScriptedModel, retold, summarizing
from tests.tables import TABLES

GROUP = ChatIn(chat_id="test:group", title="Group")
DIRECT = ChatIn(chat_id="test:direct", kind="direct", title="Zora")
ZORA = Subject(kind="user", sender_id="test:zora")


def conversation(hour: int) -> list[MessageIn]:
    """Zora tells secrets among others, in a group."""
    said = [
        message(hour * 60 + n, f"the boiler shows error E{40 + n} again", id=f"g{hour}-{n}") for n in range(8)
    ]
    for n in (2, 5):
        said[n] = message(
            hour * 60 + n,
            f"my zebrafish number {hour}{n} lives at Rua Augusta {hour}. {NAMES.get((hour, n), '')}",
            id=f"g{hour}-{n}",
            sender_id="test:zora",
            sender_name="Zora",
        )
    return said


# What Zora wants to be called, by hour and number: the later supersedes the earlier.
NAMES = {(0, 5): "Bot, call me Zebrafish Bay.", (2, 5): "Bot, call me Zebrafish Hill."}


def work(database: Database) -> None:
    """Let workers do everything that is owed, forgetting aside."""
    place(database)
    rolling = summarize.summarizer(
        database, ExtractiveSummarizer(), SummaryPolicy(min_messages=4, version=1, rollup_after_seconds=0.0)
    )
    run(database, "summarize", rolling)
    rolling_up = rollups.roller(database, summarizing(database, ScriptedModel(retold)), version=1)
    run(database, "rollup", rolling_up)
    # what is learned is embedded, and then compared with what is known
    for _ in range(2):
        run(database, "extract", learns(database))
        embed_all(database)


def fill(database: Database) -> None:
    """Ten sessions of a group with Zora in all of them, a chat of hers alone, and memories of her."""
    accept.accept(database, TENANT, GROUP, [m for hour in range(10) for m in conversation(2 * hour)])
    zora = [
        message(n, f"zebrafish diary, page {n}", id=f"d{n}", sender_id="test:zora", sender_name="Zora")
        for n in range(5)
    ]
    accept.accept(database, TENANT, DIRECT, zora)
    remember(database, TENANT, MemoryIn(scope="user", user_id="test:zora", content="keeps zebrafish"))
    remember(database, TENANT, MemoryIn(scope="organization", content="The boiler is old."))
    work(database)
    with database.tenant(TENANT) as connection:
        # derived from what Zora said
        connection.execute(
            text("""
                INSERT INTO memories (tenant_id, id, scope, type, content, content_hash, source_session_id)
                SELECT 'default', gen_random_uuid(), 'organization', 'fact', 'a zebrafish lives here', '', min(id)
                FROM conversation_sessions
            """)
        )
    work(database)
    edits.edit(
        database, TENANT, edits.NewText(GROUP.chat_id, "g0-2", "my zebrafish moved", None), SESSION_POLICY
    )
    assert everywhere(database, "zebrafish")
    assert {"memories.content", "memory_evidence.content"} <= set(everywhere(database, "Zebrafish Bay"))
    assert rows(database, "SELECT count(*) FROM memory_supersessions") == [(1,)]


def everywhere(database: Database, words: str) -> list[str]:
    """The columns, of all tables that Postgres knows of, in which a text stands."""
    with database.tenant(TENANT) as connection:
        columns = connection.execute(
            text("""
                SELECT table_name, column_name, data_type FROM information_schema.columns
                WHERE table_schema = 'public' AND udt_name <> 'halfvec' ORDER BY 1, 2
            """)
        ).all()
        assert {table for table, _, _ in columns} >= set(TABLES)
        found = []
        for table, column, kind in columns:
            shown = f"encode({column}, 'escape')" if kind == "bytea" else f"CAST({column} AS text)"
            count = connection.scalar(
                text(f"SELECT count(*) FROM {table} WHERE {shown} ILIKE :words"), {"words": f"%{words}%"}
            )
            if count:
                found.append(f"{table}.{column}")
    return found


def forgotten(database: Database, subject: Subject) -> Receipt:
    receipt = forget.start(database, TENANT, subject)
    forget_all(database)
    return forget.get(database, TENANT, receipt.id)
