"""SQL with which an operator inspects and repairs jobs and dead letters; of suspects and refused payloads."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.chats import chats
from pipeline.store.connections.statements import column, number, run
from pipeline.store.jobs import jobs
from schemas.kinds import ARRIVAL, INGEST, KINDS, LANGUAGE, PAYLOAD

# An outage costs no attempt.
WAITS_AFTER_FAILURE = "(attempts > 0 OR last_error IS NOT NULL)"


def _items(jobs: str) -> str:
    """Return SQL of the pending and dead jobs that are `jobs`, and of other dead letters: arrivals and payloads."""
    return f"""
    SELECT tenant_id, kind, key, attempts, due_at, last_error AS error, trace_id,
        CASE WHEN dead_at IS NOT NULL THEN 'dead' WHEN claimed IS NOT NULL THEN 'running'
             WHEN {WAITS_AFTER_FAILURE} THEN 'retrying' ELSE 'pending' END AS state,
        coalesce(dead_at, pending_since) AS since, pending_since
    FROM jobs WHERE (due_at IS NOT NULL OR dead_at IS NOT NULL) AND {jobs}
    UNION ALL
    SELECT tenant_id, '{ARRIVAL}', 'message:' || message_id, NULL, NULL, error, trace_id, 'dead', quarantined_at,
        quarantined_at
    FROM arrivals WHERE quarantined_at IS NOT NULL
    UNION ALL
    SELECT tenant_id, '{PAYLOAD}', key, NULL, NULL, error, trace_id, 'dead', refused_at, refused_at
    FROM refused_payloads
"""


# the states that have an index, as few jobs are in them
_OF_STATE = """(CAST(:state AS text) IS DISTINCT FROM 'dead' OR dead_at IS NOT NULL)
    AND (CAST(:state AS text) IS DISTINCT FROM 'running' OR claimed IS NOT NULL)"""
_LISTING = text(f"""
    SELECT *, count(*) OVER () AS total FROM ({_items(_OF_STATE)}) item
    WHERE (CAST(:state AS text) IS NULL OR state = :state) AND (CAST(:kind AS text) IS NULL OR kind = :kind)
        AND (CAST(:key AS text) IS NULL OR key = :key)
        AND (CAST(:error AS text) IS NULL OR strpos(lower(error), lower(:error)) > 0)
        AND (CAST(:older AS float8) IS NULL OR since < now() - make_interval(secs => :older))
    ORDER BY since, tenant_id, kind, key LIMIT :limit
""")
# The error of a message or payload may quote it, and the status of a deployment shows no texts.
_LATEST_DEAD = text(f"""
    SELECT tenant_id, kind, key, attempts, since AS dead_at, trace_id,
        CASE WHEN kind NOT IN ('{ARRIVAL}', '{PAYLOAD}') THEN error END AS last_error
    FROM ({_items("dead_at IS NOT NULL")}) item
    WHERE state = 'dead' ORDER BY since DESC LIMIT :limit
""")
# By the partial indexes, and each kind up to `at_most` rows: it reads no more of a table of millions that are due.
_TOTALS = text(f"""
    SELECT kind.name AS kind, due.*, given_up.dead
    FROM unnest(CAST(:kinds AS text[])) AS kind (name)
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE NOT is_claimed AND NOT has_failed) AS pending,
            count(*) FILTER (WHERE is_claimed) AS running,
            count(*) FILTER (WHERE NOT is_claimed AND has_failed) AS retrying,
            extract(epoch FROM now() - min(pending_since))::float8 AS oldest_seconds,
            count(*) FILTER (WHERE NOT is_claimed AND due_at <= now()) AS late,
            coalesce(extract(epoch FROM now() - min(due_at) FILTER (WHERE NOT is_claimed AND due_at <= now())),
                0)::float8 AS late_seconds
        FROM ((SELECT {WAITS_AFTER_FAILURE} AS has_failed, pending_since, due_at, false AS is_claimed FROM jobs
                WHERE jobs.kind = kind.name AND due_at IS NOT NULL AND claimed IS NULL
                ORDER BY priority, due_at LIMIT :at_most)
            UNION ALL
            (SELECT true, pending_since, due_at, true FROM jobs
                WHERE jobs.kind = kind.name AND due_at IS NOT NULL AND claimed IS NOT NULL
                LIMIT :at_most)) AS row
    ) AS due
    CROSS JOIN LATERAL (
        SELECT count(*) AS dead FROM (SELECT FROM jobs WHERE jobs.kind = kind.name AND dead_at IS NOT NULL
            LIMIT :at_most) AS row
    ) AS given_up
    UNION ALL
    SELECT '{ARRIVAL}', 0, 0, 0, NULL, 0, 0, count(*) FROM (SELECT FROM arrivals
        WHERE quarantined_at IS NOT NULL LIMIT :at_most) AS row
    UNION ALL
    SELECT '{PAYLOAD}', 0, 0, 0, NULL, 0, 0, count(*) FROM (SELECT FROM refused_payloads
        LIMIT :at_most) AS row
    ORDER BY kind
