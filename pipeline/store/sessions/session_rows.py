"""SQL of sessions: their ends, the markers that close them, their summaries, and how contexts show them."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import arrays, column, run
from schemas.sessions import THREAD, Session, Summary

COLUMNS = "id, chat_id, session_key, started_at, ended_at, message_count, participants, status, revision"
# Between equal sessions: what an export carries, as their ids are others wherever the chat is imported.
LAST_BEGUN_FIRST = 'started_at DESC, session_key COLLATE "C"'

IN_SESSIONS = """messages m CROSS JOIN LATERAL (
        SELECT s.id, s.ended_at FROM conversation_sessions s
        WHERE s.chat_id = m.chat_id AND s.session_key = m.session_key AND s.status <> 'merged'
            AND s.started_at <= m.sent_at
        ORDER BY s.started_at DESC LIMIT 1) session
    WHERE session.ended_at >= m.sent_at"""
"""SQL of messages with their sessions: those of a key do not overlap, so the last one that began by then."""
# The opposite of `schemas.sessions.is_named`.
_UNNAMED = f"(session_key = '' OR starts_with(session_key, '{THREAD}'))"
# A session is closed when another of its key came after it, when a marker says so, or when it has been quiet
# for longer than the gap.
_CLOSE = text(f"""
    UPDATE conversation_sessions SET status = 'closed' WHERE id = ANY (ARRAY(
        SELECT s.id FROM conversation_sessions s
        WHERE s.chat_id = ANY(:chats) AND s.status = 'open' AND (
            s.ended_at < now() - CASE WHEN {_UNNAMED}
                THEN CAST(:gap AS interval) ELSE CAST(:ttl AS interval) END
            OR EXISTS (SELECT 1 FROM conversation_sessions later WHERE later.chat_id = s.chat_id
                AND later.session_key = s.session_key AND later.status <> 'merged'
                AND later.started_at > s.ended_at)
            OR (s.session_key <> '' AND EXISTS (SELECT 1 FROM session_closes c WHERE c.chat_id = s.chat_id
                AND c.session_key = s.session_key AND c.closed_at >= s.ended_at)))
        ORDER BY s.id FOR NO KEY UPDATE))
    RETURNING {COLUMNS}
""")
_IDLE_CHATS = text(f"""
    SELECT DISTINCT tenant_id, chat_id FROM (
        SELECT tenant_id, chat_id FROM conversation_sessions
        WHERE status = 'open' AND ended_at < now() - CASE WHEN {_UNNAMED}
            THEN CAST(:gap AS interval) ELSE CAST(:ttl AS interval) END
        ORDER BY ended_at LIMIT :limit) idle
""")
_ADD_CLOSES = text("""
    INSERT INTO session_closes (tenant_id, chat_id, session_key, closed_at)
    VALUES (:tenant, :chat, :key, :at) ON CONFLICT DO NOTHING
""")
_KEYS = text("SELECT DISTINCT session_key FROM messages WHERE chat_id = :chat ORDER BY session_key")
_NEWLY_CUT = text(f"""
    WITH fresh AS (
        UPDATE session_closes SET seen = true WHERE chat_id = ANY(:chats) AND NOT seen
        RETURNING chat_id, session_key, closed_at
    )
    SELECT {COLUMNS} FROM conversation_sessions WHERE id = ANY (ARRAY(
        SELECT around.id FROM fresh CROSS JOIN LATERAL (
            SELECT s.id, s.ended_at FROM conversation_sessions s
            WHERE s.chat_id = fresh.chat_id AND s.session_key = fresh.session_key AND s.status <> 'merged'
                AND s.started_at <= fresh.closed_at
            ORDER BY s.started_at DESC LIMIT 1) around
        WHERE fresh.closed_at < around.ended_at))
    ORDER BY id FOR NO KEY UPDATE
""")
_CLOSES = text("""
    SELECT chat_id, session_key, closed_at
    FROM unnest(CAST(:chats AS text[]), CAST(:keys AS text[])) AS place (chat_id, session_key)
        JOIN session_closes USING (chat_id, session_key)
    ORDER BY closed_at
