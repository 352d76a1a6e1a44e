"""Apply a platform's events in order, committing each, so that sending them again is harmless."""

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from pipeline.erasure import edits
from pipeline.ingest import accept, chat_moves, numbers
from pipeline.ingest.accept import Accepted, MessageLimits
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.people import identities, suppression
from pipeline.platforms.records import (
    BotAccount,
    Broken,
    Deletion,
    Edit,
    Event,
    MemberChange,
    Moderators,
    NewChatId,
    NewNumber,
    OtherId,
    Record,
    Skipped,
    Unread,
)
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import persistently
from schemas.base import is_cut
from schemas.bots import MAX_NAMED, EventsReceipt
from schemas.errors import Permanent
from schemas.messages import MAX_CONTENT_BYTES, MAX_TITLE_CHARS, ChatIn, MessageIn

NOT_THEIRS = "another person sent the message, and whoever changes it here does not moderate the chat"

ANOTHERS = (
    "the new id is that of another chat, which has people of its own: if both are the same, say so with "
    "`backscroll chats rename`"
)


def apply_events(
    database: Database,
    tenant_id: str,
    events: Sequence[Event],
    policy: SessionPolicy,
    *,
    limits: MessageLimits,
    trace_id: str,
) -> tuple[EventsReceipt, set[str]]:
    """Apply events in order; return their outcome and the kinds of jobs that are due now.

    An edit or a deletion may come before its message. A refused event, as of an impossible time, is reported as broken,
    and the others are applied. Raises `Retryable`; earlier events stay applied, and the call may be repeated.
    """
    receipt, follows = EventsReceipt(request_id=trace_id), set[str]()
    kept: list[Event] = []
    for event in events:
        match event:
            case Broken():
                receipt.leave_out(event.where, event.reason)
            case Skipped() | Unread():
                kind = event.reason if isinstance(event, Skipped) else event.kind
                kind = kind if kind in receipt.not_kept or len(receipt.not_kept) < MAX_NAMED else "other"
                receipt.not_kept[kind] = receipt.not_kept.get(kind, 0) + 1
                receipt.count(accept.reason_of(event))
            case _:
                kept.append(event)
    for step in _steps(kept):
        try:
            follows |= _apply(database, tenant_id, step, policy, receipt, limits=limits)
        except Permanent as error:
            where = next((event.where for event in step if not isinstance(event, ChatIn)), "chat")
            receipt.leave_out(where, str(error), "refused")
    return receipt, follows


def messages_of_one_chat(events: Sequence[Event]) -> tuple[ChatIn, list[MessageIn]] | None:
    """Return the chat and its messages if all events are new messages of one chat."""
    match _steps(events):
        case [[ChatIn() as chat, Record(), *_] as step] if not is_cut(chat.title, MAX_TITLE_CHARS):
            return chat, _messages(step)
    return None


def count_events(receipt: EventsReceipt, stored: Accepted) -> None:
    """Add messages to the receipt by their outcome."""
    receipt.accepted += stored.new
    receipt.duplicates += stored.duplicates
    receipt.kept_out += stored.kept_out
    receipt.count("kept_out", stored.kept_out)
    receipt.count("cut", stored.cut)


