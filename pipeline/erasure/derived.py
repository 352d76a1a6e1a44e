"""Delete messages and what was derived from them: summaries, vectors, evidence and memories.

These are memories made of them, and whatever quotes them elsewhere:

- a message, or its session, is removed from the contexts that showed it, with the answers to these contexts, which may
  repeat it;
- a question that repeats the message is removed with its answer: a bot asks with the very message that it reacts to;
- what somebody else asked in their own words stays, as their messages do;
- model answers kept for a retry may quote any message of their chat: all of the chat's are removed;
- the rollups of its week are removed and made again.

One message may have thousands of such rows, so removal runs twice: `remove_ahead` before the chat is locked, and
`remove_derived` in the transaction that erases the message, for rows that were added in between.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.ingest import session_ranges
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.store import llm_calls
from pipeline.store.chats import chats
from pipeline.store.erasure import derived, retention
from pipeline.store.jobs import jobs
from pipeline.store.memories import learned
from pipeline.store.memories.learned import MemoryEvidence
from pipeline.store.messages import edits
from pipeline.store.search import query_log
from pipeline.store.sessions import rollups
from pipeline.text.duplicates import fingerprint
from schemas.kinds import FENCED_BY_CHANGE
from schemas.sessions import Session


@dataclass(frozen=True, kw_only=True)
class Erased:
    """How much was deleted."""

    messages: int = 0
    vectors: int = 0
    # sessions that were split again, and how many had a summary
    sessions: int = 0
    summaries: int = 0
    memories: int = 0
    # rows of the query log redacted for the first time
    queries: int = 0
    jobs: int = 0
    # kinds of jobs that are due now
    follows: frozenset[str] = field(default_factory=frozenset)


def erase_messages(
    connection: Connection,
    tenant_id: str,
    chat: chats.Chat,
    message_ids: Sequence[int],
    policy: SessionPolicy,
    *,
    trace_id: str | None = None,
) -> Erased:
    """Delete messages of an exclusively locked chat, with all data derived from them."""
    vectors = edits.drop_message_vectors(connection, chat.chat_id, message_ids)
    gone = edits.delete_messages(connection, chat.chat_id, message_ids)
    edits.drop_pending(connection, chat.chat_id, [row.external_id for row in gone])
    placed = [row for row in gone if row.placed]
    chats.count_placed(connection, chat.chat_id, -len(placed), -sum(row.lexemes for row in placed))
    places = sorted({(row.session_key, row.sent_at) for row in placed})
    touched = edits.sessions_at(connection, chat.chat_id, places)
    redone = redo_sessions(connection, tenant_id, chat, touched, policy, gone=gone, trace_id=trace_id)
    return replace(redone, messages=len(gone), vectors=vectors)


def redo_sessions(
    connection: Connection,
    tenant_id: str,
    chat: chats.Chat,
    sessions: Sequence[Session],
    policy: SessionPolicy,
    *,
    gone: Sequence[Row[Any]] = (),
    edited: Row[Any] | None = None,
    trace_id: str | None = None,
) -> Erased:
    """Discard data derived from locked sessions whose messages have changed, and enqueue deriving it again.

    `gone` and `edited` are messages as they were: `(id, content)`. Without `edited` the sessions are split again.
    """
    session_ids = [session.id for session in sessions]
    changed = [*gone] if edited is None else [edited]
    taken = remove_derived(
        connection,
        tenant_id,
        chat.chat_id,
        message_ids=[row.id for row in changed],
        session_ids=session_ids,
        texts=[row.content for row in changed],
    )
    summaries = edits.clear(connection, session_ids)
    of_chat = policy.for_chat(chat)
    if edited is None:
        retention.clear_pruned_senders(connection, session_ids)
        for session in sessions:
            session_ranges.split_anew(connection, tenant_id, session, chat.language, of_chat)
    # jobs are locked last
    doomed = [f"message:{row.id}" for row in gone]
    dropped = jobs.drop(connection, tenant_id, FENCED_BY_CHANGE, doomed) if gone else 0
    jobs_of = [f"session:{session_id}" for session_id in session_ids]
    if edited is not None:
        jobs_of.append(f"message:{edited.id}")
    jobs.fence(connection, tenant_id, jobs_of)
    jobs.clear_errors(connection, tenant_id, jobs_of)
    follows: set[str] = set()
    if session_ranges.close_sessions(connection, tenant_id, chat.chat_id, of_chat, trace_id=trace_id):
        follows = {"summarize", "extract"}
    return Erased(
        sessions=len(sessions),
        summaries=summaries,
        memories=taken.memories,
        queries=taken.queries,
        jobs=dropped,
        follows=frozenset(follows),
    )


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


def remove_derived(
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
    llm_calls.drop_answers_of_chat(connection, chat_id)
    sessions = derived.with_pointers(connection, session_ids)
    unlearned = unlearn(connection, tenant_id, message_ids, sessions)
    gone = derived.drop_memories(
        connection,
        tenant_id,
        chat_id,
        message_ids=message_ids,
        session_ids=sessions,
        texts=texts,
        limit=limit,
    )
    rolled_up = [f"rollup:{session}" for session in rollups.clear(connection, tenant_id, sessions)]
    gone += derived.drop_recalling_items(connection, tenant_id, rolled_up)
    of_memories = _redact(connection, tenant_id, [*derived.memory_items([*unlearned, *gone]), *rolled_up])
    log = _redact(connection, tenant_id, derived.items_of(message_ids, sessions), chat_id, texts, limit)
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
    return remove_derived(
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
    gone = derived.drop_recalling(connection, tenant_id, memory_ids)
    taken = _redact(connection, tenant_id, derived.memory_items([*memory_ids, *gone]))
    return Removed(memories=len(gone) + taken.memories, queries=taken.queries)


def remove_answers(connection: Connection, tenant_id: str, memory_ids: Sequence[UUID]) -> Removed:
    """Remove remembered answers that may rest on memories which have changed; the memories stay."""
    gone = derived.drop_recalling(connection, tenant_id, memory_ids)
    taken = _redact(connection, tenant_id, derived.memory_items(gone))
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
    late = derived.drop(connection, tenant_id, sorted(redacted.memories))
    of_late = _redact(connection, tenant_id, derived.memory_items(late))
    return Removed(
        memories=len(late) + of_late.memories,
        queries=redacted.fresh + of_late.queries,
        more=redacted.rows == limit,
    )


def unlearn(
    connection: Connection, tenant_id: str, message_ids: Sequence[int], session_ids: Sequence[int]
) -> list[UUID]:
    """Remove these messages' evidence; return the memories deleted with it, including those made of them."""
    return settle_memories(
        connection, tenant_id, learned.drop_evidence_of_messages(connection, message_ids, session_ids)
    )