""")
_FIND = text("""
    WITH RECURSIVE chain AS (
        SELECT id, merged_into FROM conversation_sessions WHERE id = :id
        UNION SELECT s.id, s.merged_into FROM conversation_sessions s JOIN chain ON s.id = chain.merged_into
    )
    SELECT s.* FROM conversation_sessions s JOIN chain USING (id) WHERE s.status <> 'merged'
""")
_LISTING = text("""
    SELECT id, chat_id, session_key, started_at, ended_at, message_count, participants, status, topic_tags,
        summary_text, summary_model
    FROM conversation_sessions
    WHERE status <> 'merged' AND (CAST(:chat AS text) IS NULL OR chat_id = :chat)
        AND (CAST(:status AS text) IS NULL OR status = :status)
        AND (CAST(:after AS bigint) IS NULL OR (ended_at, id) < (
            SELECT last.ended_at, last.id FROM conversation_sessions last WHERE last.id = :after))
    ORDER BY ended_at DESC, id DESC LIMIT :limit
""")
PEOPLE = """
    WITH circles AS (
        SELECT participants, min(started_at) AS began, count(*) AS sessions FROM conversation_sessions
        WHERE chat_id = :chat AND status <> 'merged' GROUP BY participants
    ), asker AS (
        -- a key for some chats learns nothing of who is linked to whom
        SELECT coalesce((SELECT user_id FROM user_senders WHERE sender_id = :asker
            AND nullif(current_setting('app.chats', true), '') IS NULL), :asker) AS person
        WHERE CAST(:asker AS text) IS NOT NULL
    ), ids AS (
        SELECT array_agg(id) AS ids FROM (
            SELECT CAST(:asker AS text) AS id UNION SELECT person FROM asker
            UNION SELECT s.sender_id FROM user_senders s JOIN asker ON s.user_id = asker.person) known
    ), called AS (
        SELECT coalesce((
            SELECT sender_name FROM (
                SELECT sender_id, sender_name, sent_at FROM messages
                WHERE chat_id = :chat ORDER BY sent_at DESC FETCH FIRST (:within) ROWS WITH TIES) newest
            WHERE sender_id = ANY((SELECT ids FROM ids)::text[]) AND sender_name <> ''
            ORDER BY sent_at DESC, sender_name LIMIT 1), asker.person) AS name FROM asker
    )
    SELECT (SELECT json_object_agg(name, json_build_array(sessions, with_asker)) FROM (
            SELECT name, sum(sessions) AS sessions,
                coalesce(sum(sessions) FILTER (WHERE (SELECT name FROM called) = ANY(participants)), 0) AS with_asker
            FROM circles, unnest(participants) AS name GROUP BY name ORDER BY name) person) AS people,
        (SELECT min(began) FROM circles) AS began,
        (SELECT name FROM called) AS asker,
        (SELECT CAST(sum(sessions) AS integer) FROM circles) AS sessions
"""
"""SQL of who spoke in `:chat`, when it began, and what to call `:asker`.

`people` maps each name to the number of sessions in which they spoke, and of those in which the asker spoke, too. The
asker is called by the newest name that they have there, under whichever id; else by the user whom the id is linked to;
else by the id.
"""
_WANTING_ROLLUP = text(f"""
    SELECT id, chat_id FROM conversation_sessions WHERE chat_id = ANY(:chats) AND status = 'open'
        AND (message_count - coalesce(summary_message_count, 0)
                >= CASE WHEN {_UNNAMED} THEN CAST(:messages AS integer) ELSE CAST(:named_messages AS integer) END
            OR token_count - coalesce(summary_token_count, 0) >= :tokens)
    ORDER BY id
""")
_SAVE = text("""
    UPDATE conversation_sessions SET summary_text = :summary, topic_tags = :topics, decisions = :decisions,
        open_questions = :open_questions, action_items = :action_items, entities = :entities,
        search_text = :search_text, summary_model = :model, summary_version = :version,
        summary_revision = :revision, summary_message_count = :message_count,
        summary_token_count = :token_count, summary_ended_at = :ended_at, summary_created_at = now(),
        failure_reason = CASE WHEN revision = :revision THEN NULL ELSE failure_reason END,
        status = CASE WHEN status = 'open' OR revision <> :revision THEN status ELSE 'summarized' END
    WHERE id = :id AND inner_revision = :inner_revision AND status <> 'merged'
