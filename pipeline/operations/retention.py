"""Retention: delete expired rows in bounded batches, one transaction each, and count them by rule.

Runs every hour. Limits: `batch` rows in a transaction, to hold locks briefly, and `MAX_ROWS` of a rule in a run, so
that the first prune of a large history takes several runs instead of one endless one.

Tables without a rule: the suppression list stays, as forgotten data may be sent again any time; sessions and their
summaries are the memory itself; jobs, arrivals, vectors, members and links are deleted with their subject.
"""

import math
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from pipeline.jobs.failures import reason_of
from pipeline.store.chats import chats
from pipeline.store.chats.chats import tenant_ids
from pipeline.store.connections.database import Database
from pipeline.store.erasure import retention as store
from schemas.errors import BackscrollError, SchemaOutdated
from schemas.settings import Settings

log = structlog.get_logger(__name__)

BATCH = 500
MAX_ROWS = 50_000
"""Rows of one rule in one run; the next run continues."""
RUN_SECONDS = 60.0
"""For all tenants, well under a worker's time limit; the next run continues with the tenants that are left."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How much is kept, and for how long; None: no limit."""

    # raw messages, by the sender's time
    message_age: timedelta | None
    # raw messages of one chat, the newest first
    messages_per_chat: int | None
    # memories of one session, the newest first
    memories_per_session: int
    # memories of one user, the most useful first (`pipeline.store.erasure.retention.USEFULNESS`), documents aside
    memories_per_user: int
    # memories that were superseded or retracted, by when that was
    history_age: timedelta
    # remembered answers, by when they were last shown
    unused_answer_age: timedelta
    # the query log, by the time of the question
    query_log_age: timedelta
    # edits whose message has not arrived, and refused payloads, by their arrival
    pending_edit_age: timedelta
    # records of calls to language models, and answers kept for a retry that never came
    llm_call_age: timedelta
    llm_answer_age: timedelta = timedelta(days=1)
    # the service's own records: figures by day, receipts of forgetting, backfills that ended
    record_age: timedelta = timedelta(days=400)

    def in_words(self) -> dict[str, str]:
        """Describe each rule in a sentence, for dry runs and logs."""
        age, count = self.message_age, self.messages_per_chat
        by_count = f"messages beyond the newest {count} of a chat"
        return {
            "messages_by_age": f"messages older than {age.days} days"
            if age
            else "off: messages of any age are kept",
            "messages_by_count": by_count if count else "off: any number of messages is kept",
            "memories_expired": "memories whose time is up",
            "memories_over_session_cap": f"memories beyond the newest {self.memories_per_session} of a session",
            "memories_over_user_cap": f"memories beyond the {self.memories_per_user} most useful of a user",
            "memories_history": f"memories superseded or retracted over {self.history_age.days} days ago",
            "memories_unused_answers": f"remembered answers not shown for {self.unused_answer_age.days} days",
            "query_log": f"questions, and answers to them, older than {self.query_log_age.days} days",
            "llm_calls": f"records of calls to language models older than {self.llm_call_age.days} days",
            "llm_answers": "answers of language models that no job has used for a day",
            "pending_edits": f"edits whose message has not come for {self.pending_edit_age.days} days",
            "refused_payloads": f"payloads that were refused over {self.pending_edit_age.days} days ago, or before the "
            "messages that are kept",
            "merged_sessions": "pointers of sessions that were joined into others over a month ago",
            "session_closes": "closed sessions' ends, over a month ago, before which no message is left",
            "forget_receipts": f"receipts of what was forgotten over {self.record_age.days} days ago",
            "backfills": f"backfills that ended over {self.record_age.days} days ago",
            "daily_counters": f"figures of days over {self.record_age.days} days ago",
            "daily_counters_apart": "parts of the figures of past days, added up",
        }


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The result of a run over all tenants."""

    # rows by tenant and rule
    rows: dict[str, dict[str, int]]
    # tenants that could not be pruned, with the reason
    failed: dict[str, str]
    # the last tenant pruned when time was up; None: all were
    stopped_at: str | None


def retention_of(settings: Settings) -> Retention:
    return Retention(
        message_age=timedelta(days=settings.retention_days) if settings.retention_days else None,
        messages_per_chat=settings.retention_messages_per_chat,
        memories_per_session=settings.memory_session_max,
        memories_per_user=settings.memory_user_max,
        history_age=timedelta(days=settings.memory_history_days),
        unused_answer_age=timedelta(days=settings.memory_answers_days),
        query_log_age=timedelta(days=settings.query_log_days),
        pending_edit_age=timedelta(days=settings.pending_edit_days),
        llm_call_age=timedelta(days=settings.llm_calls_days),
    )


def prune_all(
    database: Database, keep: Retention, *, after: str = "", seconds: float = RUN_SECONDS
) -> Pruned:
    """Prune the tenants whose names come after `after`, until the time is up.

    A failure with one is reported in `failed`, and the others go on. Raises `SchemaOutdated`.
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

    Stops at the `deadline` of the monotonic clock, and leaves the rest to the next run.
    """
    with database.tenant(tenant_id) as connection:
        now = chats.database_now(connection)
    old, edited = {"before": now - keep.record_age}, {"before": now - keep.pending_edit_age}
    # refused payloads hold messages, which may expire sooner
    refused = {"before": now - min(keep.pending_edit_age, keep.message_age or keep.pending_edit_age)}
    parameters: dict[str, Any]
    rules: list[tuple[str, str, str, dict[str, Any]]] = []
    if keep.message_age is not None:
        parameters = {"before": now - keep.message_age}
        rules.append(("messages_by_age", "messages", store.MESSAGES_BY_AGE, parameters))
    if keep.messages_per_chat is not None:
        parameters = {"keep": keep.messages_per_chat}
        rules.append(("messages_by_count", "messages", store.MESSAGES_BY_COUNT, parameters))
    history, unused = {"before": now - keep.history_age}, {"before": now - keep.unused_answer_age}
    by_session, by_user = {"keep": keep.memories_per_session}, {"keep": keep.memories_per_user}
    rules += [
        ("memories_expired", "memories", store.MEMORIES_EXPIRED, {}),
        ("memories_over_session_cap", "memories", store.MEMORIES_OVER_SESSION_CAP, by_session),
        ("memories_history", "memories", store.MEMORIES_HISTORY, history),
        ("memories_unused_answers", "memories", store.MEMORIES_UNUSED_ANSWERS, unused),
        ("memories_over_user_cap", "memories", store.MEMORIES_OVER_USER_CAP, by_user),
        ("query_log", "query_log", store.QUERY_LOG, {"before": now - keep.query_log_age}),
        ("llm_calls", "llm_calls", store.LLM_CALLS, {"before": now - keep.llm_call_age}),
        ("llm_answers", "llm_answers", store.LLM_ANSWERS, {"before": now - keep.llm_answer_age}),
        ("pending_edits", "pending_changes", store.PENDING_EDITS, edited),
        ("refused_payloads", "refused_payloads", store.REFUSED_PAYLOADS, refused),
        ("merged_sessions", "conversation_sessions", store.MERGED_SESSIONS, {}),
        ("session_closes", "session_closes", store.SESSION_CLOSES, {}),
        ("forget_receipts", "forget_receipts", store.RECEIPTS, old),
        ("backfills", "backfills", store.BACKFILLS, old),
        ("daily_counters", "daily_counters", store.COUNTERS, old),
        ("daily_counters_apart", "daily_counters", store.COUNTERS_APART, {}),
    ]
    pruned = dict.fromkeys((name for name, *_ in rules), 0)
    for name, table, doomed, parameters in rules:
        if dry_run:
            with database.tenant(tenant_id) as connection:
                pruned[name] = store.count(connection, doomed, **parameters, batch=MAX_ROWS)
        while not dry_run and pruned[name] < MAX_ROWS and monotonic() < deadline:
            with database.tenant(tenant_id) as connection:
                limit = min(batch, MAX_ROWS - pruned[name])
                deleted = _delete(connection, table, doomed, parameters | {"batch": limit})
            pruned[name] += deleted
            if deleted == 0:
                break
    return pruned


def _delete(connection: Connection, table: str, doomed: str, parameters: dict[str, Any]) -> int:
    if doomed == store.COUNTERS_APART:
        return store.fold_counters(connection, doomed, **parameters)
    if table == "messages":
        return store.delete_messages(connection, doomed, **parameters)
    return store.delete(connection, table, doomed, **parameters)