def settle_memories(connection: Connection, tenant_id: str, ids: Collection[UUID]) -> list[UUID]:
    """Delete and return memories left without evidence; give the others the wording of what is left."""
    if not ids:
        return []
    left: dict[UUID, list[MemoryEvidence]] = defaultdict(list)
    for item in learned.evidence_of_memories(connection, list(ids)):
        if item.memory_id is not None:
            left[item.memory_id].append(item)
    orphans = [memory for memory in ids if memory not in left]
    again = set(learned.superseded_by(connection, orphans)) | left.keys()
    gone = derived.drop(connection, tenant_id, orphans)
    keys = []
    for row in learned.by_id(connection, list(left)):
        resting = left[row.id]
        first = resting[0]
        same = [e for e in resting if e.content == row.content]
        shown = same[0] if same else first
        holds_from, holds_until = (
            (row.holds_from, row.holds_until) if row.edited else learned.validity(resting)
        )
        learned.refresh(
            connection,
            id=row.id,
            content=shown.content,
            hash=bytes(row.content_hash) if same else hash_of_its_own(row.id, shown.content),
            confidence=max(e.confidence for e in resting),
            said_at=first.said_at,
            learned_in=shown.chat_id,
            also_in=sorted({e.chat_id for e in resting if e.content == shown.content} - {shown.chat_id}),
            holds_from=holds_from,
            holds_until=holds_until,
        )
        if not same:
            keys.append(f"memory:{row.id}")
    jobs.enqueue(connection, tenant_id, "embed", keys)
    jobs.enqueue(connection, tenant_id, "extract", [f"memory:{memory}" for memory in again - set(gone)])
    return gone


def hash_of_its_own(memory_id: UUID, content: str) -> bytes:
    """Return a hash that no other memory of the owner has."""
    return blake2b(fingerprint(content) + memory_id.bytes, digest_size=16).digest()
