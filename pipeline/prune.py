"""Delete what has expired, in bounded batches, one transaction each, and say how much and why.

Runs every hour. Limits: `batch` rows in a transaction (locks are held for milliseconds), and `max_rows` in a
run, so that a first prune of a large history takes several runs instead of one endless one.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from pipeline.retention import Retention
from pipeline.store import chats
from pipeline.store import retention as store
from pipeline.store.database import Database
from schemas.settings import Settings

BATCH = 500
MAX_ROWS = 50_000
"""By one rule in one run: the next one goes on."""


def retention_of(settings: Settings) -> Retention:
    """What the settings ask to keep."""
    return Retention(
        message_age=timedelta(days=settings.retention_days) if settings.retention_days else None,
        messages_per_chat=settings.retention_messages_per_chat,
        memories_per_session=settings.memory_session_max,
        memories_per_user=settings.memory_user_max,
        query_log_age=timedelta(days=settings.query_log_days),
        pending_edit_age=timedelta(days=settings.pending_edit_days),
    )


def prune(
    database: Database,
    tenant_id: str,
    keep: Retention,
    *,
    dry_run: bool = False,
    batch: int = BATCH,
) -> dict[str, int]:
    """Delete one tenant's expired rows; how many by rule (with `dry_run`, how many there are, up to `MAX_ROWS`)."""
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
        ("merged_sessions", "conversation_sessions", store.MERGED_SESSIONS, {}),
    ]
    pruned = {}
    for name, table, doomed, given in rules:
        if dry_run:
            with database.tenant(tenant_id) as connection:
                pruned[name] = store.count(connection, doomed, **given, batch=MAX_ROWS)
        else:
            pruned[name] = _in_batches(database, tenant_id, _deleter(table, doomed, given), batch)
    return pruned


def _deleter(table: str, doomed: str, given: dict[str, Any]) -> Callable[[Connection, int], int]:
    if table == "messages":
        return lambda connection, batch: store.delete_messages(connection, doomed, **given, batch=batch)
    return lambda connection, batch: store.delete(connection, table, doomed, **given, batch=batch)


def _in_batches(
    database: Database, tenant_id: str, delete: Callable[[Connection, int], int], batch: int
) -> int:
    deleted = 0
    while deleted < MAX_ROWS:
        with database.tenant(tenant_id) as connection:
            here = delete(connection, min(batch, MAX_ROWS - deleted))
        deleted += here
        if here == 0:
            break
    return deleted
