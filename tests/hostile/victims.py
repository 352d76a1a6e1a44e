"""Tenants with something in every table, and a word in every text of theirs that nobody else may ever see."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.protocols import Completion
from pipeline.enrich import embed
from pipeline.enrich.summaries import rollups, summarize
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.erasure import edits, forget
from pipeline.ingest import accept, numbers
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.llm.gateway import Gateway, ModelCall
from pipeline.memories import statements
from pipeline.memories.statements import remember
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.people import api_keys, identities, suppression
from pipeline.recall import build_context
from pipeline.store import daily_digests
from pipeline.store.api_keys import add_source
from pipeline.store.chats import membership
from pipeline.store.connections.database import Database
from pipeline.store.erasure import retention
from pipeline.store.jobs import claims, job_admin, jobs
from pipeline.store.memories import entity_graph
from pipeline.store.memories.entity_graph import EntityRow
from pipeline.store.sessions import session_rows
from schemas.backfills import BackfillRequest
from schemas.bots import KeyIn, SourceIn
from schemas.digests import DailyDigestIn
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import EPOCH, message
from tests.harness.pipeline import learns, place, run
from tests.llm.chat_models import ScriptedModel, asking, retold, summarizing
from tests.tables import OF_TENANTS, TABLES

VICTIM, MALLORY = "victim", "mallory"
# Stands in every text of the victim's; ids do not hold it: who attacks knows them.
SECRET = "xyzzy"
SHARED_CHAT = "test:same"
YEAR = 365 * 24 * 60
# Said in two sessions of a chat, by the numbers of the messages: the later one supersedes the earlier.
NAMED = {4: " Bot, call me Lisbon.", 7: " Bot, call me Porto."}

# What names a thing, or is one of a few words: not for hiding anything.
NAMES = set(
    """tenant_id chat_id external_id session_key sender_id user_id agent_id key kind name role status state scope
    type language time_zone platform document_id learned_in summary_model trace_id source profile context_id
    moved_to model purpose provider outcome also_in learned_by facts_model language_by words_after
    promoted_from scopes source_id id new_id""".split()
)


def fill(database: Database, words: Mapping[str, str], rules: SessionPolicy, policy: Policy) -> None:
    """Something of each tenant in every table, by the shipped ways, with its word in its texts."""
    for tenant, word in words.items():
        _tell(database, tenant, word)
    place(database, rules, policy)
    for tenant, word in words.items():
        _note(database, tenant, word)
        _ask_a_model(database, tenant, word)
    rolling = summarize.summarizer(
        database, ExtractiveSummarizer(), SummaryPolicy(min_messages=4, version=1, rollup_after_seconds=0.0)
    )
    run(database, "summarize", rolling, policy)
    rolling_up = rollups.roller(database, summarizing(database, ScriptedModel(retold)), version=1)
    run(database, "rollup", rolling_up, policy)
    for _ in range(2):
        run(database, "extract", learns(database), policy)
        run(database, "embed", embed.embedder(database, DeterministicEmbedder()), policy)
    for tenant, word in words.items():
        _name(database, tenant, word)
        _leave_owed(database, tenant, word, rules)


def _tell(database: Database, tenant: str, word: str) -> None:
    sender, alone = f"{tenant}:ann", f"{tenant}:alone"
    for chat in (SHARED_CHAT, alone):
        told = [
            message(
                n,
                f"the {word} of the lighthouse, number {n}.{NAMED.get(n, '')}",
                id=f"{tenant}-{n}",
                sender_id=sender,
                sender_name=f"Ann {word}",
                session_key=f"{tenant}-thread" * (n % 2),
                metadata={"note": word},
                closes_session=n == 19,
            )
            for n in range(20)
        ]
        accept.accept(database, tenant, ChatIn(chat_id=chat, title=f"{word} house", platform="test"), told)
    past = [message(n - YEAR, f"the {word} of long ago", id=f"{n}", sender_id=sender) for n in range(4)]
    accept.accept(database, tenant, ChatIn(chat_id=f"{tenant}:past"), past)
    for given in (
        {"scope": "organization", "type": "document", "document_id": f"{tenant}-doc", "chunk_index": 0},
        {"scope": "user", "user_id": sender, "learned_in": alone},
        {"scope": "agent", "agent_id": f"{tenant}-bot"},
    ):
        memory = MemoryIn.model_validate(
            {"content": f"the {word} of {given['scope']}", "metadata": {"note": word}, "source": "chat"}
            | given
        )
        remember(database, tenant, memory)


def _note(database: Database, tenant: str, word: str) -> None:
    with database.tenant(tenant) as connection:
        for row in session_rows.listing(connection, SHARED_CHAT, limit=10):
            content = f"the {word} of session {row.id}"
            note = MemoryIn(scope="session", session_id=row.id, type="scratchpad", content=content)
            statements.write(connection, tenant, note)


def _ask_a_model(database: Database, tenant: str, word: str) -> None:
    """A summary that its worker did not live to save."""
    with database.maintenance() as connection:
        claimed = claims.claim(connection, "summarize", batch=100, lease_seconds=60, max_attempts=3)
    held = [*claimed.rows]
    mine = next(claim for claim in held if claim.tenant_id == tenant)
    call = ModelCall(tenant_id=tenant, chat_id=SHARED_CHAT, purpose="summary", claim=mine)
    model = ScriptedModel(Completion(text=f"The {word} of the lighthouse."))
    Gateway(database, model).complete(call, asking(word), timeout_seconds=5)
    runner.release_untried(database, held)


def _name(database: Database, tenant: str, word: str) -> None:
    """What a language model's facts would name."""
    named = [
        EntityRow(f"{tenant}:ann", "", f"Ann {word}", f"ann {word}", "ann", "person", ""),
        EntityRow("", f"the {word}", f"The {word}", f"the {word}", "", "place", "home"),
    ]
    with database.tenant(tenant) as connection:
        for memory in (
            connection.execute(text("SELECT id FROM memories WHERE learned_by <> ''")).scalars().all()
        ):
            entity_graph.note(connection, tenant, memory, named)
        source = SourceIn(platform="telegram", label=word, chats=[f"{tenant}:{word}"])
        daily = DailyDigestIn(chat_id=f"{tenant}:alone", daily="08:00", url=f"https://example.org/{word}")
        at = EPOCH + timedelta(days=100_000)
        daily_digests.add(connection, tenant, daily, secret=word, made_by=None, next_at=at, sent_until=at)
        membership.note_changes(
            connection, tenant, SHARED_CHAT, [f"{tenant}:newcomer"], datetime.now(UTC), joined=True
        )
        add_source(connection, tenant, f"{tenant}-source", source, f"{word}-secret-of-a-source", None)


