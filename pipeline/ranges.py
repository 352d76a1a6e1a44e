"""Write sessions as ranges of messages: join them, cut them again, close what has ended."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from pipeline import sessionize
from pipeline.rules import Rules
from pipeline.store import changes, chats, counters, messages, sessions, summaries, vectors, work
from schemas.sessions import Session, Stamp

# Every time that a message may have.
FOREVER = (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))


def close_sessions(
    connection: Connection, tenant_id: str, chat_id: str, rules: Rules, *, trace_id: str | None = None
) -> int:
    """Close what has come to its end in a chat and owe the summaries that follow; how many sessions those are."""
    closed = sessions.close_ended(connection, chat_id, rules.gap, rules.ttl)
    due = [session.id for session in closed]
    due += summaries.wanting_rollup(connection, chat_id, rules.rolling_messages, rules.rolling_tokens)
    counters.add(connection, tenant_id, {"sessions_closed": len(closed)})
    if not (due and rules.memory and rules.summaries):
        return 0
    delay = max(rules.debounce_seconds, chats.settling_seconds(connection, chat_id))
    keys = [f"session:{key}" for key in due]
    work.raise_wanted(connection, tenant_id, "summarize", keys, delay_seconds=delay, trace_id=trace_id)
    return len(due)


def join(connection: Connection, tenant_id: str, joined: Sequence[Session]) -> tuple[int, int, int]:
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
            join(connection, tenant_id, [match.session, *match.merged])
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
