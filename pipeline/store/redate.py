"""SQL that gives messages another time, and takes them out of their places."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from pipeline.store import vectors
from pipeline.store.jobs import LATER
from pipeline.store.messages import Arrival

_SET_ASIDE = text("UPDATE conversation_sessions SET status = 'merged', merged_into = id WHERE id = ANY(:ids)")


@dataclass(frozen=True, kw_only=True)
class Known:
    """A stored message, as an import that brings it again sees it."""

    id: int
    external_id: str
    # as its sender's clock had it, also where the time of arrival is stored in its place
    sent_at: datetime


@dataclass(frozen=True, kw_only=True)
class Held:
    """A message that is locked to be moved."""

    id: int
    session_key: str
    sent_at: datetime
    lexemes: int
    # it has its place in a session
    placed: bool


_KNOWN = text("""
    SELECT id, external_id, sent_at, metadata ->> 'original_sent_at' AS told FROM messages
    WHERE chat_id = :chat AND external_id = ANY(:externals)
""")


def known(connection: Connection, chat_id: str, external_ids: Sequence[str]) -> dict[str, Known]:
    """Those of these ids that messages of a chat have, as they are now."""
    rows = connection.execute(_KNOWN, {"chat": chat_id, "externals": list(external_ids)})
    return {
        row.external_id: Known(id=row.id, external_id=row.external_id, sent_at=_time(row.told) or row.sent_at)
        for row in rows
    }


def _time(told: str | None) -> datetime | None:
    """A time that accepting has put into a message's metadata; whatever else stands there is none."""
    try:
        at = datetime.fromisoformat(told or "")
    except ValueError:
        return None
    return at if at.tzinfo else None


_HOLD = text("""
    SELECT id, session_key, sent_at, length(tsv) AS lexemes, NOT EXISTS (
        SELECT 1 FROM arrivals a WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id) AS placed
    FROM messages m WHERE chat_id = :chat AND id = ANY(:ids) ORDER BY external_id FOR UPDATE
""")


def hold(connection: Connection, chat_id: str, ids: Sequence[int]) -> list[Held]:
    """These messages of a chat, locked."""
    rows = connection.execute(_HOLD, {"chat": chat_id, "ids": list(ids)})
    return [Held(**row._mapping) for row in rows]


# As accepting does it, a time that lies ahead is stored as that of the arrival.
_MOVE = text("""
    UPDATE messages m SET external_id = moved.external_id, position = moved.position,
        sent_at = CASE WHEN moved.sent_at > now() + interval '5 minutes' THEN now() ELSE moved.sent_at END,
        metadata = m.metadata - 'original_sent_at'
            || CASE WHEN moved.sent_at > now() + interval '5 minutes'
                THEN jsonb_build_object('original_sent_at', moved.sent_at) ELSE '{}' END
    FROM jsonb_to_recordset(:moved) AS moved (id bigint, external_id text, position integer, sent_at timestamptz)
    WHERE m.chat_id = :chat AND m.id = moved.id AND NOT EXISTS (
        SELECT 1 FROM messages o WHERE o.chat_id = :chat AND o.external_id = moved.external_id AND o.id <> moved.id)
""").bindparams(bindparam("moved", type_=JSONB))

_DATE_VECTORS = text("""
    UPDATE message_vectors v SET sent_at = m.sent_at FROM messages m
    WHERE m.id = ANY(:ids) AND m.chat_id = :chat AND v.tenant_id = m.tenant_id AND v.message_id = m.id
""")


def move(connection: Connection, chat_id: str, moved: Sequence[tuple[int, str, int, datetime]]) -> None:
    """Give messages of a chat `(id, external id, position, time)`, unless another has that external id by now."""
    rows = [
        {"id": each, "external_id": external, "position": position, "sent_at": at.isoformat()}
        for each, external, position, at in moved
    ]
    connection.execute(_MOVE, {"chat": chat_id, "moved": rows})
    if vectors.exist(connection):
        connection.execute(_DATE_VECTORS, {"chat": chat_id, "ids": [each for each, *_ in moved]})


_ARRIVE = text("""
    INSERT INTO arrivals (tenant_id, chat_id, message_id, priority)
    SELECT :tenant, :chat, id, :priority FROM unnest(CAST(:ids AS bigint[])) AS id
""")
_ARRIVED = text("""
    SELECT id, chat_id, CAST(:priority AS smallint), session_key, sent_at,
        coalesce(nullif(sender_name, ''), sender_id), token_count, length(tsv), octet_length(content) > 0
    FROM messages WHERE chat_id = :chat AND id = ANY(:ids) ORDER BY sent_at
""")


def arrive_anew(connection: Connection, tenant_id: str, chat_id: str, ids: Sequence[int]) -> list[Arrival]:
    """Let placed messages wait for their place again, by their times."""
    connection.execute(_ARRIVE, {"tenant": tenant_id, "chat": chat_id, "priority": LATER, "ids": list(ids)})
    rows = connection.execute(_ARRIVED, {"chat": chat_id, "priority": LATER, "ids": list(ids)})
    return [Arrival(*row) for row in rows]


def set_aside(connection: Connection, session_ids: Sequence[int]) -> None:
    """Take sessions that nothing is left of out of the way, until it is known which ones they lead to."""
    connection.execute(_SET_ASIDE, {"ids": list(session_ids)})


_DROP_CLOSES = text("""
    DELETE FROM session_closes c USING unnest(CAST(:keys AS text[]), CAST(:times AS timestamptz[]))
        AS gone (key, at)
    WHERE c.chat_id = :chat AND c.session_key = gone.key AND c.closed_at = gone.at
""")


def drop_closes(connection: Connection, chat_id: str, closes: Sequence[tuple[str, datetime]]) -> None:
    """Take back the markers `(session key, time)` that messages had set where they stood."""
    connection.execute(
        _DROP_CLOSES, {"chat": chat_id, "keys": [key for key, _ in closes], "times": [at for _, at in closes]}
    )
