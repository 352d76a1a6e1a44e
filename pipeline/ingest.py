"""Accept messages, once and for good; then place them into their chat's sessions.

Accepting is one short transaction: the messages, the note that they have arrived, and the work that is owed.
Placing reads what has arrived, asks the pure function what changes, and writes ranges, never messages.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

from sqlalchemy import Connection

from pipeline import ledger, quarantine, sessionize, tombstones
from pipeline.fence import without_recalled
from pipeline.ledger import Claim
from pipeline.store import changes, chats, counters, messages, sessions, vectors, work
from pipeline.store import tombstones as stones
from pipeline.store.chats import Chat
from pipeline.store.database import Database
from pipeline.store.messages import Arrival
from pipeline.tokens import estimate as estimate_tokens
from schemas.messages import ChatIn, MessageIn
from schemas.sessions import Session, Stamp
from schemas.settings import Settings

ARRIVALS_AT_ONCE = 2000
"""Messages placed in one transaction: some 0.5 s, well under any lease."""

FOREVER = (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What became of messages that were handed over."""

    # stored now
    new: int
    # already there by their platform's id; nothing was done
    duplicates: int
    # forgotten, or of somebody who is not to be remembered; nothing was done
    kept_out: int = 0


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How sessions are cut and when they are summarized."""

    # between two messages of a session, at most
    gap: timedelta
    # the same for sessions that an agent named
    ttl: timedelta
    # a closed session's summary waits so long for late messages
    debounce_seconds: float
    # an open session is summarized every so many messages or tokens
    rolling_messages: int
    rolling_tokens: int
    # with memory off the messages are kept, and nothing is made of them
    memory: bool
    summaries: bool

    @classmethod
    def of(cls, settings: Settings) -> "Rules":
        """The rules that the settings ask for."""
        return cls(
            gap=timedelta(minutes=settings.session_gap_minutes),
            ttl=timedelta(minutes=settings.memory_session_ttl_minutes),
            debounce_seconds=settings.summarize_debounce_seconds,
            rolling_messages=settings.session_rolling_messages,
            rolling_tokens=settings.session_rolling_tokens,
            memory=settings.session_memory_enabled,
            summaries=settings.session_summarization_enabled,
        )

    def for_chat(self, chat: Chat) -> "Rules":
        """The rules for one chat, which may have its memory off."""
        return self if chat.memory else replace(self, memory=False)

    def gap_of(self, session_key: str) -> timedelta:
        """The longest pause inside a session of this key."""
        return self.ttl if session_key else self.gap


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

    `settle` says that they belong to a history being imported, whose summaries may wait that long.
    Raises `DatabaseUnavailable`; then nothing was stored and the same call may be made again.
    """
    # One message of each id: which of two in one call wins must not depend on the database.
    unique = {message.external_id: _without_recalled(message) for message in given}
    with database.tenant(tenant_id) as connection:
        stones.lock(connection, tenant_id)
        admitted = tombstones.admit(connection, chat.chat_id, list(unique.values()))
        if admitted.kept_out:
            changes.drop_pending(connection, chat.chat_id, admitted.kept_out)
        if not admitted.messages:
            return Accepted(new=0, duplicates=0, kept_out=len(given))
        sized = [(message, estimate_tokens(message.content)) for message in admitted.messages]
        stored = chats.ensure(connection, tenant_id, chat)
        if settle is not None:
            chats.settle(connection, chat.chat_id, settle)
        new = messages.insert(connection, tenant_id, chat.chat_id, stored.language, sized)
        changes.apply_pending(connection, chat.chat_id, [m.external_id for m in admitted.messages])
        closing = [
            (m.session_key, m.sent_at) for m in admitted.messages if m.closes_session and m.session_key
        ]
        sessions.add_closes(connection, tenant_id, chat.chat_id, closing)
        if new or closing:
            counters.add(connection, tenant_id, {"messages_accepted": new})
            work.raise_wanted(connection, tenant_id, "ingest", [chat.chat_id], trace_id=trace_id)
    out = len(admitted.kept_out)
    return Accepted(new=new, duplicates=len(given) - new - out, kept_out=out)


def _without_recalled(message: MessageIn) -> MessageIn:
    """The message without what a context had recalled: that is remembered already."""
    content = without_recalled(message.content)
    return message if content == message.content else message.model_copy(update={"content": content})


def placer(database: Database, rules: Rules) -> ledger.Handler:
    """The handler of `ingest` work: each claim is a chat whose arrivals are placed."""

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        follows: set[str] = set()
        for claim in claims:
            with database.tenant(tenant_id) as connection:
                finish = _finisher(connection, claim)
                follows |= place(
                    connection,
                    tenant_id,
                    claim.key,
                    rules,
                    finish,
                    trace_id=claim.trace_id,
                    failed_before=claim.attempts > 1,
                )
        return follows

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
) -> set[str]:
    """Place what has arrived in a chat; returns the kinds of work that are owed now.

    Calls `finish(again)` as the last statement; `again` says that more has arrived than one turn takes. What
    is owed carries on the `trace_id` of the request that brought the messages, of several the last one's.
    When it has `failed_before`, single arrivals that cannot be placed stand aside, and the others are placed.
    """
    chat = chats.lock(connection, chat_id)
    if chat is None:
        finish(False)
        return set()
    rules = rules.for_chat(chat)
    waiting = messages.arrivals(connection, chat_id, ARRIVALS_AT_ONCE)

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
            split_anew(connection, tenant_id, session, chat.language, rules)

    follows: set[str] = set()
    embedded = [f"message:{a.message_id}" for a in arrived if a.has_text] if rules.memory else []
    work.raise_wanted(connection, tenant_id, "embed", embedded, trace_id=trace_id)
    if embedded:
        follows.add("embed")
    if close_sessions(connection, tenant_id, chat_id, rules, trace_id=trace_id):
        follows.add("summarize")
    finish(len(waiting) == ARRIVALS_AT_ONCE)
    return follows


