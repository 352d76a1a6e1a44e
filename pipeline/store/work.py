"""SQL of the ledger: what is owed, claimed, done and given up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

LIVE, LATER = 0, 1
"""Priorities: what people say now, and what imports and backfills bring. The lower one is claimed first."""


@dataclass(frozen=True, kw_only=True)
class Owed:
    """A piece of work that a change asks for."""

    kind: str
    key: str
    # the chat that it is about: within a tenant chats take turns; empty: none
    lane: str = ""
    priority: int = LIVE
    # not due before so many seconds
    delay_seconds: float = 0
    # the request that asks
    trace_id: str | None = None


_RAISE = text("""
    INSERT INTO work (tenant_id, kind, key, lane, priority, due_at, trace_id)
    SELECT :tenant, kind, key, CASE lane WHEN '' THEN 0 ELSE hashtext(lane) & 32767 END, priority,
        now() + make_interval(secs => delay), trace
    FROM unnest(CAST(:kinds AS text[]), CAST(:keys AS text[]), CAST(:lanes AS text[]),
        CAST(:priorities AS smallint[]), CAST(:delays AS float8[]), CAST(:traces AS text[]))
        AS owed (kind, key, lane, priority, delay, trace)
    ORDER BY kind, key
    ON CONFLICT (tenant_id, kind, key) DO UPDATE SET
        wanted = work.wanted + 1,
        priority = CASE WHEN work.due_at IS NULL THEN excluded.priority
                        ELSE least(work.priority, excluded.priority) END,
        lane = excluded.lane,
        owed_since = CASE WHEN work.due_at IS NULL THEN now() ELSE work.owed_since END,
        -- a dead row is revived by a change, but not `ingest`: its chat goes on once the operator has looked
        due_at = CASE WHEN work.dead_at IS NOT NULL AND work.kind = 'ingest' THEN NULL
                      ELSE coalesce(work.due_at, excluded.due_at) END,
        attempts = CASE WHEN work.dead_at IS NOT NULL AND work.kind <> 'ingest' THEN 0 ELSE work.attempts END,
        dead_at = CASE WHEN work.kind = 'ingest' THEN work.dead_at END,
        trace_id = coalesce(excluded.trace_id, work.trace_id)
""")


AGAIN = _RAISE.text[_RAISE.text.index("ON CONFLICT") :]
"""What raising does with a row that is there, for statements that raise what they have just stored."""


def raise_all(connection: Connection, tenant_id: str, owed: Iterable[Owed]) -> None:
    """Note that this work is owed, in the transaction of the change that asks for it."""
    # of several of one key the last one counts
    unique = list({(one.kind, one.key): one for one in owed}.values())
    if not unique:
        return
    connection.execute(
        _RAISE,
        {
            "tenant": tenant_id,
            "kinds": [one.kind for one in unique],
            "keys": [one.key for one in unique],
            "lanes": [one.lane for one in unique],
            "priorities": [one.priority for one in unique],
            "delays": [one.delay_seconds for one in unique],
            "traces": [one.trace_id for one in unique],
        },
    )


def raise_wanted(
    connection: Connection,
    tenant_id: str,
    kind: str,
    keys: Iterable[str],
    *,
    lane: str = "",
    priority: int = LIVE,
    delay_seconds: float = 0,
    trace_id: str | None = None,
) -> None:
    """Note that work of one kind, about one chat or none, is owed: see `raise_all`."""
    raise_all(
        connection,
        tenant_id,
        (
            Owed(
                kind=kind,
                key=key,
                lane=lane,
                priority=priority,
                delay_seconds=delay_seconds,
                trace_id=trace_id,
            )
            for key in keys
        ),
    )


# A row whose lease ran out may have killed its worker: it is claimed alone, so that it burns nobody else.
_CLAIM_ABANDONED = text("""
    WITH picked AS (
        SELECT tenant_id, kind, key FROM work
        WHERE kind = :kind AND due_at <= now() AND claimed IS NOT NULL AND attempts < :max_attempts
        ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    UPDATE work SET claimed = wanted, token = nextval('work_token'), attempts = attempts + 1,
        due_at = now() + make_interval(secs => :lease)
    FROM picked WHERE work.tenant_id = picked.tenant_id AND work.kind = picked.kind AND work.key = picked.key
    RETURNING work.tenant_id, work.kind, work.key, work.token, work.attempts, work.trace_id, true AS abandoned
""")

# Fair: walk the tenants that are owed something by the index, take up to a batch of each, then deal round.
_CLAIM = text("""
    WITH RECURSIVE owed AS (
        (SELECT tenant_id FROM work WHERE kind = :kind AND due_at IS NOT NULL ORDER BY tenant_id LIMIT 1)
        UNION ALL
        SELECT (SELECT w.tenant_id FROM work w
                WHERE w.kind = :kind AND w.due_at IS NOT NULL AND w.tenant_id > owed.tenant_id
                ORDER BY w.tenant_id LIMIT 1)
        FROM owed WHERE owed.tenant_id IS NOT NULL
    ), candidates AS (
        SELECT c.tenant_id, c.key, c.due_at
        FROM owed CROSS JOIN LATERAL (
            SELECT w.tenant_id, w.key, w.due_at FROM work w
            WHERE w.kind = :kind AND w.tenant_id = owed.tenant_id AND w.due_at <= now()
                AND w.claimed IS NULL AND w.attempts < :max_attempts
            ORDER BY w.due_at LIMIT :batch FOR UPDATE SKIP LOCKED
        ) c
    ), picked AS (
        SELECT tenant_id, key FROM (
            SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY due_at) AS turn FROM candidates
        ) dealt ORDER BY turn, due_at LIMIT :batch
    )
    UPDATE work SET claimed = wanted, token = nextval('work_token'), attempts = attempts + 1,
        due_at = now() + make_interval(secs => :lease)
    FROM picked WHERE work.tenant_id = picked.tenant_id AND work.kind = :kind AND work.key = picked.key
    RETURNING work.tenant_id, work.kind, work.key, work.token, work.attempts, work.trace_id
