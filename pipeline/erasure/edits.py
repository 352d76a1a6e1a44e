"""Edit and delete single messages by their platform's id, late or before they have come.

Everything derived from the old text goes in the same transaction: vectors, the session's summary, memories; results in
flight are fenced off, and jobs for the new text are enqueued. An edit never moves a message in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection, Row

from pipeline.erasure import derived
from pipeline.ingest import session_ranges
from pipeline.ingest.policy import Rules
from pipeline.people import suppression
from pipeline.store import chat_moves, chats, counters, erasure
from pipeline.store import edits as store
from pipeline.store import jobs as work
from pipeline.store import suppression as suppression_list
from pipeline.store.database import Database
from pipeline.text.fencing import without_recalled
from pipeline.text.tokens import estimate as estimate_tokens
from schemas.kinds import FENCED_BY_CHANGE, FORGET
from schemas.messages import ChatIn

AHEAD = timedelta(minutes=5)
"""A clock that runs further ahead would win over every later edit: its edits count as made now."""


TAKEN_OVER_SECONDS = 10.0
"""After which workers finish a deletion that its process has not. One that still waits for a lock finds it done."""


@dataclass(frozen=True, kw_only=True)
class Changed:
    """The outcome of a change."""

    # `pending`: the message has not come yet; `kept_out`: it was deleted or its sender is not to be remembered
    outcome: Literal["edited", "unchanged", "pending", "deleted", "kept_out"]
    # kinds of work that are owed now
    follows: frozenset[str] = field(default_factory=frozenset)


def edit(
    database: Database,
    tenant_id: str,
    chat_id: str,
    external_id: str,
    content: str,
    edited_at: datetime | None,
    rules: Rules,
    *,
    trace_id: str | None = None,
) -> Changed:
    """Give a message its new text; the newest `edited_at` (None: now) wins, of equal ones the last to come.

    An edit that comes before its message waits for it. Raises `DatabaseUnavailable`; then the message says what it
    said, and the same call may be made again.
    """
    content = without_recalled(content)
    tokens = estimate_tokens(content)
    given = chat_id, external_id
    with database.tenant(tenant_id) as connection:
        chat_id, external_id = chat_moves.address(connection, *given)
        at = _edited_at(connection, chat_id, external_id, edited_at)
        message = store.find(connection, chat_id, external_id, locked=False)
        edited = at and message and _outcome(connection, message, content, at) == "edited"
    if edited and message:
        _take_back_ahead(database, tenant_id, chat_id, message.id)
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, given[0])
        chat_id, external_id = chat_moves.address(connection, *given)
        if chat_id != given[0]:
            suppression_list.lock(connection, tenant_id, chat_id)
        at = _edited_at(connection, chat_id, external_id, edited_at)
        if at is None:
            return Changed(outcome="kept_out")
        chat = chats.lock_alone(connection, chat_id)
        if chat is None:
            chats.ensure(connection, tenant_id, ChatIn(chat_id=chat_id))
            chat = chats.lock_alone(connection, chat_id)
        message = store.find(connection, chat_id, external_id)
        if chat is None or message is None:
            store.put_pending(connection, tenant_id, chat_id, external_id, content, tokens, at)
            return Changed(outcome="pending")
        outcome = _outcome(connection, message, content, at)
        if outcome == "unchanged" and message.content == content:
            store.set_edited_at(connection, message.id, at)
        if outcome != "edited":
            return Changed(outcome=outcome)
        lexemes = store.set_content(connection, message.id, content, tokens, at)
        counters.add(connection, tenant_id, {"messages_edited": 1})
        if message.waiting:
            derived.take_back(
                connection, tenant_id, chat_id, message_ids=[message.id], texts=[message.content]
            )
            return Changed(outcome="edited", follows=frozenset({"ingest"}))
        chats.count_placed(connection, chat_id, 0, lexemes - message.lexemes)
        touched = store.sessions_at(connection, chat_id, [(message.session_key, message.sent_at)])
        for session in touched:
            store.revise(connection, session.id, tokens - message.token_count)
        store.drop_message_vectors(connection, [message.id])
        ids = [session.id for session in touched]
        store.clear(connection, ids)
        derived.take_back(
            connection, tenant_id, chat_id, message_ids=[message.id], session_ids=ids, texts=[message.content]
        )

        rules = rules.for_chat(chat)
        key = f"message:{message.id}"
        keys = [key, *(f"session:{session_id}" for session_id in ids)]
        work.fence(connection, tenant_id, keys)
        work.clear_errors(connection, tenant_id, keys)
        follows: set[str] = set()
        if content and rules.memory:
            work.enqueue(connection, tenant_id, "embed", [key], lane=chat_id, trace_id=trace_id)
            follows.add("embed")
        if session_ranges.close_sessions(connection, tenant_id, chat_id, rules, trace_id=trace_id):
            follows.add("summarize")
    return Changed(outcome="edited", follows=frozenset(follows))


def _edited_at(
    connection: Connection, chat_id: str, external_id: str, edited_at: datetime | None
) -> datetime | None:
    """Return when an edit was made; None if its message was deleted, or its chat or tenant forgotten since."""
    if suppression.stands(connection, "message", chat_id, external_id):
        return None
    now = chats.database_now(connection)
    at = now if edited_at is None or edited_at > now + AHEAD else edited_at
    return None if suppression.stopped(connection, at, ("chat", chat_id), ("tenant",)) else at


def _outcome(
    connection: Connection, message: Row[Any], content: str, at: datetime
) -> Literal["edited", "unchanged", "kept_out"]:
    """Return what an edit does to a message that is there."""
    if suppression.stands(connection, "unremembered", message.sender_id):
        return "kept_out"
    if message.content == content or (message.edited_at is not None and message.edited_at > at):
        return "unchanged"
    return "edited"


def delete(
    database: Database,
    tenant_id: str,
    chat_id: str,
    external_id: str,
    rules: Rules,
    *,
    trace_id: str | None = None,
) -> Changed:
    """Delete a message for good; the suppression list keeps it out, also if it has not come yet.

    Raises `DatabaseUnavailable`; then the same call may be made again. From when the tombstone stands the rest is
    owed: should this process end there, workers do it.
    """
    with database.tenant(tenant_id) as connection:
        # What is being accepted in this chat comes to its end first, and what is accepted next sees the tombstone.
        suppression_list.lock(connection, tenant_id, chat_id, alone=True)
        given = chat_id
        chat_id, external_id = chat_moves.address(connection, chat_id, external_id)
        if chat_id != given:
            suppression_list.lock(connection, tenant_id, chat_id, alone=True)
        stone = suppression.hash_of(
            suppression_list.ensure_key(connection, tenant_id), "message", chat_id, external_id
        )
        suppression_list.put(connection, tenant_id, "message", [stone], None)
        store.drop_pending(connection, chat_id, [external_id])
        message = store.find(connection, chat_id, external_id, locked=False)
        if message is None:
            return Changed(outcome="deleted")
        named = {"kind": "message", "chat_id": chat_id, "external_id": external_id}
        until = chats.database_now(connection)
        owed = erasure.insert_receipt(connection, tenant_id, "message", named, stone, until)
        work.enqueue(
            connection,
            tenant_id,
            "forget",
            [str(owed)],
            delay_seconds=TAKEN_OVER_SECONDS,
            trace_id=trace_id,
        )
    _take_back_ahead(database, tenant_id, chat_id, message.id)
    with database.tenant(tenant_id) as connection:
        # it may have been moved meanwhile, and is not while this holds
        suppression_list.lock(connection, tenant_id, given)
        chat = chats.lock_alone(connection, chat_moves.chat_of(connection, message.id) or chat_id)
        erased = Erased()
        if chat is not None:
            erased = erase(connection, tenant_id, chat, [message.id], rules, trace_id=trace_id)
            counters.add(connection, tenant_id, {"messages_deleted": erased.messages})
        work.drop(connection, tenant_id, [FORGET], [str(owed)])
        erasure.drop_receipt(connection, owed)
    return Changed(outcome="deleted", follows=erased.follows)


def _take_back_ahead(database: Database, tenant_id: str, chat_id: str, message_id: int) -> None:
    more = True
    while more:
        with database.tenant(tenant_id) as connection:
            more = derived.take_back_ahead(connection, tenant_id, chat_id, [message_id]).more


@dataclass(frozen=True, kw_only=True)
class Erased:
    """How much was deleted."""

    messages: int = 0
    vectors: int = 0
    # sessions that were cut again, and the summaries among them
    sessions: int = 0
    summaries: int = 0
    memories: int = 0
    # of the query log: rows that nothing was taken out of before
    queries: int = 0
    jobs: int = 0
    # kinds of work that are owed now
    follows: frozenset[str] = field(default_factory=frozenset)


def erase(
    connection: Connection,
    tenant_id: str,
    chat: chats.Chat,
    message_ids: Sequence[int],
    rules: Rules,
    *,
    trace_id: str | None = None,
) -> Erased:
    """Delete messages of a chat, locked exclusively, and everything derived from them.

    Their sessions are cut again from what is left, and summarized again.
    """
    vectors = store.drop_message_vectors(connection, message_ids)
    gone = store.delete_messages(connection, chat.chat_id, message_ids)
    store.drop_pending(connection, chat.chat_id, [row.external_id for row in gone])
    placed = [row for row in gone if row.placed]
    chats.count_placed(connection, chat.chat_id, -len(placed), -sum(row.lexemes for row in placed))
    touched = store.sessions_at(
        connection, chat.chat_id, sorted({(row.session_key, row.sent_at) for row in placed})
    )
    ids = [session.id for session in touched]
    taken = derived.take_back(
        connection,
        tenant_id,
        chat.chat_id,
        message_ids=[row.id for row in gone],
        session_ids=ids,
        texts=[row.content for row in gone],
    )
    summaries = store.clear(connection, ids)
    for session in touched:
        session_ranges.split_anew(connection, tenant_id, session, chat.language, rules)

    owed = work.drop(connection, tenant_id, FENCED_BY_CHANGE, [f"message:{row.id}" for row in gone])
    keys = [f"session:{session_id}" for session_id in ids]
    work.fence(connection, tenant_id, keys)
    work.clear_errors(connection, tenant_id, keys)
    closed = session_ranges.close_sessions(
        connection, tenant_id, chat.chat_id, rules.for_chat(chat), trace_id=trace_id
    )
    return Erased(
        messages=len(gone),
        vectors=vectors,
        sessions=len(touched),
        summaries=summaries,
        memories=taken.memories,
        queries=taken.queries,
        jobs=owed,
        follows=frozenset({"summarize"} if closed else ()),
    )
