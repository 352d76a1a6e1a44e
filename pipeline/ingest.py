"""Accept messages, once and for good; then place them into their chat's sessions.

Accepting is one short transaction: the messages, the note that they have arrived, and the work that is owed.
Placing reads what has arrived, asks the pure function what changes, and writes ranges, never messages.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import groupby

from sqlalchemy import Connection

from pipeline import ledger, quarantine, ranges, sessionize, suspects, tombstones
from pipeline.fence import without_recalled
from pipeline.ledger import Claim
from pipeline.retry import persistently
from pipeline.rules import Rules
from pipeline.store import accepting, changes, chats, counters, members, messages, sessions, work
from pipeline.store.database import Database
from pipeline.store.messages import Arrival
from pipeline.tokens import estimate as estimate_tokens
from schemas.messages import ChatIn, MessageIn

ARRIVALS_AT_ONCE = 500
"""Messages placed in one transaction: some 0.1 s, for which other chats and tenants wait."""


SLICE_MESSAGES, SLICE_BYTES = 250, 256 * 1024
"""Messages accepted in one transaction, and the bytes of their texts: some 0.1 s."""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What became of messages that were handed over."""

    # stored now
    new: int
    # already there by their platform's id; nothing was done
    duplicates: int
    # forgotten, or of somebody who is not to be remembered; nothing was done
    kept_out: int = 0


def accept(
    database: Database,
    tenant_id: str,
    chat: ChatIn,
    given: Sequence[MessageIn],
    *,
    settle: timedelta | None = None,
    trace_id: str | None = None,
) -> Accepted:
    """Store messages of one chat; when this returns they are durable and found by keyword.

    Many or large ones are stored in slices, each a transaction of its own, so that no lock is held for long.
    `settle` says that they belong to a history being imported: live messages go before them, and summaries may
    wait that long.
    Raises `Retryable`: `DatabaseUnavailable` in an outage. Slices before it are stored then, and the same call may
    be made again: what is there already is known by its id.
    """
    # One message of each id: which of two in one call wins must not depend on the database.
    unique = {message.external_id: _without_recalled(message) for message in given}
    new = out = 0
    for some in _slices(list(unique.values())):
        stored, kept_out = persistently(
            partial(_accept, database, tenant_id, chat, some, settle=settle, trace_id=trace_id)
        )
        new, out = new + stored, out + kept_out
    if out == len(unique):
        return Accepted(new=0, duplicates=0, kept_out=len(given))
    return Accepted(new=new, duplicates=len(given) - new - out, kept_out=out)


def _slices(messages: Sequence[MessageIn]) -> Iterator[list[MessageIn]]:
    """The messages in order, in parts that are stored within some 0.1 s; one message is a part at least."""
    some: list[MessageIn] = []
    size = 0
    for message in messages:
        bytes_more = len(message.content.encode())
        if some and (len(some) == SLICE_MESSAGES or size + bytes_more > SLICE_BYTES):
            yield some
            some, size = [], 0
        some.append(message)
        size += bytes_more
    if some:
        yield some


def _accept(
    database: Database,
    tenant_id: str,
    chat: ChatIn,
    given: Sequence[MessageIn],
    *,
    settle: timedelta | None,
    trace_id: str | None,
) -> tuple[int, int]:
    """Store a slice in one transaction; `(new, kept out)`."""
    priority = work.LIVE if settle is None else work.LATER
    with database.undecided() as connection:
        key, stored = accepting.begin(connection, tenant_id, chat.chat_id)
        admitted = tombstones.admit(connection, key, chat.chat_id, given)
        if admitted.kept_out:
            changes.drop_pending(connection, chat.chat_id, admitted.kept_out)
        if admitted.unnamed:
            members.note_unknown(connection, tenant_id, chat.chat_id)
        if not admitted.messages:
            return 0, len(admitted.kept_out)
        if stored is None or not chats.is_as_said(stored, chat):
            made = chats.ensure(connection, tenant_id, chat)
            stored = accepting.hold(connection, chat.chat_id) or made
        if settle is not None:
            chats.settle(connection, chat.chat_id, settle)
        closing = [
            (m.session_key, m.sent_at) for m in admitted.messages if m.closes_session and m.session_key
        ]
        if closing:
            sessions.add_closes(connection, tenant_id, chat.chat_id, closing)
        sized = [(message, estimate_tokens(message.content)) for message in admitted.messages]
        new = accepting.put(
            connection,
            tenant_id,
            stored,
            sized,
            closing=bool(closing),
            priority=priority,
            trace_id=trace_id,
        )
    return new, len(admitted.kept_out)


def _without_recalled(message: MessageIn) -> MessageIn:
    """The message without what a context had recalled: that is remembered already."""
    content = without_recalled(message.content)
    return message if content == message.content else message.model_copy(update={"content": content})


