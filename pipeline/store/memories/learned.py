"""SQL of learned memories: their owners, statements and evidence, and what supersedes them."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, TextClause, text

from pipeline.store.connections import transactions
from pipeline.store.connections.statements import arrays, column, run
from pipeline.store.operations import counters
from pipeline.store.vectors import cosine, in_space
from schemas.facts import RULES
from schemas.vectors import EmbeddingSpace

# Any constant will do; with tenant and owner it makes one advisory lock for each owner.
LEARNING = 0x6C6561726E
_LOCK_OWNER = text(f"SELECT pg_advisory_xact_lock(hashtextextended(:name, {LEARNING}))")
# Documents, questions with answers and summaries are no statements.
_STATEMENTS = "type NOT IN ('document', 'qa_turn', 'summary', 'scratchpad', 'state')"
_COLUMNS = """id, scope, user_id, agent_id, content, content_hash, subject, attribute, value, learned_in, learned_by,
    also_in, confidence, holds_from, holds_until,
    retracted_at, edited_at IS NOT NULL AS edited, coalesce(said_at, created_at) AS said_at,
    EXISTS (SELECT 1 FROM memory_supersessions s
        WHERE s.tenant_id = memories.tenant_id AND s.memory_id = id) AS superseded"""
_OF_PERSON = text(
    f"SELECT {_COLUMNS} FROM memories WHERE scope = 'user' AND user_id = ANY(:ids) AND {_STATEMENTS} ORDER BY id"
)
_SHARED = f"SELECT {_COLUMNS} FROM memories WHERE {_STATEMENTS} AND type <> 'document' AND "
_OF_AGENT = text(f"{_SHARED} scope = 'agent' AND agent_id = :agent ORDER BY id")
# Decisions of different groups are separate.
_OF_GROUP = text(f"{_SHARED} scope = 'organization' AND learned_in = :chat ORDER BY id DESC LIMIT :limit")
_BY_ID = text(f"SELECT {_COLUMNS} FROM memories WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id")
_COPIED = """importance, confidence, source, subject, attribute, value, learned_in, learned_by, said_at, holds_from,
        holds_until, language"""
_INSERT = text(f"""
    INSERT INTO memories (tenant_id, id, scope, type, user_id, agent_id, content, content_hash, {_COPIED})
    VALUES (:tenant, :id, :scope, :type, :user_id, :agent_id, :content, :hash, :importance, :confidence, 'learned',
        :subject, :attribute, :value, :learned_in, :learned_by, :said_at, :holds_from, :holds_until, :language)
""")
_REFRESH = text("""
    UPDATE memories SET content = :content, content_hash = :hash, confidence = :confidence, said_at = :said_at,
        learned_in = :learned_in, also_in = :also_in, holds_from = :holds_from, holds_until = :holds_until
    WHERE id = CAST(:id AS uuid)
""")
# Its words and where it was learned are set from its own evidence then.
_COPY = text(f"""
    INSERT INTO memories (tenant_id, id, scope, type, user_id, agent_id, content, content_hash, {_COPIED}, metadata)
    SELECT tenant_id, CAST(:copy AS uuid), scope, type, user_id, agent_id, content, :hash, {_COPIED}, metadata
    FROM memories WHERE id = CAST(:id AS uuid)
""")
_ADOPT = text("UPDATE memories SET attribute = :attribute, value = :value WHERE id = CAST(:id AS uuid)")
_RAISE = text(
    "UPDATE memories SET importance = greatest(importance, :importance) WHERE id = CAST(:id AS uuid)"
)
# Those between different attributes are a model's, or somebody's who has corrected a memory.
_CLEAR_EDGES = text("""
    DELETE FROM memory_supersessions e USING memories older, memories newer
    WHERE e.memory_id = ANY(CAST(:ids AS uuid[])) AND e.superseded_by = ANY(CAST(:ids AS uuid[]))
        AND older.id = e.memory_id AND newer.id = e.superseded_by
        AND older.attribute <> '' AND older.attribute = newer.attribute
    RETURNING e.memory_id, e.superseded_by
""")
_SUPERSEDE = text("""
    WITH put AS (
        INSERT INTO memory_supersessions (tenant_id, memory_id, superseded_by)
        SELECT :tenant, edge.older, edge.newer
        FROM unnest(CAST(:older AS uuid[]), CAST(:newer AS uuid[])) AS edge (older, newer)
        JOIN memories o ON o.id = edge.older JOIN memories n ON n.id = edge.newer
        WHERE coalesce(o.said_at, o.created_at) <= coalesce(n.said_at, n.created_at) AND o.id <> n.id
        ON CONFLICT DO NOTHING
        RETURNING memory_id, superseded_by
    )
    SELECT put.memory_id, put.superseded_by, n.learned_in FROM put JOIN memories n ON n.id = put.superseded_by