def _steps(events: Sequence[Event]) -> list[list[Event]]:
    """Group events into steps: a chat with the messages that follow it, or another event alone."""
    steps: list[list[Event]] = []
    for event in events:
        last = steps[-1] if steps else []
        if isinstance(event, Record) and last and isinstance(last[0], ChatIn):
            last.append(event)
        # each message repeats its chat
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
    if isinstance(step[0], Edit | Deletion | MemberChange | OtherId):
        with database.tenant(tenant_id) as connection:
            step = [_present(connection, step[0])]
    match step:
        case [ChatIn() as chat]:
            persistently(partial(_describe, database, tenant_id, chat, receipt))
        case [ChatIn() as chat, *_]:
            # a message that comes again may describe its chat as it was long ago
            with database.tenant(tenant_id) as connection:
                is_known = chats.get(connection, chat.chat_id) is not None
            declared = ChatIn(chat_id=chat.chat_id) if is_known else chat
            messages = _messages(step)
            stored = accept.accept(database, tenant_id, declared, messages, limits=limits, trace_id=trace_id)
            if stored.new and is_known:
                persistently(partial(_describe, database, tenant_id, chat, receipt))
            elif stored.new:
                receipt.count("cut", is_cut(chat.title, MAX_TITLE_CHARS))
            count_events(receipt, stored)
            return frozenset({"ingest"})
        case [Edit() as edit]:
            new = edits.NewText(
                edit.chat_id, edit.external_id, edit.content, edit.edited_at, by=edit.sender_id
            )
            change = partial(edits.edit, database, tenant_id, new, policy, trace_id=trace_id)
            sender = (edit.chat_id, edit.sender_id, edit.said_at)
            # it would wait for a message that never comes
            is_out = suppression.keeps_out_sender(database, tenant_id, *sender)
            if is_out or (changed := persistently(change)).outcome == "kept_out":
                receipt.edits += 1
                receipt.count("kept_out")
                return frozenset()
            if changed.outcome == "not_theirs":
                receipt.leave_out(edit.where, NOT_THEIRS, "not_theirs")
                return frozenset()
            receipt.edits += 1
            is_long = len(edit.content.encode()) > MAX_CONTENT_BYTES
            receipt.count("cut", is_long and changed.outcome != "unchanged")
            return changed.follows
        case [Deletion() as deletion]:
            args = (deletion.chat_id, deletion.external_id)
            change = partial(
                edits.delete, database, tenant_id, *args, policy, by=deletion.by, trace_id=trace_id
            )
            if (gone := persistently(change)).outcome == "not_theirs":
                receipt.leave_out(deletion.where, NOT_THEIRS, "not_theirs")
                return frozenset()
            receipt.deletions += 1
            return gone.follows
        case [MemberChange() as moved]:
            receipt.members += len(moved.joined) + len(moved.left)
            args = (moved.chat_id, moved.joined, moved.left, moved.at)
            persistently(partial(identities.change_members, database, tenant_id, *args))
        case [Moderators() as named]:
            args = (named.chat_id, named.people, named.former)
            persistently(partial(identities.set_moderators, database, tenant_id, *args))
        case [OtherId()] if database.only_chats:
            # who reaches some chats only would join people of others; no words are lost
            pass
        case [OtherId() as found]:
            with database.tenant(tenant_id) as connection:
                stored_chat = chats.get(connection, found.id)
            if stored_chat is not None and stored_chat.moved_to is not None:
                # its person has another id now, and whoever shows this one may be somebody else
                return frozenset()
            args = (found.other_id, found.id)
            shown = persistently(partial(identities.link_shown, database, tenant_id, *args, found.at))
            if shown.former is not None:
                return _renumber(database, tenant_id, shown.former, found.id, found.at, trace_id)
            args = (f"{found.other_id}{found.account}", f"{found.id}{found.account}")
            is_moved = shown.joined and persistently(
                partial(chat_moves.alias, database, tenant_id, *args, trace_id=trace_id)
            )
            return frozenset({"forget"} if is_moved else ())
        case [NewChatId() | NewNumber() as move] if database.only_chats:
            # who is in the one chat would be in the other, and other keys would reach both
            receipt.leave_out(move.where, "only a key for all chats gives a chat another id", "not_allowed")
        case [NewNumber() as change_of]:
            receipt.moves += 1
            args = (change_of.chat_id, change_of.to, change_of.at)
            return _renumber(database, tenant_id, *args, trace_id)
        case [NewChatId() as move] if move.is_claimed and _is_anothers(database, tenant_id, move):
            receipt.leave_out(move.where, ANOTHERS, "not_allowed")
        case [NewChatId() as move]:
            receipt.moves += 1
            if persistently(partial(_describe, database, tenant_id, ChatIn(chat_id=move.chat_id), receipt)):
                args = (move.chat_id, move.to)
                persistently(partial(chat_moves.start, database, tenant_id, *args, trace_id=trace_id))
                return frozenset({"forget"})
    return frozenset()