""")
_SET_STATUS = text("""
    UPDATE conversation_sessions SET status = :status, failure_reason = :reason
    WHERE id = :id AND revision = :revision AND status NOT IN ('open', 'merged')
""")
_KEEP_SUMMARY = text("""
    UPDATE conversation_sessions SET summary_revision = revision, summary_version = :version,
        status = 'summarized', failure_reason = NULL
    WHERE id = :id AND revision = :revision AND status NOT IN ('open', 'merged')
""")
_BEFORE = text("""
    SELECT count(*) AS all_before, count(*) FILTER (WHERE ended_at > CAST(:start AS timestamptz) - :within) AS lately
    FROM conversation_sessions
    WHERE chat_id = :chat AND status <> 'merged' AND (started_at, id) < (CAST(:start AS timestamptz), :id)
""")
_OUTDATE = text("UPDATE conversation_sessions SET summary_revision = NULL WHERE id = ANY(:ids)")

_SET_FACTS = text("""
    UPDATE conversation_sessions SET facts_revision = :revision, facts_model = :model WHERE id = :id
""")
_OUTDATE_FACTS = text("UPDATE conversation_sessions SET facts_revision = NULL WHERE id = ANY(:ids)")


def as_session(row: Row[Any]) -> Session:
    """Return a row that has at least `COLUMNS` as a value."""
    fields = {name: row._mapping[name] for name in COLUMNS.split(", ")}
    return Session(**{**fields, "participants": tuple(row.participants)})


def close_ended(
    connection: Connection, chat_ids: Sequence[str], gap: timedelta, ttl: timedelta
) -> list[Session]:
    """Close the sessions of these chats that have ended; return those closed now."""
    return [as_session(row) for row in run(connection, _CLOSE, chats=chat_ids, gap=gap, ttl=ttl)]


def idle_chats(connection: Connection, gap: timedelta, ttl: timedelta, limit: int) -> list[tuple[str, str]]:
    """Return `(tenant, chat)` whose open session has been quiet for longer than its gap (maintenance)."""
    return [(tenant, chat) for tenant, chat in run(connection, _IDLE_CHATS, gap=gap, ttl=ttl, limit=limit)]


def add_closes(
    connection: Connection, tenant_id: str, chat_id: str, closes: Sequence[tuple[str, datetime]]
) -> None:
    """Keep the markers `(session key, sender time)` at which sessions were closed on request."""
    for session_key, at in sorted(set(closes)):
        run(connection, _ADD_CLOSES, tenant=tenant_id, chat=chat_id, key=session_key, at=at)


def keys(connection: Connection, chat_id: str) -> list[str]:
    """Return the session keys of a chat; the empty one is that of messages without."""
    return column(connection, _KEYS, chat=chat_id)


def newly_cut(connection: Connection, chat_ids: Sequence[str]) -> list[Session]:
    """Lock and return the chats' sessions around markers not seen before; the markers count as seen from now."""
    return [as_session(row) for row in run(connection, _NEWLY_CUT, chats=chat_ids)]


def closes(
    connection: Connection, places: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[datetime]]:
    """Return the times at which sessions were closed on request, ascending, by `(chat, session key)`."""
    times: dict[tuple[str, str], list[datetime]] = {place: [] for place in places}
    named = [place for place in places if place[1]]
    for chat_id, session_key, at in run(connection, _CLOSES, **arrays("chats keys", named)) if named else ():
        times[chat_id, session_key].append(at)
    return times


def find(connection: Connection, session_id: int) -> Row[Any] | None:
    """Return a session with its summary, or the one that it was merged into."""
    return run(connection, _FIND, id=session_id).one_or_none()


def listing(
    connection: Connection,
    chat_id: str | None,
    *,
    limit: int,
    status: str | None = None,
    after: int | None = None,
) -> Sequence[Row[Any]]:
    """Return the newest sessions of one chat or of all, without merged ones; with `after`, those that follow it."""
    return run(connection, _LISTING, chat=chat_id, limit=limit, status=status, after=after).all()


NAMES_WITHIN = 1000
"""The newest messages of a chat, `:within`, in which the asker's name is looked for: most have just said something."""