""")
_REVIVED = text("""
    SELECT DISTINCT memory_id FROM memory_supersessions WHERE superseded_by = ANY(CAST(:ids AS uuid[]))
""")
_LEARNED = text("SELECT id FROM memories WHERE id = ANY(CAST(:ids AS uuid[])) AND learned_by <> ''")
MEMORIES_OF_GROUP = 500
"""The latest of a group that a new statement is compared with."""


def lock_owner(connection: Connection, tenant_id: str, owner: str) -> None:
    """Wait for the lock of an owner, so that two sessions do not learn the same fact twice."""
    run(connection, _LOCK_OWNER, name=f"{tenant_id} {owner}")


def of_person(connection: Connection, ids: Sequence[str]) -> Sequence[Row[Any]]:
    """Return the statements about a person, by any of their ids."""
    return run(connection, _OF_PERSON, ids=ids).all()


def of_agent(connection: Connection, agent_id: str) -> Sequence[Row[Any]]:
    """Return the statements about an agent."""
    return run(connection, _OF_AGENT, agent=agent_id).all()


def of_group(connection: Connection, chat_id: str) -> Sequence[Row[Any]]:
    """Return the latest statements of the organization that were learned in a chat."""
    return run(connection, _OF_GROUP, chat=chat_id, limit=MEMORIES_OF_GROUP).all()


def by_id(connection: Connection, ids: Sequence[UUID]) -> Sequence[Row[Any]]:
    """Return these statements."""
    return run(connection, _BY_ID, ids=ids).all() if ids else []


def nearest(
    connection: Connection, space: EmbeddingSpace, memory_id: UUID, ids: Sequence[UUID]
) -> list[tuple[UUID, float]]:
    """Return `(id, cosine)` of the memories that have a vector, the nearest to a memory first."""
    if not ids:
        return []
    away = f"v.embedding::halfvec({space.dimensions}) <=> w.embedding::halfvec({space.dimensions})"
    statement = text(f"""
        SELECT v.memory_id, {cosine(space.documents, away)}
        FROM memory_vectors w JOIN memory_vectors v ON v.tenant_id = w.tenant_id
        WHERE w.memory_id = CAST(:id AS uuid) AND {in_space(space, "w.")} AND w.chunk_index = 0
            AND v.memory_id = ANY(CAST(:ids AS uuid[])) AND {in_space(space, "v.")} AND v.chunk_index = 0
        ORDER BY 2 DESC
    """)
    return [(row[0], float(row[1])) for row in run(connection, statement, id=memory_id, ids=ids)]


def insert(connection: Connection, tenant_id: str, **values: Any) -> None:
    """Write a learned memory; `values` are the columns that the statement names."""
    run(connection, _INSERT, tenant=tenant_id, **values)


def copy(connection: Connection, memory_id: UUID | None, into: UUID, content_hash: bytes) -> None:
    """Copy a memory to another id, without its evidence."""
    run(connection, _COPY, id=memory_id, copy=into, hash=content_hash)


def refresh(connection: Connection, **values: Any) -> None:
    """Set a memory's fields from its evidence; `values` are `id` and the columns that the statement names."""
    run(connection, _REFRESH, **values)


def adopt(connection: Connection, memory_id: UUID, attribute: str, value: str) -> None:
    """Set a memory's attribute and value."""
    run(connection, _ADOPT, id=memory_id, attribute=attribute, value=value)


def raise_importance(connection: Connection, memory_id: UUID, importance: float) -> None:
    """Raise a memory's importance to at least this."""
    run(connection, _RAISE, id=memory_id, importance=importance)


def set_supersessions(
    connection: Connection, tenant_id: str, among: Sequence[UUID], edges: Iterable[tuple[UUID, UUID]]
) -> None:
    """Replace the supersessions among these memories: `(older, newer)`."""
    known = {tuple(row) for row in run(connection, _CLEAR_EDGES, ids=among)}
    supersede(connection, tenant_id, edges, known)


