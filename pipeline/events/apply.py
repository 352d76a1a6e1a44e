"""Apply the events of a platform in their order, each committed, so that sending all of them again is harmless."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pipeline.erasure import edits
from pipeline.ingest import accept, chat_moves
from pipeline.ingest.accept import Accepted
from pipeline.ingest.policy import SessionPolicy
from pipeline.ingest.pruned import MessageLimits
from pipeline.people import membership, suppression
from pipeline.platforms.records import (
    Broken,
    Deletion,
    Edit,
    Event,
    MemberChange,
    NewChatId,
    Record,
    Skipped,
    Unread,
)
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import persistently
from schemas.bots.events import EventsReceipt
from schemas.errors import Permanent
from schemas.messages import ChatIn, MessageIn


def apply(
    database: Database,
    tenant_id: str,
    events: Sequence[Event],
    policy: SessionPolicy,
    *,
    limits: MessageLimits,
    trace_id: str,
) -> tuple[EventsReceipt, set[str]]:
    """Apply events in their order; return what became of them and the kinds of jobs that are due now.

    An edit or a deletion may come before its message. What is refused, such as a time that no calendar knows, is
    named as broken, and the others are applied. Raises `Retryable`: those before are applied then, and the same call
    is harmless.
    """
    receipt, follows = EventsReceipt(request_id=trace_id), set[str]()
    kept: list[Event] = []
    for event in events:
        match event:
            case Broken():
                receipt.leave_out(event.where, event.reason)
            case Skipped() | Unread():
                kind = event.reason if isinstance(event, Skipped) else event.kind
                receipt.not_kept[kind] = receipt.not_kept.get(kind, 0) + 1
            case _:
                kept.append(event)
    for step in _steps(kept):
        try:
            follows |= _apply(database, tenant_id, step, policy, receipt, limits=limits)
        except Permanent as error:
            where = next((event.where for event in step if not isinstance(event, ChatIn)), "chat")
            receipt.leave_out(where, str(error))
    return receipt, follows


def one_chat(events: Sequence[Event]) -> tuple[ChatIn, list[MessageIn]] | None:
    """Return the chat and its messages, if events are nothing but new messages of one chat."""
    match _steps(events):
        case [[ChatIn() as chat, Record(), *_] as step]:
            return chat, _messages(step)
    return None


def count(receipt: EventsReceipt, stored: Accepted) -> None:
    """Add what became of messages."""
    receipt.accepted += stored.new
    receipt.duplicates += stored.duplicates
    receipt.kept_out += stored.kept_out


def _steps(events: Sequence[Event]) -> list[list[Event]]:
    """Return what is applied at once: a chat with the messages that follow it, or another event alone."""
    steps: list[list[Event]] = []
    for event in events:
        last = steps[-1] if steps else []
        if isinstance(event, Record) and last and isinstance(last[0], ChatIn):
            last.append(event)
        # a chat is told with each of its messages
        elif not (isinstance(event, ChatIn) and last[:1] == [event]):
            steps.append([event])
    return steps


def _messages(step: Sequence[Event]) -> list[MessageIn]:
    return [event.message for event in step if isinstance(event, Record)]


def _apply(
    database: Database,
    tenant_id: str,
    step: Sequence[Event],
    policy: SessionPolicy,
    receipt: EventsReceipt,
    *,
    limits: MessageLimits,
) -> frozenset[str]:
    """Apply a step and count it; return the kinds of jobs that are due now."""
    trace_id = receipt.request_id
    args: tuple[Any, ...]
    match step:
        case [ChatIn() as chat]:
            persistently(partial(_describe, database, tenant_id, chat))
        case [ChatIn() as chat, *_]:
            # what a message that is known already says of its chat may be long past
            with database.tenant(tenant_id) as connection:
                is_known = chats.get(connection, chat.chat_id) is not None
            declared = ChatIn(chat_id=chat.chat_id) if is_known else chat
            messages = _messages(step)
            stored = accept.accept(database, tenant_id, declared, messages, limits=limits, trace_id=trace_id)
            if stored.new and is_known:
                persistently(partial(_describe, database, tenant_id, chat))
            count(receipt, stored)
            return frozenset({"ingest"})
        case [Edit() as edit]:
            receipt.edits += 1
            # it would wait for a message that does not come
            if not suppression.keeps_out_sender(
                database, tenant_id, edit.chat_id, edit.sender_id, edit.said_at
            ):
                args = (edit.chat_id, edit.external_id, edit.content, edit.edited_at)
                change = partial(edits.edit, database, tenant_id, *args, policy, trace_id=trace_id)
                return persistently(change).follows
        case [Deletion() as deletion]:
            receipt.deletions += 1
            args = (deletion.chat_id, deletion.external_id)
            change = partial(edits.delete, database, tenant_id, *args, policy, trace_id=trace_id)
            return persistently(change).follows
        case [MemberChange() as moved]:
            receipt.members += len(moved.joined) + len(moved.left)
            args = (moved.chat_id, moved.joined, moved.left, moved.at)
            persistently(partial(membership.change, database, tenant_id, *args))
        case [NewChatId() as move]:
            receipt.moves += 1
            if persistently(partial(_describe, database, tenant_id, ChatIn(chat_id=move.chat_id))):
                args = (move.chat_id, move.to)
                persistently(partial(chat_moves.start, database, tenant_id, *args, trace_id=trace_id))
                return frozenset({"forget"})
    return frozenset()


def _describe(database: Database, tenant_id: str, chat: ChatIn) -> bool:
    """Store what is said of a chat; tell whether there is such a chat now, under this id.

    A forgotten chat is not created, as its description may be an old one that is sent again, nor is a person's chat in
    which nothing was said.
    """
    with database.tenant(tenant_id) as connection:
        stored = chats.get(connection, chat.chat_id)
        if stored is None:
            is_kept = chat.kind != "direct" and not suppression.stopped(
                connection, None, ("chat", chat.chat_id)
            )
        else:
            is_kept = stored.moved_to is None
        if is_kept:
            chats.ensure(connection, tenant_id, chat)
        return is_kept
