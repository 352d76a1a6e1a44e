"""Accept messages durably, each once; keyword search finds them from then on; count what is left out.

One short transaction stores the messages, records their arrival, and enqueues the job that places them (`place`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from pipeline.ingest import chat_moves, numbers
from pipeline.people import suppression
from pipeline.platforms.records import NO_TEXT, OTHER_CHAT, Broken, Skipped, Unread
from pipeline.store.chats import chat_moves as store_moves
from pipeline.store.chats import chats, membership
from pipeline.store.chats.chats import Chat
from pipeline.store.connections import transactions
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import batched, persistently
from pipeline.store.connections.trips import Statement
from pipeline.store.jobs import jobs
from pipeline.store.messages import accepting, edits
from pipeline.store.messages.accepting import Sent
from pipeline.store.operations import counters
from pipeline.store.sessions import session_rows
from pipeline.text import display, truncate
from pipeline.text.fencing import without_recalled
from pipeline.text.tokens import estimate as estimate_tokens
from schemas.base import is_cut
from schemas.bots import PLATFORMS, REASONS, Reason, platform_of
from schemas.messages import (
    CUT,
    MAX_CONTENT_BYTES,
    MAX_NAME_CHARS,
    ORIGINAL_BYTES,
    ChatIn,
    MessageIn,
    clean_text,
)
from schemas.sessions import key_of
from schemas.settings import Settings

RECENT = timedelta(days=1)
"""Younger messages count as new: retention is by days, and live messages keep their fast path."""


@dataclass(frozen=True, kw_only=True)
class MessageLimits:
    """Limits of the messages that retention keeps; None: no limit."""

    # the oldest, by the sender's time
    age: timedelta | None = None
    # the newest messages of each chat
    per_chat: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> "MessageLimits":
        age = timedelta(days=settings.retention_days) if settings.retention_days else None
        return cls(age=age, per_chat=settings.retention_messages_per_chat)

    def may_concern(self, messages: Sequence[MessageIn]) -> bool:
        """Tell whether any of these may have been pruned."""
        if self.age is None and self.per_chat is None:
            return False
        until = datetime.now(UTC) - RECENT
        return any(message.sent_at < until for message in messages)

    def came_again(self, connection: Connection, chat_id: str, messages: Sequence[MessageIn]) -> set[str]:
        """Return the ids of messages that would be pruned, inside sessions that have lost messages already."""
        if not self.may_concern(messages):
            return set()
        sent = [Sent(m.external_id, key_of(m.session_key, m.thread), m.sent_at) for m in messages]
        return accepting.find_pruned(connection, chat_id, sent, age=self.age, per_chat=self.per_chat)


UNLIMITED = MessageLimits()


SLICE_MESSAGES, SLICE_BYTES = 250, 256 * 1024
"""Messages accepted in one transaction, and bytes of their texts: about 0.1 s."""


@dataclass(frozen=True, kw_only=True)
class _How:
    """How messages are stored; see `accept`."""

    # tokens of each text
    sizes: Mapping[str, int]
    settle: timedelta | None
    limits: MessageLimits
    trace_id: str | None


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """How many messages were stored, and how many not."""

    new: int
    # already stored under their platform's id
    duplicates: int
    # forgotten, pruned, or sent by somebody whose memory is off
    kept_out: int = 0
    # among the new ones, those with a text or metadata that had to be cut
    cut: int = 0


def accept(
    database: Database,
    tenant_id: str,
    chat: ChatIn,
    messages: Sequence[MessageIn],
    *,
    settle: timedelta | None = None,
    limits: MessageLimits = UNLIMITED,
    trace_id: str | None = None,
) -> Accepted:
    """Store messages of one chat in slices, each in its own transaction.

    `settle` marks an imported history: live messages go first, and summaries may wait that long. Messages that
    `limits` have pruned stay out. Raises `Retryable` (`DatabaseUnavailable` in an outage): earlier slices stay stored,
    and the call may be repeated.
    """
    unique = _unique(messages)
    new = out = 0
    for batch in batched(unique.values(), SLICE_MESSAGES, SLICE_BYTES, lambda m: len(m.content.encode())):
        how = _How(sizes=_sizes(batch), settle=settle, limits=limits, trace_id=trace_id)
        stored, kept_out = persistently(partial(_accept, database, tenant_id, chat, batch, how))
        new, out = new + stored, out + kept_out
    if out == len(unique):
        return Accepted(new=0, duplicates=0, kept_out=len(messages))
    cut = min(new, sum(map(_is_cut, unique.values())))
    return Accepted(new=new, duplicates=len(messages) - new - out, kept_out=out, cut=cut)


def _is_cut(message: MessageIn) -> bool:
    return not CUT.isdisjoint(message.metadata) or is_cut(message.sender_name, MAX_NAME_CHARS)


async def try_accept(
    database: Database,
    tenant_id: str,
    chat: ChatIn,
    received: Sequence[MessageIn],
    *,
    limits: MessageLimits = UNLIMITED,
    trace_id: str | None,
) -> Accepted | None:
    """Store a few small live messages as `accept` does, from the event loop; None if `accept` must store them."""
    # what may be cut takes a thread
    if any(4 * len(message.content) > MAX_CONTENT_BYTES or _is_cut(message) for message in received):
        return None
    unique = _unique(received)
    if any(message.closes_session for message in unique.values()) or limits.may_concern(received):
        return None
    messages = list(unique.values())
    statements = _at_once(database, tenant_id, chat, messages, _sizes(messages), trace_id)
    new, stored = await database.try_trip(statements) or (0, False)
    return Accepted(new=int(new), duplicates=len(received) - int(new)) if stored else None


def _at_once(
    database: Database,
    tenant_id: str,
    chat: ChatIn,
    live: Sequence[MessageIn],
    sizes: Mapping[str, int],
    trace_id: str | None,
) -> list[Statement]:
    """Return the statements that store live messages in one trip, if none of them is suppressed."""
    key = _keys.get(tenant_id)
    return accepting.put_at_once(
        tenant_id,
        chat,
        [(message, sizes[message.content]) for message in live],
        key=key,
        hashes=suppression.hashes_of(key, chat.chat_id, live),
        priority=jobs.LIVE,
        trace_id=trace_id,
        only_chats=database.only_chats,
    )


def _accept(
    database: Database, tenant_id: str, chat: ChatIn, messages: Sequence[MessageIn], how: _How
) -> tuple[int, int]:
    """Store a slice in one transaction; return `(new, kept out)`."""
    closes = any(message.closes_session for message in messages)
    if how.settle is None and not closes and not how.limits.may_concern(messages):
        trip = _at_once(database, tenant_id, chat, messages, how.sizes, how.trace_id)
        new, stored = database.one_trip(trip, keeps_ready=True) or (0, False)
        if stored:
            return int(new), 0
    return _accept_step_by_step(database, tenant_id, chat, messages, how)


# The suppression keys last read, by tenant; Postgres compares them, which saves reading the key each time.
_keys: dict[str, bytes] = {}


def _accept_step_by_step(
    database: Database,
    tenant_id: str,
    chat: ChatIn,
    received: Sequence[MessageIn],
    how: _How,
    *,
    by_owner: bool = False,
) -> tuple[int, int]:
    """Store a slice that one trip cannot: imported, partly kept out, or of a new or moved chat; return as `_accept`.

    What was said under a number that somebody else has now is stored `by_owner`, each with its present chat.
    """
    with database.undecided() as connection:
        key, stored = accepting.begin(connection, tenant_id, chat.chat_id, database.only_chats)
        if key is None:
            _keys.pop(tenant_id, None)
        else:
            _keys[tenant_id] = key
        owned = None if by_owner else numbers.by_owner(connection, key, chat.chat_id, received)
        if owned is None:
            held = _Held(connection, database.only_chats, key, stored)
            return _put_step_by_step(held, tenant_id, chat, received, how)
    new, out = 0, owned.kept_out
    for chat_id, messages in owned.parts.items():
        part = chat.model_copy(update={"chat_id": chat_id})
        if chat_id != chat.chat_id and database.only_chats and chat_id not in json.loads(database.only_chats):
            out += len(messages)
            continue
        stored_now, kept_out = _accept_step_by_step(database, tenant_id, part, messages, how, by_owner=True)
        new, out = new + stored_now, out + kept_out
    return new, out


@dataclass(frozen=True)
class _Held:
    """A chat that messages are stored in, held against forgetting in this transaction."""

    connection: Connection
    only_chats: str
    key: bytes | None
    stored: Chat | None


def _put_step_by_step(
    held: _Held, tenant_id: str, chat: ChatIn, received: Sequence[MessageIn], how: _How
) -> tuple[int, int]:
    """Store those of these messages that may be; return as `_accept`."""
    connection, key, stored = held.connection, held.key, held.stored
    out, unnamed = 0, False
    if stored is not None and stored.moved_to is not None:
        before = chat_moves.admit(connection, key, chat.chat_id, stored.moved_to, received)
        received, out, unnamed = before.messages, len(before.kept_out), before.unnamed
        # a description sent under the former id does not describe the present chat
        chat = ChatIn(chat_id=stored.moved_to)
        key, stored = accepting.begin(connection, tenant_id, chat.chat_id, held.only_chats)
    former = [] if key is None else store_moves.former(connection, chat.chat_id)
    admitted = suppression.admit(connection, key, chat.chat_id, received, former=former)
    pruned = how.limits.came_again(connection, chat.chat_id, admitted.messages)
    kept_out = [*admitted.kept_out, *pruned]
    if kept_out:
        edits.drop_pending(connection, chat.chat_id, kept_out)
    out += len(kept_out)
    messages = [message for message in admitted.messages if message.external_id not in pruned]
    unnamed |= admitted.unnamed
    # the id of a direct chat is theirs with whom it is
    latest = max((message.sent_at for message in received), default=None)
    is_kept = messages or (
        unnamed
        and chat.kind != "direct"
        and not suppression.is_kept_out(connection, latest, ("chat", chat.chat_id))
    )
    if is_kept and (stored is None or not chats.is_as_described(stored, chat)):
        chats.ensure(connection, tenant_id, chat)
        accepting.hold(connection, chat.chat_id)
    if unnamed:
        # in a chat that is new, too: somebody listens there whom nobody knows
        membership.note_unknown(connection, tenant_id, chat.chat_id)
    if not messages:
        return 0, out
    if how.settle is not None:
        chats.settle(connection, chat.chat_id, how.settle)
    closing = [(m.session_key, m.sent_at) for m in messages if m.closes_session and m.session_key]
    if closing:
        session_rows.add_closes(connection, tenant_id, chat.chat_id, closing)
    new = accepting.put(
        connection,
        tenant_id,
        chat.chat_id,
        [(message, how.sizes[message.content]) for message in messages],
        closing=bool(closing),
        priority=jobs.LIVE if how.settle is None else jobs.LATER,
        trace_id=how.trace_id,
    )
    return new, out


def _unique(messages: Sequence[MessageIn]) -> dict[str, MessageIn]:
    """Return one message for each id: which duplicate wins must not depend on the database."""
    return {message.external_id: _as_stored(message) for message in messages}


def _sizes(messages: Sequence[MessageIn]) -> dict[str, int]:
    """Estimate the tokens of each text; call it before a transaction begins, which would stay open meanwhile."""
    return {message.content: estimate_tokens(message.content) for message in messages}


def _as_stored(message: MessageIn) -> MessageIn:
    """Remove recalled context, which is stored already; a turn without text gets its tool calls as text. Cut it."""
    content = without_recalled(message.content)
    if not content.strip():
        content = clean_text(display.call_lines(message.metadata)) or content
    content, original_bytes = truncate.within_bytes(content, MAX_CONTENT_BYTES)
    if content == message.content:
        return message
    marked = {} if original_bytes is None else {ORIGINAL_BYTES: original_bytes}
    return message.model_copy(update={"content": content, "metadata": message.metadata | marked})


Items = Mapping[Reason, int] | Mapping[str, int]
"""Numbers of items by reason, or by the platform's name of their kind."""
_REASONS: dict[str, Reason] = {NO_TEXT: "no_text", OTHER_CHAT: "not_allowed"}