def wanting_rollup(
    connection: Connection, chat_ids: Collection[str], messages: int, tokens: int, *, named_messages: int
) -> dict[int, str]:
    """Return each open session that has grown that much since it was summarized, with its chat.

    One that an agent named is summarized after `named_messages`.
    """
    grown = {"messages": messages, "named_messages": named_messages, "tokens": tokens}
    rows = run(connection, _WANTING_ROLLUP, chats=list(chat_ids), **grown)
    return {row.id: row.chat_id for row in rows}


_READ = ("id", "revision", "inner_revision", "message_count", "token_count", "ended_at")


def save_summary(
    connection: Connection, read: Row[Any], summary: Summary, *, model: str, version: int
) -> bool:
    """Store the summary of a session as it was `read`; tell whether it was stored.

    A session that has grown since keeps the summary of what was read, and wants another one. Nothing is stored when
    the session was merged or cut, or a text of it edited: the summary would speak of what is not there any more.
    """
    values = {name: Jsonb(v) if isinstance(v, list) else v for name, v in summary.model_dump().items()}
    values |= {name: getattr(read, name) for name in _READ}
    made = {"search_text": summary.search_text(), "model": model, "version": version}
    return run(connection, _SAVE, **values, **made).rowcount == 1


def set_status(
    connection: Connection, session_id: int, revision: int, status: str, reason: str | None = None
) -> bool:
    """Set a closed session's status (`skipped`, `failed`) unless it has changed since that revision."""
    values = {"id": session_id, "revision": revision, "status": status, "reason": reason}
    return run(connection, _SET_STATUS, **values).rowcount == 1


def keep_summary(connection: Connection, session_id: int, revision: int, version: int) -> bool:
    """Mark a closed session's summary as current for this revision and version, as no messages are left to read."""
    values = {"id": session_id, "revision": revision, "version": version}
    return run(connection, _KEEP_SUMMARY, **values).rowcount == 1


def count_before(
    connection: Connection, chat_id: str, started_at: datetime, session_id: int, within: timedelta
) -> tuple[int, int]:
    """Count a chat's sessions before one, `(all, those that ended within this time before it)`."""
    values = {"chat": chat_id, "start": started_at, "id": session_id, "within": within}
    row = run(connection, _BEFORE, **values).one()
    return int(row.all_before), int(row.lately)


def set_facts(connection: Connection, session_id: int, revision: int, model: str) -> None:
    """Record the revision of a session that its facts were learned from, and the model."""
    run(connection, _SET_FACTS, id=session_id, revision=revision, model=model)


def outdate_facts(connection: Connection, session_ids: Sequence[int]) -> None:
    """Mark the facts of sessions as outdated, so that they are learned again."""
    run(connection, _OUTDATE_FACTS, ids=session_ids)


def outdate_summaries(connection: Connection, session_ids: Sequence[int]) -> None:
    """Mark the summaries of these sessions as outdated, though nothing has changed."""
    run(connection, _OUTDATE, ids=session_ids)


_CARD = """id, session_key, started_at, ended_at, message_count, participants, summary_text, summary_model, topic_tags,
    entities, decisions, summary_ended_at"""


_CARDS = text(f"""
    SELECT {_CARD} FROM conversation_sessions WHERE id = ANY(:ids) AND status <> 'merged'
""")


_OF_TIME = text(f"""
    SELECT * FROM (
        SELECT {_CARD}
        FROM conversation_sessions
        WHERE chat_id = :chat AND (CAST(:key AS text) IS NULL OR session_key = :key) AND status <> 'merged'
            AND started_at < :until AND ended_at >= :start
        ORDER BY ended_at DESC, {LAST_BEGUN_FIRST} LIMIT :limit
    ) latest
    ORDER BY started_at, session_key COLLATE "C"
""")


def cards_of_sessions(connection: Connection, session_ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Return the cards of these sessions."""
    return run(connection, _CARDS, ids=session_ids).all()


def cards_of_time(
    connection: Connection,
    chat_id: str,
    start: datetime,
    until: datetime,
    *,
    session_key: str | None = None,
    limit: int,
) -> Sequence[Row[Any]]:
    """Return the sessions of a chat, or of one key in it, that overlap this time, in order.

    Each has its summary and topics, if it is summarized. Of more than `limit` the latest are returned.
    """
    values = {"chat": chat_id, "key": session_key, "start": start, "until": until, "limit": limit}
    return run(connection, _OF_TIME, **values).all()