""")
_REPLAY = text("""
    UPDATE jobs SET due_at = now(), dead_at = NULL, attempts = 0,
        pending_since = CASE WHEN dead_at IS NULL THEN pending_since ELSE now() END
    WHERE kind = :kind AND key = ANY(:keys) AND claimed IS NULL
        AND (due_at IS NOT NULL OR dead_at IS NOT NULL)
    RETURNING key
""")
_RELEASE_ARRIVALS = text("""
    UPDATE arrivals SET quarantined_at = NULL, error = NULL
    WHERE message_id = ANY(:ids) AND quarantined_at IS NOT NULL RETURNING message_id, chat_id
""")
_GIVE_UP = text("""
    UPDATE jobs SET due_at = NULL, dead_at = NULL, claimed = NULL, attempts = 0,
        token = nextval('job_token'),
        last_error = left(concat_ws('; was: ', CAST(:reason AS text), last_error), 500)
    WHERE kind = :kind AND key = ANY(:keys) AND (due_at IS NOT NULL OR dead_at IS NOT NULL)
    RETURNING key
""")
_FAIL_SESSIONS = text("""
    UPDATE conversation_sessions SET status = 'failed', failure_reason = :reason
    WHERE id IN (SELECT id FROM conversation_sessions
        WHERE id = ANY(:ids) AND status = 'closed' ORDER BY id FOR NO KEY UPDATE)
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
    """Return jobs, oldest first, each row with the `total` without the limit.

    The app role sees one tenant, maintenance all. `error` is a part of the error's text.
    """
    values = {"state": state, "kind": kind, "key": key, "error": error, "older": older_than_seconds}
    return run(connection, _LISTING, **values, limit=limit).all()


def totals(connection: Connection, at_most: int) -> Sequence[Row[Any]]:
    """Count jobs of each kind by state, up to `at_most`, and say how long they wait and are late.

    Messages in quarantine and refused payloads are dead letters of kinds of their own.
    """
    return run(connection, _TOTALS, kinds=list(KINDS), at_most=at_most).all()


def dead_letters(connection: Connection, limit: int) -> Sequence[Row[Any]]:
    """Return the latest dead letters of all kinds that the role may see."""
    return run(connection, _LATEST_DEAD, limit=limit).all()


def chat_of(connection: Connection, kind: str, key: str) -> str | None:
    """Return the chat that a job is about, or None if there is none or its object is gone."""
    if kind in {INGEST.name, LANGUAGE.name}:
        return key
    owner, _, identity = key.partition(":")
    table = {"session": "conversation_sessions", "message": "messages"}.get(owner)
    if table is None or not identity.isdigit():
        return None
    statement = text(f"SELECT chat_id FROM {table} WHERE id = CAST(:id AS numeric)")
    return next(iter(column(connection, statement, id=identity)), None)


def replay(connection: Connection, kind: str, keys: Sequence[str]) -> list[str]:
    """Make jobs of one tenant, except running ones, due at once with all their attempts; return their keys."""
    return column(connection, _REPLAY, kind=kind, keys=keys)


def release_arrivals(connection: Connection, message_ids: Sequence[int]) -> list[tuple[int, str]]:
    """Release arrivals from quarantine; return `(message, chat)` of those that were in it."""
    return [(row[0], row[1]) for row in run(connection, _RELEASE_ARRIVALS, ids=message_ids)]