def supersede(
    connection: Connection,
    tenant_id: str,
    edges: Iterable[tuple[UUID, UUID]],
    known: Container[tuple[UUID, ...]] = (),
) -> None:
    """Record supersessions `(older, newer)`, except where the older one was said later.

    Those that are not `known` are logged.
    """
    pairs = arrays("older newer", edges)
    for row in run(connection, _SUPERSEDE, tenant=tenant_id, **pairs) if pairs["older"] else ():
        if (row.memory_id, row.superseded_by) not in known:
            tell_superseded(connection, tenant_id, row.memory_id, row.superseded_by, row.learned_in)


def tell_superseded(
    connection: Connection, tenant_id: str, older: UUID, newer: UUID, chat_id: str | None
) -> None:
    """Log and count, once committed, that a memory has superseded another one."""
    ids = {"memory_id": str(older), "superseded_by": str(newer)}
    transactions.log_once_committed(connection, "memory_superseded", tenant=tenant_id, chat_id=chat_id, **ids)
    counters.add(connection, tenant_id, {"memories_superseded": 1})


def superseded_by(connection: Connection, ids: Sequence[UUID]) -> list[UUID]:
    """Return the memories that any of these supersede."""
    return column(connection, _REVIVED, ids=ids)


def learned(connection: Connection, ids: Sequence[str]) -> list[UUID]:
    """Return the memories that were learned from a conversation."""
    return column(connection, _LEARNED, ids=ids) if ids else []


_COLUMNS_OF_GROUP = """memory_id, session_id, min(chat_id) AS chat_id, min(said_at) AS said_at, min(content) AS content,
    max(confidence) AS confidence, min(learned_by) AS learned_by, max(holds_from) AS holds_from,
    max(holds_until) AS holds_until,
    array_agg(message_id ORDER BY message_id) AS messages, array_agg(sender_id ORDER BY message_id) AS senders,
    array_agg(said_at ORDER BY message_id) AS times"""
_OF_MEMORIES = text(f"""
    SELECT {_COLUMNS_OF_GROUP} FROM memory_evidence WHERE memory_id = ANY(CAST(:ids AS uuid[]))
    GROUP BY memory_id, session_id ORDER BY said_at, session_id
""")
# A memory edited by hand keeps its evidence, as the next reading may restore the former words.
_DROP_OF_SESSION = text("""
    DELETE FROM memory_evidence e USING memories m
    WHERE e.session_id = :session AND m.tenant_id = e.tenant_id AND m.id = e.memory_id AND m.edited_at IS NULL
    RETURNING e.memory_id
""")


def _taking(which: str) -> TextClause:
    return text(f"""
        DELETE FROM memory_evidence e
        USING (SELECT DISTINCT memory_id, session_id FROM memory_evidence WHERE {which}) AS taken
        WHERE e.memory_id = taken.memory_id AND e.session_id = taken.session_id
        RETURNING e.memory_id
    """)


# Rules read message by message. A model may have made a statement of anything that was said beside it.
_TAKE = _taking(f"""
    message_id = ANY(:messages) OR (session_id = ANY(:sessions) AND learned_by <> '{RULES}')
""")
_TAKE_OF_SENDERS = _taking("sender_id = ANY(:senders) AND said_at <= :until LIMIT :limit")
_TAKE_OF_CHAT = _taking("chat_id = :chat AND said_at <= :until LIMIT :limit")
_EVIDENCE_COLUMNS = """tenant_id, memory_id, message_id, session_id, chat_id, sender_id, said_at, content, confidence,
    learned_by, holds_from, holds_until"""
_PUT = text(f"""
    INSERT INTO memory_evidence ({_EVIDENCE_COLUMNS})
    SELECT :tenant, CAST(:memory AS uuid), said.message, :session_id, :chat_id, said.sender, said.at, :content,
        :confidence, :learned_by, :holds_from, :holds_until
    FROM unnest(CAST(:messages AS bigint[]), CAST(:senders AS text[]), CAST(:times AS timestamptz[]))
        AS said (message, sender, at)
    ON CONFLICT (tenant_id, memory_id, message_id) DO UPDATE SET session_id = excluded.session_id,
        content = excluded.content, confidence = excluded.confidence, learned_by = excluded.learned_by,
        holds_from = excluded.holds_from, holds_until = excluded.holds_until
""")
# One message may say both memories, so what the other has already stays. All is deleted before anything is inserted, as
# it is sorted: evidence may move on to where other evidence has just moved away.
_MOVE = text(f"""
    WITH moved AS (
        DELETE FROM memory_evidence e
        USING unnest(CAST(:memories AS uuid[]), CAST(:sessions AS bigint[]), CAST(:targets AS uuid[]))
            AS move (memory, session, target)
        WHERE e.memory_id = move.memory AND e.session_id = move.session
        RETURNING move.target, e.*
    )
    INSERT INTO memory_evidence ({_EVIDENCE_COLUMNS})
    SELECT DISTINCT ON (target, message_id) {_EVIDENCE_COLUMNS.replace("memory_id", "target")} FROM moved
    ORDER BY target, message_id, confidence DESC
    ON CONFLICT (tenant_id, memory_id, message_id) DO NOTHING
""")
_MERGE_SESSIONS = text("""
    UPDATE memory_evidence e SET session_id = joined.survivor
    FROM unnest(CAST(:losers AS bigint[]), CAST(:survivors AS bigint[])) AS joined (loser, survivor)
    WHERE e.session_id = joined.loser
""")
_MEMORIES_OF = text("SELECT DISTINCT memory_id FROM memory_evidence WHERE session_id = :session")


