"""Delete messages, and have their sessions' derived data made again."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.erasure import derived
from pipeline.ingest import session_ranges
from pipeline.ingest.policy import SessionPolicy
from pipeline.store.chats import chats
from pipeline.store.erasure import pruned_senders
from pipeline.store.jobs import outdated
from pipeline.store.messages import edits
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
    vectors = edits.drop_message_vectors(connection, message_ids)
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
    taken = derived.remove(
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
        pruned_senders.clear(connection, session_ids)
        for session in sessions:
            session_ranges.split_anew(connection, tenant_id, session, chat.language, of_chat)
    # jobs are locked last
    doomed = [f"message:{row.id}" for row in gone]
    dropped = outdated.drop(connection, tenant_id, FENCED_BY_CHANGE, doomed) if gone else 0
    jobs_of = [f"session:{session_id}" for session_id in session_ids]
    if edited is not None:
        jobs_of.append(f"message:{edited.id}")
    outdated.fence(connection, tenant_id, jobs_of)
    outdated.clear_errors(connection, tenant_id, jobs_of)
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
