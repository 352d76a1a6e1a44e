"""SQL with which an operator lists, replays and drops pending jobs and dead letters."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from schemas.kinds import ARRIVAL, INGEST, PAYLOAD

# Work that is owed or given up; arrivals in quarantine and refused payloads are dead letters of kinds of their own.
_ITEMS = f"""
    SELECT tenant_id, kind, key, attempts, due_at, last_error AS error, trace_id,
        CASE WHEN dead_at IS NOT NULL THEN 'dead' WHEN claimed IS NOT NULL THEN 'running'
             WHEN attempts > 0 THEN 'retrying' ELSE 'pending' END AS state,
        coalesce(dead_at, pending_since) AS since, pending_since
    FROM jobs WHERE due_at IS NOT NULL OR dead_at IS NOT NULL
    UNION ALL
    SELECT tenant_id, '{ARRIVAL}', 'message:' || message_id, NULL, NULL, error, trace_id, 'dead', quarantined_at,
        quarantined_at
    FROM arrivals WHERE quarantined_at IS NOT NULL
    UNION ALL
    SELECT tenant_id, '{PAYLOAD}', key, NULL, NULL, error, trace_id, 'dead', refused_at, refused_at
    FROM refused_payloads
"""

_LISTING = text(f"""
    SELECT *, count(*) OVER () AS total FROM ({_ITEMS}) item
    WHERE (CAST(:state AS text) IS NULL OR state = :state) AND (CAST(:kind AS text) IS NULL OR kind = :kind)
        AND (CAST(:key AS text) IS NULL OR key = :key)
        AND (CAST(:error AS text) IS NULL OR strpos(lower(error), lower(:error)) > 0)
        AND (CAST(:older AS float8) IS NULL OR since < now() - make_interval(secs => :older))
    ORDER BY since, tenant_id, kind, key LIMIT :limit
""")


def listing(
    connection: Connection,
    *,
    state: str | None,
    kind: str | None,
    key: str | None,
    error: str | None,
    older_than_seconds: float | None,
    limit: int | None,
) -> Sequence[Row[Any]]:
    """List the jobs that match, oldest first, each row with the `total` without the limit.

    Of one tenant as the app role, of all as maintenance. `error` is a part of the error's text.
    """
    return connection.execute(
        _LISTING,
        {
            "state": state,
            "kind": kind,
            "key": key,
            "error": error,
            "older": older_than_seconds,
            "limit": limit,
        },
    ).all()


_TOTALS = text("""
    SELECT kind,
        count(*) FILTER (WHERE due_at IS NOT NULL AND claimed IS NULL AND attempts = 0) AS pending,
        count(*) FILTER (WHERE due_at IS NOT NULL AND claimed IS NOT NULL) AS running,
        count(*) FILTER (WHERE due_at IS NOT NULL AND claimed IS NULL AND attempts > 0) AS retrying,
        count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead,
        extract(epoch FROM now() - min(pending_since) FILTER (WHERE due_at IS NOT NULL)) AS oldest_seconds
    FROM jobs WHERE due_at IS NOT NULL OR dead_at IS NOT NULL GROUP BY kind
    UNION ALL
    SELECT 'payload', 0, 0, 0, count(*), NULL FROM refused_payloads HAVING count(*) > 0
    ORDER BY kind
""")


def totals(connection: Connection) -> Sequence[Row[Any]]:
    """Count rows by kind and state, with the age in seconds of the oldest pending one (maintenance)."""
    return connection.execute(_TOTALS).all()


def chat_of(connection: Connection, kind: str, key: str) -> str | None:
    """Return the chat of a job; None if it is of no chat, or its object is gone."""
    if kind == INGEST.name:
        return key
    owner, _, identity = key.partition(":")
    table = {"session": "conversation_sessions", "message": "messages"}.get(owner)
    if table is None or not identity.isdigit():
        return None
    found = connection.scalar(
        text(f"SELECT chat_id FROM {table} WHERE id = CAST(:id AS numeric)"), {"id": identity}
    )
    return None if found is None else str(found)


_REPLAY = text("""
    UPDATE jobs SET due_at = now(), dead_at = NULL, attempts = 0,
        pending_since = CASE WHEN dead_at IS NULL THEN pending_since ELSE now() END
    WHERE kind = :kind AND key = ANY(:keys) AND claimed IS NULL
        AND (due_at IS NOT NULL OR dead_at IS NOT NULL)
    RETURNING key
""")


def replay(connection: Connection, kind: str, keys: Sequence[str]) -> list[str]:
    """Make these jobs of one tenant due at once with all their attempts; return the keys of those that were changed.

    Claimed jobs are left as they are.
    """
    rows = connection.execute(_REPLAY, {"kind": kind, "keys": list(keys)})
    return [row[0] for row in rows]


_RELEASE_ARRIVALS = text("""
    UPDATE arrivals SET quarantined_at = NULL, error = NULL
    WHERE message_id = ANY(:ids) AND quarantined_at IS NOT NULL RETURNING message_id, chat_id
""")


def release_arrivals(connection: Connection, message_ids: Sequence[int]) -> list[tuple[int, str]]:
    """Release arrivals from quarantine; return `(message, chat)` of those that were in it."""
    rows = connection.execute(_RELEASE_ARRIVALS, {"ids": list(message_ids)})
    return [(row[0], row[1]) for row in rows]


_GIVE_UP = text("""
    UPDATE jobs SET due_at = NULL, dead_at = NULL, claimed = NULL, attempts = 0,
        token = nextval('job_token'),
        last_error = left(concat_ws('; was: ', CAST(:reason AS text), last_error), 500)
    WHERE kind = :kind AND key = ANY(:keys) AND (due_at IS NOT NULL OR dead_at IS NOT NULL)
    RETURNING key
""")


def give_up(connection: Connection, kind: str, keys: Sequence[str], reason: str) -> list[str]:
    """Cancel these jobs of one tenant, with the reason on the row; return the keys of those that were pending or dead.

    Results in flight are discarded. A later change enqueues the job again.
    """
    rows = connection.execute(_GIVE_UP, {"kind": kind, "keys": list(keys), "reason": reason})
    return [row[0] for row in rows]


_FAIL_SESSIONS = text("""
    UPDATE conversation_sessions SET status = 'failed', failure_reason = :reason
    WHERE id IN (SELECT id FROM conversation_sessions
        WHERE id = ANY(:ids) AND status = 'closed' ORDER BY id FOR NO KEY UPDATE)
""")


def fail_sessions(connection: Connection, session_ids: Sequence[int], reason: str) -> int:
    """Set closed sessions that wait for a summary to `failed`; return how many. Those that have one keep it."""
    return connection.execute(_FAIL_SESSIONS, {"ids": list(session_ids), "reason": reason}).rowcount