def placer(database: Database, rules: Rules, max_attempts: int = 5) -> ledger.Handler:
    """The handler of `ingest` work: each claim is a chat whose arrivals are placed.

    After a process died placing them they are placed one by one, and one that killed `max_attempts` processes
    stands aside.
    """

    def alone(tenant_id: str, claim: Claim) -> suspects.Put:
        return lambda connection, arrival: place(
            connection,
            tenant_id,
            claim.key,
            rules,
            lambda _again: None,
            trace_id=claim.trace_id,
            failed_before=True,
            only=arrival.message_id,
        )

    def handle(tenant_id: str, claims: Sequence[Claim]) -> Iterator[str]:
        for claim in claims:
            if claim.abandoned:
                put = alone(tenant_id, claim)
                follows, all_tried = suspects.place_each(database, tenant_id, claim, max_attempts, put)
                yield from follows
                if not all_tried:
                    continue
            with database.tenant(tenant_id) as connection:
                finish = _finisher(connection, claim)
                follows = place(
                    connection,
                    tenant_id,
                    claim.key,
                    rules,
                    finish,
                    trace_id=claim.trace_id,
                    failed_before=claim.attempts > 1,
                )
            yield from follows

    return handle


def _finisher(connection: Connection, claim: Claim) -> Callable[[bool], None]:
    return lambda again: ledger.finish(connection, [claim], again_in=0 if again else None)


def place(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    rules: Rules,
    finish: Callable[[bool], None],
    *,
    trace_id: str | None = None,
    failed_before: bool = False,
    only: int | None = None,
) -> set[str]:
    """Place what has arrived in a chat, or `only` this message; returns the kinds of work that are owed now.

    Calls `finish(again)` as the last statement; `again` says that more has arrived than one turn takes. What
    is owed carries on the `trace_id` of the request that brought the messages, of several the last one's.
    When it has `failed_before`, single arrivals that cannot be placed stand aside, and the others are placed.
    """
    chat = chats.lock(connection, chat_id)
    if chat is None:
        finish(False)
        return set()
    rules = rules.for_chat(chat)
    waiting = messages.arrivals(connection, chat_id, ARRIVALS_AT_ONCE, only)

    def put(some: Sequence[Arrival]) -> None:
        for session_key, group in groupby(sorted(some, key=_session_key), _session_key):
            _place_key(connection, tenant_id, chat_id, session_key, chat.language, list(group), rules)

    arrived: Sequence[Arrival] = waiting
    if rules.memory and failed_before:
        arrived = quarantine.place_around(connection, chat_id, waiting, put, trace_id=trace_id)
        counters.add(connection, tenant_id, {"messages_quarantined": len(waiting) - len(arrived)})
    elif rules.memory:
        put(waiting)
    chats.count_placed(connection, chat_id, len(arrived), sum(a.lexeme_count for a in arrived))
    messages.forget_arrivals(connection, chat_id, [a.message_id for a in arrived])
    if rules.memory:
        for session in sessions.newly_cut(connection, chat_id):
            ranges.split_anew(connection, tenant_id, session, chat.language, rules)

    follows: set[str] = set()
    embedded = [f"message:{a.message_id}" for a in arrived if a.has_text] if rules.memory else []
    work.raise_wanted(connection, tenant_id, "embed", embedded, trace_id=trace_id)
    if embedded:
        follows.add("embed")
    if ranges.close_sessions(connection, tenant_id, chat_id, rules, trace_id=trace_id):
        follows.add("summarize")
    finish(len(waiting) == ARRIVALS_AT_ONCE)
    return follows


def _session_key(arrival: Arrival) -> str:
    return arrival.session_key


def _place_key(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    session_key: str,
    language: str,
    arrived: Sequence[Arrival],
    rules: Rules,
) -> None:
    """Extend, join or begin the sessions of one key that the arrivals belong to."""
    gap = rules.gap_of(session_key)
    times = [arrival.sent_at for arrival in arrived]
    stored = sessions.near(connection, chat_id, session_key, min(times), max(times), gap)
    closes = sessions.closes(connection, chat_id, session_key) if session_key else []
    opened = 0
    for placement in sessionize.place(stored, times, gap, closes):
        here = [arrived[index] for index in placement.arrivals]
        tokens = sum(arrival.token_count for arrival in here)
        speakers = {arrival.speaker for arrival in here}
        if not placement.sessions:
            shape = sessions.Shape(
                started_at=placement.started_at,
                ended_at=placement.ended_at,
                message_count=len(here),
                token_count=tokens,
                participants=sorted(speakers),
            )
            sessions.insert(connection, tenant_id, chat_id, session_key, language, shape)
            opened += 1
            continue
        survivor, brought, brought_tokens = ranges.join(connection, tenant_id, placement.sessions)
        grown = sessions.Shape(
            started_at=placement.started_at,
            ended_at=placement.ended_at,
            message_count=len(here) + brought,
            token_count=tokens + brought_tokens,
            participants=sorted(speakers.union(*(session.participants for session in placement.sessions))),
        )
        sessions.grow(connection, survivor, grown)
    counters.add(connection, tenant_id, {"sessions_opened": opened})