def _session_key(arrival: Arrival) -> str:
    return arrival.session_key


def close_sessions(
    connection: Connection, tenant_id: str, chat_id: str, rules: Rules, *, trace_id: str | None = None
) -> int:
    """Close what has come to its end in a chat and owe the summaries that follow; how many sessions those are."""
    closed = sessions.close_ended(connection, chat_id, rules.gap, rules.ttl)
    due = [session.id for session in closed]
    due += sessions.wanting_rollup(connection, chat_id, rules.rolling_messages, rules.rolling_tokens)
    counters.add(connection, tenant_id, {"sessions_closed": len(closed)})
    if not (due and rules.memory and rules.summaries):
        return 0
    delay = max(rules.debounce_seconds, chats.settling_seconds(connection, chat_id))
    keys = [f"session:{key}" for key in due]
    work.raise_wanted(connection, tenant_id, "summarize", keys, delay_seconds=delay, trace_id=trace_id)
    return len(due)


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
        survivor, brought, brought_tokens = _join(connection, tenant_id, placement.sessions)
        grown = sessions.Shape(
            started_at=placement.started_at,
            ended_at=placement.ended_at,
            message_count=len(here) + brought,
            token_count=tokens + brought_tokens,
            participants=sorted(speakers.union(*(session.participants for session in placement.sessions))),
        )
        sessions.grow(connection, survivor, grown)
    counters.add(connection, tenant_id, {"sessions_opened": opened})


def _join(connection: Connection, tenant_id: str, joined: Sequence[Session]) -> tuple[int, int, int]:
    """Unite sessions in the one with the lowest id: `(its id, messages, tokens that the others bring)`."""
    survivor = min(session.id for session in joined)
    losers = sorted(session.id for session in joined if session.id != survivor)
    if not losers:
        return survivor, 0, 0
    brought, tokens = sessions.merge(connection, survivor, losers)
    vectors.drop_sessions(connection, losers)
    keys = [f"session:{loser}" for loser in losers]
    work.drop(connection, tenant_id, "embed", keys)
    work.drop(connection, tenant_id, "summarize", keys)
    return survivor, brought, tokens


def split_anew(connection: Connection, tenant_id: str, session: Session, language: str, rules: Rules) -> None:
    """Cut a stored session again from its messages, after a close marker or a deletion inside it.

    The earliest part keeps the id; a session that nothing is left of goes.
    """
    chat_id, key = session.chat_id, session.session_key
    closes = sessions.closes(connection, chat_id, key) if key else []
    rows = messages.stamps(connection, chat_id, key, session.started_at, session.ended_at)
    parts = sessionize.split((row[0] for row in rows), rules.gap_of(key), closes)
    if not parts:
        changes.drop_session(connection, tenant_id, session.id)
        return
    matches = sessionize.match([session], parts)
    _rewrite(connection, tenant_id, chat_id, key, language, matches, rows)


def sessionize_anew(connection: Connection, tenant_id: str, chat_id: str, rules: Rules) -> None:
    """Cut a chat's sessions again, after the gap has changed; what is the same already is left alone."""
    chat = chats.lock(connection, chat_id)
    if chat is None:
        return
    rules = rules.for_chat(chat)
    if not rules.memory:
        return
    for key in sessions.keys(connection, chat_id):
        rows = messages.stamps(connection, chat_id, key, *FOREVER)
        closes = sessions.closes(connection, chat_id, key) if key else []
        parts = sessionize.split((row[0] for row in rows), rules.gap_of(key), closes)
        stored = sessions.near(connection, chat_id, key, *FOREVER, timedelta())
        # what retention has taken messages from stays as it is
        stored, parts = sessionize.remembered(stored, parts)
        if parts:
            _rewrite(
                connection, tenant_id, chat_id, key, chat.language, sessionize.match(stored, parts), rows
            )
    close_sessions(connection, tenant_id, chat_id, rules)


def _rewrite(
    connection: Connection,
    tenant_id: str,
    chat_id: str,
    session_key: str,
    language: str,
    matches: Sequence[sessionize.Match],
    rows: Sequence[tuple[Stamp, str, int]],
) -> None:
    """Write the ranges that differ from what is stored: joined ones first, so that no two begin alike."""
    times = [stamp.sent_at for stamp, _, _ in rows]
    fresh: list[sessions.Shape] = []
    for match in matches:
        inside = rows[bisect_left(times, match.range.started_at) : bisect_right(times, match.range.ended_at)]
        shape = sessions.Shape(
            started_at=match.range.started_at,
            ended_at=match.range.ended_at,
            message_count=match.range.count,
            token_count=sum(tokens for _, _, tokens in inside),
            participants=sorted({speaker for _, speaker, _ in inside}),
        )
        if match.session is None:
            fresh.append(shape)
            continue
        if match.merged:
            _join(connection, tenant_id, [match.session, *match.merged])
        if match.merged or not _has_shape(match.session, shape):
            sessions.reshape(connection, match.session.id, shape)
    for shape in fresh:
        sessions.insert(connection, tenant_id, chat_id, session_key, language, shape)
    counters.add(connection, tenant_id, {"sessions_opened": len(fresh)})


def _has_shape(session: Session, shape: sessions.Shape) -> bool:
    return (session.started_at, session.ended_at, session.message_count) == (
        shape.started_at,
        shape.ended_at,
        shape.message_count,
    )