""")


def claim(
    connection: Connection, kind: str, *, batch: int, lease_seconds: float, max_attempts: int
) -> Sequence[Row[Any]]:
    """Take up to `batch` due rows of a kind under a lease, fair by tenant (maintenance)."""
    given = {"kind": kind, "lease": lease_seconds, "max_attempts": max_attempts}
    abandoned = connection.execute(_CLAIM_ABANDONED, given).all()
    return abandoned or connection.execute(_CLAIM, {**given, "batch": batch}).all()


_FINISH = text("""
    UPDATE work SET done = claimed, claimed = NULL, attempts = 0, last_error = NULL,
        due_at = CASE WHEN wanted > claimed THEN now()
                      WHEN CAST(:again AS float8) IS NOT NULL THEN now() + make_interval(secs => :again) END,
        owed_since = CASE WHEN wanted > claimed OR CAST(:again AS float8) IS NOT NULL THEN now() ELSE owed_since END
    FROM unnest(CAST(:keys AS text[]), CAST(:tokens AS bigint[])) AS mine (key, token)
    WHERE work.tenant_id = :tenant AND work.kind = :kind AND work.key = mine.key AND work.token = mine.token
        AND work.claimed IS NOT NULL
""")


def finish(
    connection: Connection,
    tenant_id: str,
    kind: str,
    keys: Sequence[str],
    tokens: Sequence[int],
    *,
    again_in: float | None = None,
) -> int:
    """Mark claimed rows done if they are still ours, as the last statement; how many were.

    With `again_in` they are due again after so many seconds.
    """
    return connection.execute(
        _FINISH, {"tenant": tenant_id, "kind": kind, "keys": keys, "tokens": tokens, "again": again_in}
    ).rowcount


_RETRY = text("""
    UPDATE work SET claimed = NULL, last_error = :error,
        attempts = CASE WHEN :counts THEN attempts ELSE greatest(attempts - 1, 0) END,
        due_at = CASE WHEN :dead OR (:counts AND attempts >= :max_attempts) THEN NULL
                      ELSE now() + make_interval(secs => :delay) END,
        dead_at = CASE WHEN :dead OR (:counts AND attempts >= :max_attempts) THEN now() END
    FROM unnest(CAST(:tenants AS text[]), CAST(:keys AS text[]), CAST(:tokens AS bigint[]))
        AS mine (tenant_id, key, token)
    WHERE work.tenant_id = mine.tenant_id AND work.kind = :kind AND work.key = mine.key
        AND work.token = mine.token AND work.claimed IS NOT NULL