def give_up(connection: Connection, kind: str, keys: Sequence[str], reason: str) -> list[str]:
    """Cancel jobs of one tenant, keep the reason, discard results in flight; return their keys."""
    return column(connection, _GIVE_UP, kind=kind, keys=keys, reason=reason)


def fail_sessions(connection: Connection, session_ids: Sequence[int], reason: str) -> int:
    """Set closed sessions that wait for a first summary to `failed`; return how many."""
    return run(connection, _FAIL_SESSIONS, ids=session_ids, reason=reason).rowcount


_COUNT_TRY = text("""
    INSERT INTO jobs (tenant_id, kind, key, due_at, attempts) VALUES (:tenant, :kind, :key, NULL, 1)
    ON CONFLICT (tenant_id, kind, key) DO UPDATE SET attempts = jobs.attempts + 1 RETURNING attempts
""")
# Never due, so that nobody claims them.
_KIND = "suspect"
_TRIES = text("SELECT key, attempts FROM jobs WHERE kind = :kind AND key = ANY(:keys)")
_KEEP_PAYLOAD = text("""
    INSERT INTO refused_payloads (tenant_id, key, payload, error, trace_id)
    VALUES (:tenant, :key, :payload, :error, :trace)
    ON CONFLICT (tenant_id, key) DO UPDATE SET error = excluded.error, trace_id = excluded.trace_id
""")
_READ_PAYLOAD = text("SELECT payload FROM refused_payloads WHERE key = :key")
_TAKE_PAYLOAD = text("DELETE FROM refused_payloads WHERE key = :key RETURNING payload, trace_id")


def count_try(connection: Connection, tenant_id: str, suspect: str) -> int:
    """Count an attempt at a suspect alone, to be committed before it; return the number of attempts."""
    return number(connection, _COUNT_TRY, tenant=tenant_id, kind=_KIND, key=suspect)


def clear_tries(connection: Connection, tenant_id: str, suspect: str) -> None:
    """Forget the tries of a suspect."""
    jobs.drop(connection, tenant_id, [_KIND], [suspect])


def tries(connection: Connection, suspects: Sequence[str]) -> dict[str, int]:
    """Return how often each suspect was tried alone by a process that then died."""
    return {str(key): int(attempts) for key, attempts in run(connection, _TRIES, kind=_KIND, keys=suspects)}


def keep_payload(
    connection: Connection, tenant_id: str, key: str, payload: str, error: str, trace_id: str | None
) -> None:
    """Keep a payload, JSON in ASCII, under its key; update the error of a known one."""
    chats.ensure_tenant(connection, tenant_id)
    run(connection, _KEEP_PAYLOAD, tenant=tenant_id, key=key, payload=payload, error=error, trace=trace_id)


def read_payload(connection: Connection, key: str) -> str | None:
    """Return a payload by its key."""
    return next(iter(column(connection, _READ_PAYLOAD, key=key)), None)


def take_payload(connection: Connection, key: str) -> tuple[str, str | None] | None:
    """Delete a payload; return `(payload, trace id)`, or None if it is gone."""
    row = run(connection, _TAKE_PAYLOAD, key=key).one_or_none()
    return None if row is None else (row.payload, row.trace_id)


def forget_payloads(connection: Connection, names: Sequence[Iterable[str]]) -> int:
    """Delete the payloads that contain an id of each group, or all without a group; return how many.

    An unreadable payload does not name its owner, so any mention counts.
    """
    held = " AND ".join(
        f"EXISTS (SELECT FROM unnest(CAST(:group{n} AS text[])) AS piece WHERE strpos(payload, piece) > 0)"
        for n in range(len(names))
    )
    pieces = {f"group{n}": [p for name in group for p in _as_json(name)] for n, group in enumerate(names)}
    return run(connection, text(f"DELETE FROM refused_payloads WHERE {held or 'true'}"), **pieces).rowcount


def _as_json(name: str) -> Iterator[str]:
    """Yield the forms in which a payload may contain an id."""
    yield json.dumps(name)
    if name.removeprefix("-").isdecimal():
        yield f": {name},"
        yield f": {name}}}"
