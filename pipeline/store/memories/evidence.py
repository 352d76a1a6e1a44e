"""SQL of the evidence of learned memories: the messages, by session, that state them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, TextClause, text

from pipeline.store.connections.statements import arrays, column, run
from schemas.memory.facts import RULES

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
_COLUMNS = """tenant_id, memory_id, message_id, session_id, chat_id, sender_id, said_at, content, confidence,
    learned_by, holds_from, holds_until"""
_PUT = text(f"""
    INSERT INTO memory_evidence ({_COLUMNS})
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
    INSERT INTO memory_evidence ({_COLUMNS})
    SELECT DISTINCT ON (target, message_id) {_COLUMNS.replace("memory_id", "target")} FROM moved
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
class Evidence:
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


def validity(evidence: Sequence[Evidence]) -> tuple[datetime | None, datetime | None]:
    """Return since when and until when a memory holds: what was said of that last, if all its chats say the same.

    `evidence` is by its time. What one chat alone says is not shown in another.
    """
    last = {}
    for item in evidence:
        if any(item.holds) or item.chat_id not in last:
            last[item.chat_id] = item.holds
    periods = set(last.values())
    return periods.pop() if len(periods) == 1 else (None, None)


def of_memories(connection: Connection, ids: Sequence[UUID]) -> list[Evidence]:
    """Return the evidence of memories, by its time."""
    return [Evidence(**row._mapping) for row in run(connection, _OF_MEMORIES, ids=ids)] if ids else []


def memories_of(connection: Connection, session_id: int) -> set[UUID]:
    """Return the memories that a session is evidence for."""
    return set(column(connection, _MEMORIES_OF, session=session_id))


def drop_of_session(connection: Connection, session_id: int) -> set[UUID]:
    """Delete the evidence from a session; return the memories that rested on it."""
    return set(column(connection, _DROP_OF_SESSION, session=session_id))


def drop_of_messages(
    connection: Connection, message_ids: Sequence[int], session_ids: Sequence[int]
) -> set[UUID]:
    """Delete the evidence that rests on these messages, or was made by a model of sessions that hold them."""
    return set(column(connection, _TAKE, messages=message_ids, sessions=session_ids))


def drop_of_senders(connection: Connection, senders: Sequence[str], until: datetime, limit: int) -> set[UUID]:
    """Delete up to `limit` pieces of evidence given by these senders up to a time."""
    return set(column(connection, _TAKE_OF_SENDERS, senders=senders, until=until, limit=limit))


def drop_of_chat(connection: Connection, chat_id: str, until: datetime, limit: int) -> set[UUID]:
    """Delete up to `limit` pieces of evidence from a chat up to a time."""
    return set(column(connection, _TAKE_OF_CHAT, chat=chat_id, until=until, limit=limit))


def put(connection: Connection, tenant_id: str, memory_id: UUID, evidence: Evidence) -> None:
    """Write the evidence of a memory."""
    run(connection, _PUT, tenant=tenant_id, memory=memory_id, **vars(evidence))


def move(connection: Connection, moves: Iterable[tuple[UUID, int, UUID]]) -> None:
    """Move evidence `(memory, session, into)` to other memories; what rests on the same message there stays."""
    run(connection, _MOVE, **arrays("memories sessions targets", moves))


def merge_sessions(connection: Connection, losers: Sequence[int], survivors: Sequence[int]) -> None:
    """Move the evidence of merged sessions to their survivors."""
    run(connection, _MERGE_SESSIONS, losers=losers, survivors=survivors)