def _is_anothers(database: Database, tenant_id: str, move: NewChatId) -> bool:
    """Tell whether the chat that another claims to be now was there before, with people of its own."""
    with database.tenant(tenant_id) as connection:
        former, new = (chats.get(connection, chat_id) for chat_id in (move.chat_id, move.to))
        return new is not None and (former is None or former.moved_to != move.to)


def _renumber(
    database: Database, tenant_id: str, number: str, to: str, at: datetime | None, trace_id: str
) -> frozenset[str]:
    """Give a person their new number; return the kinds of jobs that are due now."""
    args = (number, to, at)
    is_moved = persistently(partial(numbers.change, database, tenant_id, *args, trace_id=trace_id))
    return frozenset({"forget"} if is_moved else ())


def _present(connection: Connection, event: Edit | Deletion | MemberChange | OtherId) -> Event:
    """Return an event with the present ids of those who had the ids in it at its time."""
    now = partial(numbers.present_ids, connection)
    match event:
        case Edit(edited_at=at) | Deletion(at=at):
            by = event.sender_id if isinstance(event, Edit) else event.by
            chat_id, sender = now([event.chat_id, by or ""], at)
            if isinstance(event, Edit):
                return replace(event, chat_id=chat_id, sender_id=sender or None)
            return replace(event, chat_id=chat_id, by=sender or None)
        case MemberChange(at=at):
            return replace(event, joined=tuple(now(event.joined, at)), left=tuple(now(event.left, at)))
        case OtherId(at=at):
            other_id, used = now([event.other_id, event.id], at)
            return replace(event, other_id=other_id, id=used)


def with_accounts(database: Database, tenant_id: str, events: Sequence[Event]) -> list[Event]:
    """Return the events without `BotAccount`, whose name is in no id where it is the tenant's first on its platform.

    So the chats that were there before a second account keep their ids. A key for some chats makes none the first.
    Where the caller names the account, the first is the one without a name.
    """
    if not any(isinstance(event, BotAccount) for event in events):
        return list(events)
    kept: list[Event] = []
    first = ""
    for event in events:
        if isinstance(event, BotAccount):
            with database.tenant(tenant_id) as connection:
                known = chats.accounts(connection, event.platform)
                if event.account not in known and (known or not database.only_chats):
                    for account in ("", event.account) if event.is_stated and not known else (event.account,):
                        chats.add_account(connection, tenant_id, event.platform, account)
                    known = chats.accounts(connection, event.platform)
            is_first = known[0] == event.account if known else not event.is_stated
            first = f"@{event.account}" if is_first else ""
        else:
            kept.append(_without(event, first) if first else event)
    return kept


def _without(event: Event, account: str) -> Event:
    """Return an event with the ids of direct chats without our account."""
    if isinstance(event, ChatIn):
        return event.model_copy(update={"chat_id": event.chat_id.removesuffix(account)})
    names = {field.name for field in fields(event)} & {"chat_id", "to", "account"}
    return replace(event, **{name: getattr(event, name).removesuffix(account) for name in names})


def _describe(database: Database, tenant_id: str, chat: ChatIn, receipt: EventsReceipt) -> bool:
    """Store a chat's description, counted where it is cut; return whether the chat exists now, under this id.

    A forgotten chat is not created, as the description may be an old one sent again, nor is a direct chat without
    messages.
    """
    with database.tenant(tenant_id) as connection:
        stored = chats.get(connection, chat.chat_id)
        if stored is None:
            is_kept = chat.kind != "direct" and not suppression.is_kept_out(
                connection, None, ("chat", chat.chat_id)
            )
        else:
            is_kept = stored.moved_to is None
        if is_kept:
            chats.ensure(connection, tenant_id, chat)
            is_new = stored is None or stored.title != chat.title
            receipt.count("cut", is_new and is_cut(chat.title, MAX_TITLE_CHARS))
        return is_kept
