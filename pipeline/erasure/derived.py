"""Remove data derived from messages that were deleted or edited.

These are memories made of them, and whatever quotes them elsewhere:

- a message, or its session, is removed from the contexts that showed it, with the answers to these contexts, which may
  repeat it;
- a question that repeats the message is removed with its answer: a bot asks with the very message that it reacts to;
- what somebody else asked in their own words stays, as their messages do;
- model answers kept for a retry may quote any message of their chat: all of the chat's are removed;
- the rollups of its week are removed and made again.

One message may have thousands of such rows, so removal runs twice: `remove_ahead` before the chat is locked, and
`remove` in the transaction that erases the message, for rows that were added in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from pipeline.erasure.unlearn import unlearn
from pipeline.store.erasure import derived as store
from pipeline.store.messages import edits
from pipeline.store.models import llm_answers
from pipeline.store.search import query_log
from pipeline.store.sessions import rollups

ROWS_AHEAD = 1000
"""Rows of the query log or memories removed in one transaction ahead: a second at most."""


@dataclass(frozen=True, kw_only=True)
class Removed:
    """How much was removed."""

    memories: int = 0
    # rows of the query log redacted for the first time
    queries: int = 0
    # whether more may be left
    more: bool = False


def remove(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    *,
    message_ids: Sequence[int] = (),
    session_ids: Sequence[int] = (),
    texts: Sequence[str] = (),
    limit: int | None = None,
) -> Removed:
    """Remove data derived from a chat's messages, which read `texts`, and sessions: about `limit` rows, or all."""
    llm_answers.drop_of_chat(connection, chat_id)
    sessions = store.with_pointers(connection, session_ids)
    unlearned = unlearn(connection, tenant_id, message_ids, sessions)
    gone = store.drop_memories(
        connection,
        tenant_id,
        chat_id,
        message_ids=message_ids,
        session_ids=sessions,
        texts=texts,
        limit=limit,
    )
    rolled_up = [f"rollup:{session}" for session in rollups.clear(connection, tenant_id, sessions)]
    gone += store.drop_recalling_items(connection, tenant_id, rolled_up)
    of_memories = _redact(connection, tenant_id, [*store.memory_items([*unlearned, *gone]), *rolled_up])
    log = _redact(connection, tenant_id, store.items_of(message_ids, sessions), chat_id, texts, limit)
    return Removed(
        memories=len(unlearned) + len(gone) + of_memories.memories + log.memories,
        queries=of_memories.queries + log.queries,
        more=limit is not None and (len(gone) >= limit or log.more),
    )


def remove_ahead(connection: Connection, tenant_id: str, chat_id: str, message_ids: Sequence[int]) -> Removed:
    """Remove a part of the data derived from doomed messages, without a lock on their chat; repeat it while `more`."""
    rows = edits.read(connection, chat_id, message_ids)
    places = sorted({(row.session_key, row.sent_at) for row in rows})
    sessions = edits.sessions_at(connection, chat_id, places, locked=False)
    return remove(
        connection,
        tenant_id,
        chat_id,
        message_ids=[row.id for row in rows],
        session_ids=[session.id for session in sessions],
        texts=[row.content for row in rows],
        limit=ROWS_AHEAD,
    )


def remove_with_memories(connection: Connection, tenant_id: str, memory_ids: Sequence[UUID]) -> Removed:
    """Remove what was derived from deleted memories."""
    gone = store.drop_recalling(connection, tenant_id, memory_ids)
    taken = _redact(connection, tenant_id, store.memory_items([*memory_ids, *gone]))
    return Removed(memories=len(gone) + taken.memories, queries=taken.queries)


def remove_answers(connection: Connection, tenant_id: str, memory_ids: Sequence[UUID]) -> Removed:
    """Remove remembered answers that may rest on memories which have changed; the memories stay."""
    gone = store.drop_recalling(connection, tenant_id, memory_ids)
    taken = _redact(connection, tenant_id, store.memory_items(gone))
    return Removed(memories=len(gone) + taken.memories, queries=taken.queries)


def _redact(
    connection: Connection,
    tenant_id: str,
    items: Sequence[str],
    chat_id: str | None = None,
    texts: Sequence[str] = (),
    limit: int | None = None,
) -> Removed:
    """Remove items and quoted texts from the query log.

    An answer reported meanwhile may have become a memory since memories were looked for: it is removed with its
    context's row.
    """
    if not items and not texts:
        return Removed()
    redacted = query_log.redact(connection, items, chat_id, texts, limit)
    late = store.drop(connection, tenant_id, sorted(redacted.memories))
    of_late = _redact(connection, tenant_id, store.memory_items(late))
    return Removed(
        memories=len(late) + of_late.memories,
        queries=redacted.fresh + of_late.queries,
        more=redacted.rows == limit,
    )
