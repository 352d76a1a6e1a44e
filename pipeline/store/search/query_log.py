"""SQL of the query log: what was asked and shown, what was answered, and what forgetting takes out of it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Row, text

from pipeline.store.connections.statements import arrays, holds, in_trip, run
from pipeline.store.connections.trips import Statement
from pipeline.store.erasure import suppression
from pipeline.store.memories import memory_rows
from pipeline.store.operations import counters

COLUMNS = (
    "context_id, chat_id, user_id, agent_id, session_key, profile, asked_at, query, shown, tokens, chars, "
    "used_tokens, budget, latency_ms, evidence, degraded, answer, used, answered_at, memory_id, redacted_at"
)

# `suppression_list` stops by what is true now; the key, without which nothing is listed, may be new since it was read.
# Each part reads what the one before it returns, so that rows are locked in this order: memories, then counters.
_RECORD = text(f"""
    WITH known AS MATERIALIZED (
        SELECT NOT EXISTS (SELECT 1 FROM suppression_list WHERE hash = ANY(CAST(:place AS bytea[]))
                AND (until IS NULL OR until >= :asked_at)) AND :logs AS logs,
            NOT EXISTS (SELECT 1 FROM suppression_list WHERE hash = ANY(CAST(:asker AS bytea[]))
                AND (until IS NULL OR until >= :asked_at)) AND :remembered AS remembered
        WHERE NOT :logs OR (SELECT key FROM tenant_keys) IS NOT DISTINCT FROM CAST(:key AS bytea)
    ), logged AS (
        INSERT INTO query_log (tenant_id, context_id, chat_id, user_id, agent_id, session_key, profile, asked_at,
            query, shown, tokens, chars, used_tokens, budget, latency_ms, evidence, degraded, redacted_at)
        SELECT :tenant, :context_id, :chat_id, CASE WHEN remembered THEN CAST(:user_id AS text) END, :agent_id,
            :session_key, :profile, :asked_at, CASE WHEN remembered THEN CAST(:query AS text) END,
            CASE WHEN remembered THEN CAST(:shown AS jsonb) ELSE '{{}}' END, :tokens, :chars, :used_tokens, :budget,
            :latency_ms, :evidence, :degraded, CASE WHEN NOT remembered THEN CAST(:asked_at AS timestamptz) END
        FROM known WHERE logs
        RETURNING context_id
    ), touched AS (
        {memory_rows.TOUCH} AND EXISTS (SELECT 1 FROM known) AND (SELECT count(*) FROM logged) >= 0
        RETURNING id
    ), counted AS (
        {counters.adding(after="known, (SELECT count(*) FROM touched) AS before")}
    )
    SELECT EXISTS (SELECT 1 FROM known)
""")
_GET = text(f"SELECT {COLUMNS} FROM query_log WHERE context_id = :id")
_GET_LOCKED = text(f"{_GET.text} FOR UPDATE")
_LISTING = text(f"""
    SELECT {COLUMNS} FROM query_log WHERE (CAST(:chat AS text) IS NULL OR chat_id = :chat)
        AND (CAST(:after AS text) IS NULL OR (asked_at, context_id) < (
            SELECT last.asked_at, last.context_id FROM query_log last WHERE last.context_id = :after))
    ORDER BY asked_at DESC, context_id DESC LIMIT :limit
""")
_SET_ANSWER = text("""
    UPDATE query_log SET answer = :answer, used = :used, answered_at = now() WHERE context_id = :id
""")
_SET_MEMORY = text("UPDATE query_log SET memory_id = :memory WHERE context_id = :id")
_HOLD_MESSAGES = text(
    "SELECT id FROM messages WHERE id = ANY(:ids) ORDER BY chat_id, external_id FOR KEY SHARE"
)
_HOLD_MEMORIES = text(
    "SELECT id FROM memories WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR NO KEY UPDATE"
)
# What goes of a row that something was taken out of: the answer, as it may repeat what was shown. Its figures stay.
_REDACT = """
    answer = NULL, used = NULL, answered_at = NULL, memory_id = NULL, redacted_at = coalesce(redacted_at, now())
"""
_REDACT_ITEMS = text(f"""
    WITH given AS MATERIALIZED (
        SELECT DISTINCT quotable(content) AS said FROM unnest(CAST(:texts AS text[])) AS content
    ), wanted AS MATERIALIZED (
        SELECT DISTINCT item FROM unnest(CAST(:items AS text[])) AS item
    ), locked AS MATERIALIZED (
        SELECT context_id, redacted_at IS NULL AS fresh, memory_id, hit.items, hit.quoted
        FROM query_log l CROSS JOIN LATERAL (SELECT quotable(query) AS asked OFFSET 0) AS question
        CROSS JOIN LATERAL (SELECT
            -- `shown ?| items` would try each of thousands of items; this hashes them once
            ARRAY(SELECT item FROM jsonb_object_keys(shown) AS item
                WHERE item IN (SELECT item FROM wanted)) AS items,
            l.chat_id = :chat AND EXISTS (SELECT 1 FROM given WHERE quotes(asked, said)) AS quoted
            OFFSET 0) AS hit
        WHERE context_id = ANY(ARRAY(
                SELECT contexts_with(:chat, CAST(:items AS text[]), CAST(:texts AS text[]))))
            AND (hit.items <> '{{}}' OR hit.quoted)
        ORDER BY context_id LIMIT :limit FOR UPDATE OF l
    ), redacted AS (
        UPDATE query_log l SET shown = shown - items,
            query = CASE WHEN quoted THEN NULL ELSE query END,
            user_id = CASE WHEN quoted THEN NULL ELSE user_id END, {_REDACT}
        FROM locked WHERE l.context_id = locked.context_id
    )
    SELECT fresh, memory_id FROM locked