@dataclass(frozen=True, kw_only=True)
class MemoryEvidence:
    """The messages of one session that state one memory."""

    memory_id: UUID | None
    session_id: int
    chat_id: str
    # of the first of them
    said_at: datetime
    # the memory as this session alone would word it
    content: str
    confidence: float
    learned_by: str
    # alike ordered: ids, who says it, and when
    messages: Sequence[int]
    senders: Sequence[str]
    times: Sequence[datetime]
    # as this session says
    holds_from: datetime | None = None
    holds_until: datetime | None = None

    @property
    def holds(self) -> tuple[datetime | None, datetime | None]:
        """Since when and until when it holds."""
        return self.holds_from, self.holds_until


def validity(evidence: Sequence[MemoryEvidence]) -> tuple[datetime | None, datetime | None]:
    """Return since when and until when a memory holds: what was said of that last, if all its chats say the same.

    `evidence` is by its time. What one chat alone says is not shown in another.
    """
    last = {}
    for item in evidence:
        if any(item.holds) or item.chat_id not in last:
            last[item.chat_id] = item.holds
    periods = set(last.values())
    return periods.pop() if len(periods) == 1 else (None, None)


def evidence_of_memories(connection: Connection, ids: Sequence[UUID]) -> list[MemoryEvidence]:
    """Return the evidence of memories, by its time."""
    return [MemoryEvidence(**row._mapping) for row in run(connection, _OF_MEMORIES, ids=ids)] if ids else []


def memories_of_messages(connection: Connection, session_id: int) -> set[UUID]:
    """Return the memories that a session is evidence for."""
    return set(column(connection, _MEMORIES_OF, session=session_id))


def drop_evidence_of_session(connection: Connection, session_id: int) -> set[UUID]:
    """Delete the evidence from a session; return the memories that rested on it."""
    return set(column(connection, _DROP_OF_SESSION, session=session_id))


def drop_evidence_of_messages(
    connection: Connection, message_ids: Sequence[int], session_ids: Sequence[int]
) -> set[UUID]:
    """Delete the evidence that rests on these messages, or was made by a model of sessions that hold them."""
    return set(column(connection, _TAKE, messages=message_ids, sessions=session_ids))


def drop_evidence_of_senders(
    connection: Connection, senders: Sequence[str], until: datetime, limit: int
) -> set[UUID]:
    """Delete up to `limit` pieces of evidence given by these senders up to a time."""
    return set(column(connection, _TAKE_OF_SENDERS, senders=senders, until=until, limit=limit))


def drop_evidence_of_chat(connection: Connection, chat_id: str, until: datetime, limit: int) -> set[UUID]:
    """Delete up to `limit` pieces of evidence from a chat up to a time."""
    return set(column(connection, _TAKE_OF_CHAT, chat=chat_id, until=until, limit=limit))


def put_evidence(connection: Connection, tenant_id: str, memory_id: UUID, evidence: MemoryEvidence) -> None:
    """Write the evidence of a memory."""
    run(connection, _PUT, tenant=tenant_id, memory=memory_id, **vars(evidence))


def move_evidence(connection: Connection, moves: Iterable[tuple[UUID, int, UUID]]) -> None:
    """Move evidence `(memory, session, into)` to other memories; what rests on the same message there stays."""
    run(connection, _MOVE, **arrays("memories sessions targets", moves))


def merge_evidence_of_sessions(
    connection: Connection, losers: Sequence[int], survivors: Sequence[int]
) -> None:
    """Move the evidence of merged sessions to their survivors."""
    run(connection, _MERGE_SESSIONS, losers=losers, survivors=survivors)