""")


def release(
    connection: Connection,
    kind: str,
    rows: Sequence[tuple[str, str, int]],
    *,
    error: str | None,
    delay_seconds: float,
    counts: bool,
    dead: bool,
    max_attempts: int,
) -> None:
    """Let go of claimed rows `(tenant, key, token)` without a result, to be tried again or given up."""
    connection.execute(
        _RETRY,
        {
            "kind": kind,
            "tenants": [row[0] for row in rows],
            "keys": [row[1] for row in rows],
            "tokens": [row[2] for row in rows],
            "error": error,
            "delay": delay_seconds,
            "counts": counts,
            "dead": dead,
            "max_attempts": max_attempts,
        },
    )


def bury(connection: Connection, tenant_id: str, kind: str, key: str, token: int, error: str) -> bool:
    """Give up a claimed row, unless it is wanted anew meanwhile; False: it is no longer ours."""
    found = connection.execute(
        text("""
            UPDATE work SET claimed = NULL, last_error = :error,
                due_at = CASE WHEN wanted > claimed THEN now() END,
                dead_at = CASE WHEN wanted > claimed THEN NULL ELSE now() END
            WHERE tenant_id = :tenant AND kind = :kind AND key = :key AND token = :token AND claimed IS NOT NULL
        """),
        {"tenant": tenant_id, "kind": kind, "key": key, "token": token, "error": error},
    )
    return found.rowcount == 1


def held(connection: Connection, kind: str, rows: Sequence[tuple[str, str, int]]) -> set[tuple[str, str]]:
    """Which of these rows `(tenant, key, token)` are still claimed under that token: `(tenant, key)`."""
    found = connection.execute(
        text("""
            SELECT work.tenant_id, work.key
            FROM work JOIN unnest(CAST(:tenants AS text[]), CAST(:keys AS text[]), CAST(:tokens AS bigint[]))
                AS mine (tenant_id, key, token) USING (tenant_id, key, token)
            WHERE work.kind = :kind AND work.claimed IS NOT NULL
        """),
        {
            "kind": kind,
            "tenants": [row[0] for row in rows],
            "keys": [row[1] for row in rows],
            "tokens": [row[2] for row in rows],
        },
    )
    return {(tenant, key) for tenant, key in found}


def bury_exhausted(connection: Connection, max_attempts: int) -> int:
    """Give up rows that have used all their attempts and whose lease ran out (maintenance)."""
    return connection.execute(
        text("""
            UPDATE work SET dead_at = now(), due_at = NULL, claimed = NULL,
                last_error = coalesce(last_error, 'the worker died or hung every time')
            WHERE due_at <= now() AND attempts >= :max_attempts
        """),
        {"max_attempts": max_attempts},
    ).rowcount


def owe_arrivals(connection: Connection) -> int:
    """Make every chat that has unplaced messages owed, whatever happened to its row (maintenance)."""
    return connection.execute(
        text("""
            UPDATE work SET due_at = now(), wanted = work.wanted + 1, owed_since = now()
            FROM (SELECT DISTINCT tenant_id, chat_id FROM arrivals WHERE quarantined_at IS NULL) waiting
            WHERE work.tenant_id = waiting.tenant_id AND work.kind = 'ingest' AND work.key = waiting.chat_id
                AND work.due_at IS NULL AND work.dead_at IS NULL
        """)
    ).rowcount


def due_by_kind(connection: Connection) -> dict[str, int]:
    """How many rows may be claimed right now, by kind (maintenance)."""
    rows = connection.execute(text("SELECT kind, count(*) FROM work WHERE due_at <= now() GROUP BY kind"))
    return {str(row[0]): int(row[1]) for row in rows}


def totals(connection: Connection) -> Sequence[Row[Any]]:
    """Rows by kind and state, with the age in seconds of the longest owed (maintenance)."""
    return connection.execute(
        text("""
            SELECT kind,
                count(*) FILTER (WHERE due_at IS NOT NULL AND claimed IS NULL AND attempts = 0) AS pending,
                count(*) FILTER (WHERE due_at IS NOT NULL AND claimed IS NOT NULL) AS running,
                count(*) FILTER (WHERE due_at IS NOT NULL AND claimed IS NULL AND attempts > 0) AS retrying,
                count(*) FILTER (WHERE dead_at IS NOT NULL) AS dead,
                extract(epoch FROM now() - min(owed_since) FILTER (WHERE due_at IS NOT NULL)) AS oldest_seconds
            FROM work WHERE due_at IS NOT NULL OR dead_at IS NOT NULL GROUP BY kind ORDER BY kind
        """)
    ).all()


def owed_by(connection: Connection, kind: str, trace_id: str) -> tuple[int, int]:
    """`(owed, dead)` rows of a kind that one request asked for."""
    row = connection.execute(
        text("""
            SELECT count(*) FILTER (WHERE due_at IS NOT NULL), count(*) FILTER (WHERE dead_at IS NOT NULL)
            FROM work WHERE kind = :kind AND trace_id = :trace AND (due_at IS NOT NULL OR dead_at IS NOT NULL)
        """),
        {"kind": kind, "trace": trace_id},
    ).one()
    return int(row[0]), int(row[1])


def drop(connection: Connection, tenant_id: str, kind: str, keys: Sequence[str]) -> None:
    """Forget that this work is owed: its object is gone, and results in flight are fenced off."""
    connection.execute(
        text("DELETE FROM work WHERE tenant_id = :tenant AND kind = :kind AND key = ANY(:keys)"),
        {"tenant": tenant_id, "kind": kind, "keys": list(keys)},
    )


def state(connection: Connection, tenant_id: str, kind: str, key: str) -> tuple[str, str | None]:
    """Whether work is `owed`, `dead` or neither (`none`), and why it failed last."""
    row = connection.execute(
        text("""
            SELECT due_at, dead_at, last_error FROM work WHERE tenant_id = :tenant AND kind = :kind AND key = :key
        """),
        {"tenant": tenant_id, "kind": kind, "key": key},
    ).one_or_none()
    if row is None:
        return "none", None
    if row.dead_at is not None:
        return "dead", row.last_error
    return ("none" if row.due_at is None else "owed"), row.last_error