""")
_REDACT_ASKERS = text(f"""
    UPDATE query_log SET query = NULL, user_id = NULL, shown = '{{}}', {_REDACT}
    WHERE user_id = ANY(:users) AND asked_at <= :until
""")
_DELETE = text("""
    DELETE FROM query_log WHERE asked_at <= :until AND (CAST(:chat AS text) IS NULL OR chat_id = :chat)
""")


class Served(TypedDict):
    """What is recorded of a context that is served, beside its row."""

    # whether memory is on in its chat, and its asker may be remembered unless the suppression list says otherwise
    remembered: bool
    # the tenant's key, and what may be in its suppression list, hashed under it
    key: bytes | None
    place: Sequence[bytes]
    asker: Sequence[bytes]
    # ids
    shown_memories: Sequence[str]
    # what is added to the daily counters
    counted: Mapping[str, float]


def record(
    connection: Connection, tenant_id: str, row: Mapping[str, Any], served: Served, *, logs: bool
) -> bool:
    """Record a context that is served, note that its memories were shown, and add to the daily counters.

    With `logs`, unless an entry of the suppression list among `place` stops it; only its figures if it is not
    `remembered` or one among `asker` stops that. False, and nothing is done, if the tenant's key is another one.
    """
    return holds(connection, _RECORD, **_values(tenant_id, row, served, logs=logs))


def record_at_once(tenant_id: str, row: Mapping[str, Any], served: Served) -> list[Statement]:
    """Return the statements of `suppression.lock_as_tenant` and of `record`, with `logs`, for `Database.one_trip`.

    Its row is what `record` returns.
    """
    return [
        suppression.lock_at_once(tenant_id, row["chat_id"]),
        in_trip(_RECORD, **_values(tenant_id, row, served, logs=True)),
    ]


def _values(tenant_id: str, row: Mapping[str, Any], served: Served, *, logs: bool) -> dict[str, Any]:
    """Return the parameters of `_RECORD`."""
    figures = sorted((name, float(value)) for name, value in served["counted"].items() if value)
    own = {"tenant": tenant_id, "logs": logs, "ids": served["shown_memories"]}
    return {**row, **served, **own, **arrays("names values", figures)}


def get(connection: Connection, context_id: str, *, locked: bool = False) -> Row[Any] | None:
    """Return a row by its context's id."""
    return run(connection, _GET_LOCKED if locked else _GET, id=context_id).one_or_none()


def listing(
    connection: Connection, chat_id: str | None, limit: int, after: str | None = None
) -> Sequence[Row[Any]]:
    """Return the newest rows, of one chat or of all; with `after`, those that follow it."""
    return run(connection, _LISTING, chat=chat_id, limit=limit, after=after).all()


def set_answer(connection: Connection, context_id: str, answer: str, used: Sequence[str] | None) -> None:
    """Record the answer."""
    run(
        connection,
        _SET_ANSWER,
        id=context_id,
        answer=answer,
        used=None if used is None else Jsonb(list(used)),
    )


def set_memory(connection: Connection, context_id: str, memory_id: UUID) -> None:
    """Record the memory that question and answer were kept as."""
    run(connection, _SET_MEMORY, id=context_id, memory=memory_id)


def hold(connection: Connection, messages: Sequence[int], memory_ids: Sequence[str]) -> int:
    """Keep messages and memories from being deleted until the transaction ends; return how many exist."""
    held = run(connection, _HOLD_MESSAGES, ids=messages).all()
    return len(held) + len(run(connection, _HOLD_MEMORIES, ids=memory_ids).all())


class Redacted(NamedTuple):
    """What was taken out of the log."""

    rows: int
    # rows that nothing was taken out of before
    fresh: int
    # what question and answer of these rows were kept as
    memories: frozenset[UUID]


def redact(
    connection: Connection,
    items: Sequence[str],
    chat_id: str | None,
    texts: Sequence[str],
    limit: int | None = None,
) -> Redacted:
    """Remove items, by `kind:id`, from what contexts showed, and from a chat's rows the questions that say a text.

    Of at most `limit` rows; the answers go with either. A bot asks with the very message that it reacts to, or with
    a part of it, and need not say who wrote it.
    """
    rows = run(connection, _REDACT_ITEMS, items=items, chat=chat_id, texts=texts, limit=limit).all()
    made = frozenset(row.memory_id for row in rows if row.memory_id is not None)
    return Redacted(rows=len(rows), fresh=sum(row.fresh for row in rows), memories=made)


def redact_askers(connection: Connection, user_ids: Sequence[str], until: datetime) -> int:
    """Remove what these users asked until then, were shown and answered, but the figures; return how many."""
    return run(connection, _REDACT_ASKERS, users=user_ids, until=until).rowcount


def delete(connection: Connection, until: datetime, chat_id: str | None = None) -> int:
    """Delete a chat's rows, or all, that were asked until then; return how many."""
    return run(connection, _DELETE, until=until, chat=chat_id).rowcount
