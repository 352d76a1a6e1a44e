"""What a database of each released version holds, as that version stored it.

.venv/bin/python -m tests.store.released      # once, when a version with a new migration is released
"""

import json
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Json
from pydantic_core import to_jsonable_python

from migrations import FIRST, REVISION
from ops.local import migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.ingest import accept
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.memories.statements import remember
from pipeline.operations import transfer
from pipeline.recall import build_context
from pipeline.store.connections.database import Database
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import POLICY, TENANT, message
from tests.harness.pipeline import place, run, summarizer

FOLDER = Path(__file__).parent
VERSIONS = sorted({FIRST, *(path.stem for path in FOLDER.glob("*.json"))})
CHAT = ChatIn(chat_id="test:house", title="The house", time_zone="Europe/Lisbon")
ASKED_AT = datetime(2027, 1, 1, tzinfo=UTC)
"""After all that is recorded. A context tells the minute of its question."""
SAID = (
    (0, "Ann", "the boiler is broken again, it shows E41"),
    (1, "Bob", "I know a plumber from Almada"),
    (2, "Ann", "ok decided: we take the plumber from Almada for 240 euros"),
    (3, "Bob", "great, I call her tomorrow"),
    (1440, "Cy", "who wants to go on a boat trip in May?"),
    (1441, "Ann", "me! the marina has an old wooden boat"),
)


def fill(database: Database) -> None:
    """Store messages, a summary, vectors and memories, and a message that is still to be placed."""
    said = [
        message(minute, content, id=f"h{minute}", sender_name=name, sender_id=f"test:{name}")
        for minute, name, content in SAID
    ]
    accept.accept(database, TENANT, CHAT, said)
    place(database, SessionPolicy.of(Settings(_env_file=None, summarize_debounce_seconds=0)), POLICY)
    run(database, "summarize", summarizer(database), POLICY)
    remember(database, TENANT, MemoryIn(scope="user", user_id="test:Ann", content="Ann is allergic to nuts"))
    remember(database, TENANT, MemoryIn(scope="organization", content="Rubbish goes out on Wednesdays"))
    run(database, "embed", embed.embedder(database, DeterministicEmbedder()), POLICY)
    accept.accept(
        database,
        TENANT,
        CHAT,
        [message(2880, "the plumber comes at nine", sender_name="Ann", sender_id="test:Ann")],
    )


def dump(superuser_url: str) -> dict[str, Any]:
    """Read the rows of each table, and where the sequences are."""
    with psycopg.connect(superuser_url) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' "
            "AND relname <> 'alembic_version' ORDER BY 1"
        ).fetchall()
        rows = {
            str(table): connection.execute(f"SELECT json_agg(t) FROM {table} t").fetchall()[0][0]  # type: ignore[arg-type]
            for (table,) in tables
        }
        sequences = connection.execute(
            "SELECT sequencename::text, last_value FROM pg_sequences WHERE last_value IS NOT NULL ORDER BY 1"
        ).fetchall()
    return {"tables": {table: found for table, found in rows.items() if found}, "sequences": dict(sequences)}


def load(superuser_url: str, version: str) -> None:
    """Store in empty tables of a version what was recorded of it."""
    recorded = json.loads((FOLDER / f"{version}.json").read_text())
    with psycopg.connect(superuser_url) as connection:
        # without triggers and foreign keys
        connection.execute("SET session_replication_role = replica")
        for table, rows in recorded["tables"].items():
            connection.execute(
                f"INSERT INTO {table} OVERRIDING SYSTEM VALUE "
                f"SELECT * FROM json_populate_recordset(CAST(NULL AS {table}), %s)",
                [Json(rows)],
            )
        for sequence, value in recorded["sequences"].items():
            connection.execute("SELECT setval(%s, %s)", [sequence, value])


def known(database: Database) -> list[dict[str, Any]]:
    """Return all that is known of Ann, but what was asked since."""
    records = to_jsonable_python(list(transfer.export_user(database, TENANT, "test:Ann")))
    return [record for record in records if record["record"] != "query"]


def answers(database: Database, settings: Settings) -> list[str]:
    """Return contexts for questions by words, by likeness and about memories."""
    embedder = DeterministicEmbedder()
    asked = (
        "what did we decide about the plumber?",
        "an old boat",
        "Is Ann allergic?",
        "When is rubbish day?",
    )
    return [
        build_context(
            database,
            TENANT,
            ContextQuery(chat_id=CHAT.chat_id, user_id="test:Ann", query=question, as_of=ASKED_AT),
            embedder=embedder,
            settings=settings,
        ).text
        for question in asked
    ]


def record() -> None:
    """Write what this version stores."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder), durable=False) as server:
        migrate.upgrade(server.dsn("owner"), DeterministicEmbedder().space)
        with closing(Database(server.dsn("app"), server.dsn("maintenance"))) as database:
            fill(database)
            stored = dump(server.superuser_dsn("backscroll")) | {"known": known(database)}
    # what is recorded stays
    with (FOLDER / f"{REVISION}.json").open("x", encoding="utf-8") as file:
        file.write(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
