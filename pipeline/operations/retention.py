"""Delete what has expired, in bounded batches, one transaction each, and say how much and why.

Runs every hour. Limits: `batch` rows in a transaction (locks are held for milliseconds), and `max_rows` in a
run, so that a first prune of a large history takes several runs instead of one endless one.

Tables without a rule: tombstones and their keys stay, as each keeps something out that may be sent again any time;
sessions and their summaries are the memory itself; work, arrivals, vectors, members and links go with what they are of.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from pipeline.jobs.runner import reason_of
from pipeline.operations.expiry import Retention
from pipeline.store import chats
from pipeline.store import retention as store
from pipeline.store.chats import tenant_ids
from pipeline.store.database import Database
from schemas.errors import BackscrollError, SchemaOutdated
from schemas.settings import Settings

log = structlog.get_logger(__name__)

BATCH = 500
MAX_ROWS = 50_000
"""By one rule in one run: the next one goes on."""
SECONDS_AT_ONCE = 60.0
"""Of a run over all tenants, well under a worker's time limit: the next one goes on with the tenants that are left."""


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What a run over all tenants did."""

    # rows by tenant and rule
    rows: dict[str, dict[str, int]]
    # tenants that could not be pruned, with the reason
    failed: dict[str, str]
    # the last tenant that was looked at when time was up; none: all were
    stopped_at: str | None


def retention_of(settings: Settings) -> Retention:
    """Return the retention that the settings ask for."""
    return Retention(
        message_age=timedelta(days=settings.retention_days) if settings.retention_days else None,
        messages_per_chat=settings.retention_messages_per_chat,
        memories_per_session=settings.memory_session_max,
        memories_per_user=settings.memory_user_max,
        query_log_age=timedelta(days=settings.query_log_days),
        pending_edit_age=timedelta(days=settings.pending_edit_days),
    )


def prune_all(
    database: Database, keep: Retention, *, after: str = "", seconds: float = SECONDS_AT_ONCE
) -> Pruned:
    """Prune the tenants whose names come after `after`, until the time is up.

    What goes wrong with one is told in `failed` and costs none of the others their turn. Raises `SchemaOutdated`.
    """
    deadline = monotonic() + seconds
    with database.maintenance() as connection:
        tenants = [tenant for tenant in tenant_ids(connection) if tenant > after]
    rows: dict[str, dict[str, int]] = {}
    failed: dict[str, str] = {}
    for number, tenant_id in enumerate(tenants, 1):
        try:
            rows[tenant_id] = prune(database, tenant_id, keep, deadline=deadline)
        except SchemaOutdated:
            raise
        except (BackscrollError, SQLAlchemyError) as error:
            failed[tenant_id] = reason_of(error)
            log.warning("prune_failed", tenant=tenant_id, error=failed[tenant_id])
        if number < len(tenants) and monotonic() >= deadline:
            return Pruned(rows=rows, failed=failed, stopped_at=tenant_id)
    return Pruned(rows=rows, failed=failed, stopped_at=None)


def prune(
    database: Database,
    tenant_id: str,
    keep: Retention,
    *,
    dry_run: bool = False,
    batch: int = BATCH,
    deadline: float = math.inf,
) -> dict[str, int]:
    """Delete one tenant's expired rows, and count them by rule (a `dry_run` only counts, up to `MAX_ROWS`).

    Ends at the `deadline` of the monotonic clock, with what is left for the next run.
    """
    with database.tenant(tenant_id) as connection:
        now = chats.database_now(connection)
    before = keep.oldest_message(now)
    rules: list[tuple[str, str, str, dict[str, Any]]] = []
    if before is not None:
        rules.append(("messages_by_age", "messages", store.MESSAGES_BY_AGE, {"before": before}))
    if keep.messages_per_chat is not None:
        given = {"keep": keep.messages_per_chat}
        rules.append(("messages_by_count", "messages", store.MESSAGES_BY_COUNT, given))
    rules += [
        ("memories_expired", "memories", store.MEMORIES_EXPIRED, {}),
        (
            "memories_over_session_cap",
            "memories",
            store.MEMORIES_OVER_SESSION_CAP,
            {"keep": keep.memories_per_session},
        ),
        (
            "memories_over_user_cap",
            "memories",
            store.MEMORIES_OVER_USER_CAP,
            {"keep": keep.memories_per_user},
        ),
        ("query_log", "query_log", store.QUERY_LOG, {"before": now - keep.query_log_age}),
        ("pending_edits", "pending_changes", store.PENDING_EDITS, {"before": now - keep.pending_edit_age}),
        (
            "refused_payloads",
            "refused_payloads",
            store.REFUSED_PAYLOADS,
            {"before": keep.oldest_refused(now)},
        ),
        ("merged_sessions", "conversation_sessions", store.MERGED_SESSIONS, {}),
        ("session_closes", "session_closes", store.SESSION_CLOSES, {}),
        ("forget_receipts", "forget_receipts", store.RECEIPTS, {"before": now - keep.record_age}),
        ("backfills", "backfills", store.BACKFILLS, {"before": now - keep.record_age}),
        ("daily_counters", "daily_counters", store.COUNTERS, {"before": now - keep.record_age}),
        ("daily_counters_apart", "daily_counters", store.COUNTERS_APART, {}),
    ]
    pruned = {}
    for name, table, doomed, given in rules:
        if dry_run:
            with database.tenant(tenant_id) as connection:
                pruned[name] = store.count(connection, doomed, **given, batch=MAX_ROWS)
        else:
            pruned[name] = _in_batches(database, tenant_id, _deleter(table, doomed, given), batch, deadline)
    return pruned


def _deleter(table: str, doomed: str, given: dict[str, Any]) -> Callable[[Connection, int], int]:
    if doomed == store.COUNTERS_APART:
        return lambda connection, batch: store.fold_counters(connection, doomed, **given, batch=batch)
    if table == "messages":
        return lambda connection, batch: store.delete_messages(connection, doomed, **given, batch=batch)
    return lambda connection, batch: store.delete(connection, table, doomed, **given, batch=batch)


def _in_batches(
    database: Database,
    tenant_id: str,
    delete: Callable[[Connection, int], int],
    batch: int,
    deadline: float,
) -> int:
    deleted = 0
    while deleted < MAX_ROWS and monotonic() < deadline:
        with database.tenant(tenant_id) as connection:
            here = delete(connection, min(batch, MAX_ROWS - deleted))
        deleted += here
        if here == 0:
            break
    return deleted
