"""SQL of weekly rollups: read their source summaries, save, find and erase them."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import arrays, column, run
from pipeline.store.jobs import jobs
from schemas.kinds import ROLLUP
from schemas.sessions import Summary

_OF_WEEK = """
    SELECT id, session_key, started_at, ended_at, summary_revision, summary_created_at, summary_text, topic_tags,
        decisions, open_questions, action_items, entities
    FROM conversation_sessions
    WHERE chat_id = :chat AND status <> 'merged' AND summary_text IS NOT NULL
        AND started_at >= :start AND started_at < :until
    ORDER BY id
"""
_READ_WEEK = text(_OF_WEEK)
_HOLD_WEEK = text(f"{_OF_WEEK} FOR SHARE")
_GET = text("SELECT id, source_hash, model, version FROM rollups WHERE chat_id = :chat AND week = :week")
_SAVE = text("""
    INSERT INTO rollups (tenant_id, chat_id, week, started_at, ended_at, session_ids, source_hash, summary_text,
        topic_tags, decisions, open_questions, action_items, entities, model, version)
    VALUES (:tenant, :chat, :week, :started, :ended, :sessions, :hash, :summary,
        :topics, :decisions, :open_questions, :action_items, :entities, :model, :version)
    ON CONFLICT (tenant_id, chat_id, week) DO UPDATE SET started_at = excluded.started_at,
        ended_at = excluded.ended_at, session_ids = excluded.session_ids, source_hash = excluded.source_hash,
        summary_text = excluded.summary_text, topic_tags = excluded.topic_tags, decisions = excluded.decisions,
        open_questions = excluded.open_questions, action_items = excluded.action_items,
        entities = excluded.entities, model = excluded.model, version = excluded.version, created_at = now()
""")
_DROP = text("DELETE FROM rollups WHERE chat_id = :chat AND week = :week")
_CLEAR = text(
    "DELETE FROM rollups WHERE session_ids && CAST(:sessions AS bigint[]) RETURNING id, chat_id, week"
)
_DROP_OF_CHAT = text("DELETE FROM rollups WHERE chat_id = :chat RETURNING week")
# the chat follows a date and a colon
_KEYS_OF_CHAT = text(f"SELECT key FROM jobs WHERE kind = '{ROLLUP}' AND substr(key, 12) = :chat ORDER BY key")
# A week is of the year and month of its Thursday, as in ISO 8601.
_OF_TIMES = text("""
    SELECT id, week, started_at, ended_at, summary_text, topic_tags FROM rollups
    WHERE chat_id = :chat AND EXISTS (
        SELECT 1 FROM unnest(CAST(:first AS date[]), CAST(:until AS date[])) AS time (first, until)
        WHERE week + 3 >= first AND week + 3 < until)
    ORDER BY week
""")
_HOLD = text("SELECT id FROM rollups WHERE id = ANY(:ids) ORDER BY id FOR KEY SHARE")

MIN_SESSIONS = 2
"""Summarized sessions that a week must have to be rolled up."""


class Week(NamedTuple):
    """A week of a chat."""

    chat_id: str
    # its Monday
    monday: date

    @property
    def key(self) -> str:
        """Return its job's key."""
        return f"{self.monday.isoformat()}:{self.chat_id}"

    @classmethod
    def of_key(cls, key: str) -> "Week":
        """Return the week of a job."""
        monday, _, chat_id = key.partition(":")
        return cls(chat_id, date.fromisoformat(monday))


def summaries(
    connection: Connection, chat_id: str, start: datetime, until: datetime, *, held: bool = False
) -> Sequence[Row[Any]]:
    """Return the summarized sessions of a chat that began in this time; `held`: they do not change meanwhile."""
    statement = _HOLD_WEEK if held else _READ_WEEK
    return run(connection, statement, chat=chat_id, start=start, until=until).all()


def get(connection: Connection, week: Week) -> Row[Any] | None:
    """Return `(id, source_hash, model, version)` of a week's rollup."""
    return run(connection, _GET, chat=week.chat_id, week=week.monday).one_or_none()


def save(
    connection: Connection,
    tenant_id: str,
    week: Week,
    read: Sequence[Row[Any]],
    source_hash: bytes,
    summary: Summary,
    *,
    model: str,
    version: int,
) -> None:
    """Write the rollup of a week from the sessions that were read."""
    values = {name: Jsonb(v) if isinstance(v, list) else v for name, v in summary.model_dump().items()}
    run(
        connection,
        _SAVE,
        tenant=tenant_id,
        chat=week.chat_id,
        week=week.monday,
        started=min(row.started_at for row in read),
        ended=max(row.ended_at for row in read),
        sessions=[row.id for row in read],
        hash=source_hash,
        model=model,
        version=version,
        **values,
    )


def drop(connection: Connection, week: Week) -> None:
    """Delete the rollup of a week."""
    run(connection, _DROP, chat=week.chat_id, week=week.monday)


def clear(connection: Connection, tenant_id: str, session_ids: Sequence[int]) -> list[int]:
    """Delete the rollups made from these sessions, and enqueue them again; return their ids."""
    gone = run(connection, _CLEAR, sessions=session_ids).all() if session_ids else []
    for row in gone:
        jobs.enqueue(connection, tenant_id, ROLLUP.name, [Week(row.chat_id, row.week).key], lane=row.chat_id)
    return [row.id for row in gone]


def drop_of_chat(connection: Connection, tenant_id: str, chat_id: str, into: str | None = None) -> None:
    """Delete a chat's rollups and their jobs; with `into`, have those weeks of that chat rolled up."""
    weeks = {Week(chat_id, monday) for monday in column(connection, _DROP_OF_CHAT, chat=chat_id)}
    keys = column(connection, _KEYS_OF_CHAT, chat=chat_id)
    jobs.drop(connection, tenant_id, [ROLLUP], keys)
    if into is not None:
        weeks |= {Week.of_key(key) for key in keys}
        again = sorted(Week(into, week.monday).key for week in weeks)
        jobs.enqueue(connection, tenant_id, ROLLUP.name, again, lane=into)


def of_times(connection: Connection, chat_id: str, times: Sequence[tuple[date, date]]) -> Sequence[Row[Any]]:
    """Return a chat's rollups of the weeks whose Thursday is in one of these times, each from … until a day."""
    return run(connection, _OF_TIMES, chat=chat_id, **arrays("first until", times)).all()


def hold(connection: Connection, ids: Sequence[int]) -> int:
    """Keep rollups from being deleted until the transaction ends; return how many exist."""
    return len(run(connection, _HOLD, ids=ids).all()) if ids else 0