def reason_of(item: Broken | Skipped | Unread) -> Reason:
    """Return why an item is left out, or all of it but its text."""
    if isinstance(item, Unread):
        return "unread" if item.known else "unknown_kind"
    return "unreadable" if isinstance(item, Broken) else _REASONS.get(item.reason, "kind")


def report_left_out(database: Database, tenant_id: str, source: str, reasons: Items, kinds: Items) -> None:
    """Add what was left out to the day's counters and to the log; `source` is a platform's name, or a chat's id.

    Of `kinds` only those are logged that are names, not words. Raises `DatabaseUnavailable`.
    """
    platform = platform_of(source)
    if found := {reason: items for reason, items in reasons.items() if items}:
        named = {kind: n for kind, n in kinds.items() if re.fullmatch(r"[\w.-]+", kind, re.ASCII)}
        with database.tenant(tenant_id) as connection:
            chats.ensure_tenant(connection, tenant_id)
            counters.add(connection, tenant_id, {f"left_out:{platform}:{r}": n for r, n in found.items()})
            told = {"tenant": tenant_id, "platform": platform, "reasons": found, "kinds": named or None}
            transactions.log_once_committed(connection, "left_out", **told)


def left_out_counts(figures: Mapping[str, float]) -> dict[tuple[str, str], int]:
    """Pick what was left out from daily counters, by platform and reason."""
    return {(p, r): int(figures.get(f"left_out:{p}:{r}", 0)) for p in PLATFORMS for r in REASONS}