def _leave_owed(database: Database, tenant: str, word: str, rules: SessionPolicy) -> None:
    sender, alone = f"{tenant}:ann", f"{tenant}:alone"
    accept.accept(
        database, tenant, ChatIn(chat_id=alone), [message(60, f"{word} not placed yet", sender_id=sender)]
    )
    current = Current(rules=rules, summary_version=1, min_messages=4)
    backfill.start(database, tenant, BackfillRequest(kind="embed", chat_id=alone), current)
    edits.edit(database, tenant, edits.NewText(alone, "not yet come", f"{word} early", None), rules)
    edits.delete(database, tenant, alone, "never comes", rules)
    asked = ContextQuery(chat_id=SHARED_CHAT, query=f"the {word} of the lighthouse?", user_id=sender)
    build_context(database, tenant, asked, embedder=None, settings=Settings(_env_file=None))
    identities.link(database, tenant, sender, f"{tenant}-person")
    api_keys.create(database, tenant, KeyIn(label=f"the bot of the {word}", scopes=["ingest"], chats=[alone]))
    suppression.remember_user(database, tenant, f"{tenant}:shy", remembered=False)
    numbers.change(database, tenant, f"{tenant}:formerly", f"{tenant}:shy", EPOCH)
    # begun, and not yet done: the receipt still says whom it is about
    forget.start(database, tenant, Subject(kind="message", chat_id=alone, external_id=f"{tenant}-19"))
    with database.tenant(tenant) as connection:
        # what was said a year before is pruned
        retention.delete_messages(
            connection, retention.MESSAGES_BY_AGE, before=EPOCH - timedelta(days=1), batch=10
        )
        jobs.enqueue(connection, tenant, "summarize", ["session:0"], trace_id=f"{tenant}-request")
        superseded = connection.execute(text("SELECT memory_id FROM memory_supersessions")).scalars()
        learned_from = connection.execute(text("SELECT DISTINCT session_id FROM memory_evidence")).scalars()
        keys = [*(f"memory:{each}" for each in superseded), *(f"session:{each}" for each in learned_from)]
        jobs.enqueue(connection, tenant, "extract", keys)
        job_admin.keep_payload(
            connection, tenant, f"{tenant}-payload", json.dumps({"text": word}), "odd", None
        )


