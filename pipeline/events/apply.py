"""Apply the events of a platform in their order, each committed, so that sending all of them again is harmless."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from pipeline.erasure import edits
from pipeline.ingest import accept, chat_moves
from pipeline.ingest.accept import Accepted
from pipeline.ingest.policy import SessionPolicy
from pipeline.ingest.pruned import MessageLimits
from pipeline.people import membership
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
from schemas.errors import Permanent
from schemas.messages import ChatIn, MessageIn


@dataclass(kw_only=True)
class Applied:
    """What became of events."""

    # messages as `Accepted` counts them
    accepted: int = 0
    duplicates: int = 0
    kept_out: int = 0
    # applied, or waiting for what they change
    edits: int = 0
    deletions: int = 0
    members: int = 0
    moves: int = 0
    # by kind
    not_kept: Counter[str] = field(default_factory=Counter)
    # what could not be read, or was refused
    broken: list[Broken] = field(default_factory=list)
    # kinds of jobs that are due now
    follows: set[str] = field(default_factory=set)

    def add(self, stored: Accepted) -> None:
        """Count messages."""
        self.accepted += stored.new
        self.duplicates += stored.duplicates
        self.kept_out += stored.kept_out
        self.follows.add("ingest")

    def leave_out(self, event: Skipped | Unread | Broken) -> None:
        """Count what is not kept."""
        if isinstance(event, Broken):
            self.broken.append(event)
        else:
            self.not_kept[event.reason if isinstance(event, Skipped) else event.kind] += 1


def one_chat(events: Sequence[Event]) -> tuple[ChatIn, list[MessageIn]] | None:
    """Return the chat and its messages, if events are nothing but new messages of one chat."""
    chat = events[0] if events else None
    if not isinstance(chat, ChatIn):
        return None
    messages = [
        event.message for event in events if isinstance(event, Record) and event.chat_id == chat.chat_id
    ]
    others = sum(event != chat for event in events) - len(messages)
    return (chat, messages) if messages and not others else None


def apply(
    database: Database,
    tenant_id: str,
    events: Sequence[Event],
    policy: SessionPolicy,
    *,
    limits: MessageLimits,
    trace_id: str | None = None,
) -> Applied:
    """Apply events in their order. Raises `Retryable`: those before are applied then, and the same call is harmless.

    An edit or a deletion may come before its message. What is refused, such as a time that no calendar knows, is
    returned as broken, and the others are applied.
    """
    applied = Applied()
    for chat, some in _steps(events):
        try:
            _apply(database, tenant_id, chat, some, policy, applied, limits=limits, trace_id=trace_id)
        except Permanent as error:
            where = next((event.where for event in some if not isinstance(event, ChatIn)), "chat")
            applied.broken.append(Broken(where=where, reason=str(error)))
    return applied


def _steps(events: Sequence[Event]) -> Iterator[tuple[ChatIn | None, list[Event]]]:
    """Yield events one by one, but messages of one chat that follow each other together, each step with its chat.

    A chat without messages after it is a step without events.
    """
    chat: ChatIn | None = None
    messages: list[Event] = []
    told = True
    for event in events:
        if isinstance(event, Record):
            messages.append(event)
            continue
        if event == chat:
            continue
        if messages:
            yield chat, messages
            messages, told = [], True
        if isinstance(event, ChatIn):
            if not told:
                yield chat, []
            chat, told = event, False
        else:
            yield chat, [event]
    if messages or not told:
        yield chat, messages


def _apply(
    database: Database,
    tenant_id: str,
    chat: ChatIn | None,
    events: Sequence[Event],
    policy: SessionPolicy,
    applied: Applied,
    *,
    limits: MessageLimits,
    trace_id: str | None,
) -> None:
    match events:
        case [Record() as first, *_]:
            messages = [event.message for event in events if isinstance(event, Record)]
            described = chat or ChatIn(chat_id=first.chat_id)
            applied.add(
                accept.accept(database, tenant_id, described, messages, limits=limits, trace_id=trace_id)
            )
        case [Edit() as edit]:
            given = (edit.chat_id, edit.external_id, edit.content, edit.edited_at)
            act = partial(edits.edit, database, tenant_id, *given, policy, trace_id=trace_id)
            applied.follows |= persistently(act).follows
            applied.edits += 1
        case [Deletion() as deletion]:
            named = (deletion.chat_id, deletion.external_id)
            act = partial(edits.delete, database, tenant_id, *named, policy, trace_id=trace_id)
            applied.follows |= persistently(act).follows
            applied.deletions += 1
        case [MemberChange() as change]:
            changed = (change.chat_id, change.joined, change.left, change.at)
            persistently(partial(membership.change, database, tenant_id, *changed))
            applied.members += len(change.joined) + len(change.left)
        case [NewChatId() as move]:
            persistently(partial(_describe, database, tenant_id, ChatIn(chat_id=move.chat_id)))
            start = partial(chat_moves.start, database, tenant_id, move.chat_id, move.to, trace_id=trace_id)
            persistently(start)
            applied.follows.add("forget")
            applied.moves += 1
        case [Skipped() | Unread() | Broken() as left_out]:
            applied.leave_out(left_out)
        case []:
            if chat is not None:
                persistently(partial(_describe, database, tenant_id, chat))


def _describe(database: Database, tenant_id: str, chat: ChatIn) -> None:
    """Store what is said of a chat, unless it has another id now, or is a person's and nothing was said in it."""
    with database.tenant(tenant_id) as connection:
        stored = chats.get(connection, chat.chat_id)
        if (stored is None and chat.kind != "direct") or (stored is not None and stored.moved_to is None):
            chats.ensure(connection, tenant_id, chat)
