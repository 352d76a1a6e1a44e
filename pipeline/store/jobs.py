"""SQL of the ledger: what is owed, done and given up; `claims` beside this has the claim."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

LIVE, LATER = 0, 1
"""Priorities: what people say now, and what imports and backfills bring. The lower one is claimed first."""


_FREE = "due_at IS NOT NULL AND claimed IS NULL"


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
        -- whoever knows the chat says so
        lane = CASE excluded.lane WHEN 0 THEN work.lane ELSE excluded.lane END,
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
            "delays": [float(one.delay_seconds) for one in unique],
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


# Rows are locked before it is looked whether something newer is wanted: what is raised until then counts, and what
# comes later finds no row and makes one. `ingest` has a row for each chat, which the sweep owes anew.
_FINISH = text("""
    WITH mine AS MATERIALIZED (
        SELECT work.key, work.kind = 'ingest' OR work.wanted > work.claimed
            OR CAST(:again AS float8) IS NOT NULL AS stays
        FROM unnest(CAST(:keys AS text[]), CAST(:tokens AS bigint[])) AS claim (key, token)
        JOIN work ON work.tenant_id = :tenant AND work.kind = :kind AND work.key = claim.key
            AND work.token = claim.token
        WHERE work.claimed IS NOT NULL
        ORDER BY work.key FOR UPDATE OF work
    ), gone AS (
        DELETE FROM work USING mine
        WHERE work.tenant_id = :tenant AND work.kind = :kind AND work.key = mine.key AND NOT mine.stays
    ), kept AS (
        UPDATE work SET done = claimed, claimed = NULL, attempts = 0, last_error = NULL,
            due_at = CASE WHEN wanted > claimed THEN now()
                WHEN CAST(:again AS float8) IS NOT NULL THEN now() + make_interval(secs => :again) END,
            owed_since = CASE WHEN wanted > claimed OR CAST(:again AS float8) IS NOT NULL THEN now()
                ELSE owed_since END
        FROM mine WHERE work.tenant_id = :tenant AND work.kind = :kind AND work.key = mine.key AND mine.stays
    )
    SELECT count(*) FROM mine
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
    """End claims that are still ours, as the last statement; how many were.

    A row goes unless something newer is wanted; with `again_in` it is due again after so many seconds.
    """
    given = {"tenant": tenant_id, "kind": kind, "keys": keys, "tokens": tokens, "again": again_in}
    return int(connection.execute(_FINISH, given).scalar_one())


def keep(connection: Connection, tenant_id: str, kind: str, key: str, token: int) -> bool:
    """Lock a claimed row against whoever would claim it next; False: it is no longer ours."""
    found = connection.execute(
        text("""
            SELECT 1 FROM work WHERE tenant_id = :tenant AND kind = :kind AND key = :key AND token = :token
                AND claimed IS NOT NULL
            FOR NO KEY UPDATE
        """),
        {"tenant": tenant_id, "kind": kind, "key": key, "token": token},
    )
    return found.one_or_none() is not None


# What cannot be given up: something newer is wanted, which has all its attempts. Not so for `ingest`: new messages
# do not help a chat that cannot be placed.
_ANEW = "wanted > claimed AND kind <> 'ingest'"

_SPENT = f"(:dead OR (:counts AND attempts >= :max_attempts)) AND NOT ({_ANEW})"
_RETRY = text(f"""
    UPDATE work SET claimed = NULL, last_error = :error,
        attempts = CASE WHEN (:dead OR (:counts AND attempts >= :max_attempts)) AND {_ANEW} THEN 0
                        WHEN :counts THEN attempts ELSE greatest(attempts - 1, 0) END,
        due_at = CASE WHEN {_SPENT} THEN NULL ELSE now() + make_interval(secs => :delay) END,
        dead_at = CASE WHEN {_SPENT} THEN now() END
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
    """Give up rows that have used all their attempts and whose lease ran out; how many those were (maintenance).

    What was wanted anew meanwhile is due instead.
    """
    return connection.execute(
        text(f"""
            UPDATE work SET claimed = NULL,
                attempts = CASE WHEN {_ANEW} THEN 0 ELSE attempts END,
                due_at = CASE WHEN {_ANEW} THEN now() END,
                dead_at = CASE WHEN NOT ({_ANEW}) THEN now() END,
                last_error = coalesce(last_error, 'the worker died or hung every time')
            WHERE claimed IS NOT NULL AND due_at <= now() AND attempts >= :max_attempts
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


_DUE_BY_KIND = text(f"""
    WITH RECURSIVE kinds AS (
        (SELECT kind FROM work WHERE {_FREE} ORDER BY kind LIMIT 1)
        UNION ALL
        SELECT (SELECT work.kind FROM work WHERE {_FREE} AND work.kind > kinds.kind ORDER BY work.kind LIMIT 1)
        FROM kinds WHERE kinds.kind IS NOT NULL
    ), due AS (
        SELECT kind, (SELECT count(*) FROM (SELECT FROM work WHERE {_FREE} AND work.kind = kinds.kind
            AND priority = level AND due_at <= now() LIMIT :at_most) AS counted) AS found
        FROM kinds CROSS JOIN unnest(CAST(:priorities AS smallint[])) AS level WHERE kind IS NOT NULL
        UNION ALL
        SELECT kind, count(*) FROM work WHERE claimed IS NOT NULL AND due_at <= now() GROUP BY kind
    )
    SELECT kind, sum(found) FROM due GROUP BY kind HAVING sum(found) > 0
""")


def due_by_kind(connection: Connection, at_most: int) -> dict[str, int]:
    """How many rows may be claimed right now, by kind, each priority counted up to `at_most` (maintenance)."""
    given = {"at_most": at_most, "priorities": [LIVE, LATER]}
    return {str(row[0]): int(row[1]) for row in connection.execute(_DUE_BY_KIND, given)}


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