def plant(superuser_url: str) -> None:
    """Put the secret into every text of the victim's in every table, whoever wrote it."""
    with psycopg.connect(superuser_url) as connection:
        cues = connection.execute(
            "SELECT tenant_id, message_id, chat_id, asks, flags FROM message_cues WHERE tenant_id = %s",
            [VICTIM],
        ).fetchall()
        for table, column, kind in texts(connection):
            more = {
                "text": f"coalesce({column}, '') || ' {SECRET}'",
                "ARRAY": f"array_append({column}, '{SECRET}')",
                "jsonb": f"CASE jsonb_typeof({column}) WHEN 'array' THEN {column} || '[\"{SECRET}\"]' "
                f"ELSE coalesce({column}, '{{}}') || '{{\"note\": \"{SECRET}\"}}' END",
            }[kind]
            only = " AND finished_at IS NULL" if (table, column) == ("forget_receipts", "subject") else ""
            connection.execute(f"UPDATE {table} SET {column} = {more} WHERE tenant_id = %s{only}", [VICTIM])  # type: ignore[arg-type]
        # they go with a change of the text
        connection.cursor().executemany(
            "INSERT INTO message_cues (tenant_id, message_id, chat_id, asks, flags) VALUES (%s, %s, %s, %s, %s) "
            "ON CONFLICT DO NOTHING",
            cues,
        )


def put_off(superuser_url: str) -> None:
    """Let nothing of the victim's be due: whoever works for all tenants would do it, and be taken for hostile."""
    with psycopg.connect(superuser_url) as connection:
        connection.execute(
            "UPDATE jobs SET due_at = now() + interval '1 day' WHERE tenant_id = %s AND due_at IS NOT NULL",
            [VICTIM],
        )


def texts(connection: psycopg.Connection) -> list[tuple[str, str, str]]:
    """`(table, column, type)` of what holds text of a tenant."""
    rows = connection.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_name = ANY(%s) "
        "AND is_generated = 'NEVER' AND NOT column_name = ANY(%s) "
        "AND (data_type IN ('text', 'jsonb') OR udt_name = '_text') ORDER BY 1, 2",
        [OF_TENANTS, list(NAMES)],
    )
    return [(str(table), str(column), str(kind)) for table, column, kind in rows]


def state(superuser_url: str, tenant: str = VICTIM) -> dict[str, str]:
    """A digest of all rows of a tenant, and of what belongs to nobody, by table."""
    parts = [
        f"SELECT '{table}', coalesce(md5(string_agg(t::text, E'\\n' ORDER BY t::text)), '') FROM {table} t"
        + (" WHERE tenant_id = %(tenant)s" if table in OF_TENANTS else "")
        # processes state there that they run
        for table in TABLES
        if table != "processes"
    ]
    with psycopg.connect(superuser_url) as connection:
        rows = connection.execute(" UNION ALL ".join(parts), {"tenant": tenant})  # type: ignore[arg-type]
        return {str(table): str(digest) for table, digest in rows}


@dataclass(frozen=True, kw_only=True)
class Known:
    # all rows by table, with the columns that name things
    rows: dict[str, list[dict[str, Any]]]

    @classmethod
    def of(cls, superuser_url: str) -> "Known":
        """Read as no tenant could."""
        with psycopg.connect(superuser_url, row_factory=dict_row) as connection:
            return cls(
                rows={
                    table: list(
                        connection.execute(f"SELECT * FROM {table} WHERE tenant_id = %s", [VICTIM]).fetchall()  # type: ignore[arg-type]
                    )
                    for table in OF_TENANTS
                }
            )

    def all(self, table: str, column: str) -> list[Any]:
        """The different values of a column, in order."""
        return sorted({row[column] for row in self.rows[table] if row[column] is not None})

    def one(self, table: str, column: str) -> Any:
        return self.all(table, column)[0]
