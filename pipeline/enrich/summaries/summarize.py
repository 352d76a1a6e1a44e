"""Summarize sessions: load, call, save; the call is outside any transaction.

A closed session is summarized whole, a long open one as it grows: from the summary so far and the messages since. A
language model, which costs money, also continues its summary of a closed session if only later messages came. If it
gives no usable answer, the session gets an extractive summary, and the model is asked again later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Any

import structlog
from sqlalchemy import Connection, Row

from pipeline.enrich.model_calls import source_of
from pipeline.enrich.protocols import Summarizer, SummarySource
from pipeline.enrich.summaries import summary_policy
from pipeline.enrich.summaries.summarizers import (
    ExtractiveSummarizer,
    LanguageModelSummarizer,
    summarize_session,
)
from pipeline.enrich.summaries.summary_policy import SummaryPolicy, is_due, is_for_model
from pipeline.jobs import runner
from pipeline.store.chats import chats
from pipeline.store.connections import transactions
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.memories import memory_rows
from pipeline.store.messages import message_rows
from pipeline.store.operations import counters
from pipeline.store.sessions import session_rows
from schemas.errors import (
    BudgetSpent,
    LeaseLost,
    Permanent,
    ProviderFailed,
    ProviderRejected,
)
from schemas.sessions import EXTRACTIVE, Summary, is_named

log = structlog.get_logger(__name__)

FAILED = {"session_summary_failures": 1}
"""Counted for each attempt that brought no summary by the model in use, whatever is done about it."""
EARLIER_MESSAGES = 300
"""Messages before a session whose words are compared with its own, to find what sets it apart."""


def summarizer(database: Database, client: Summarizer, policy: SummaryPolicy) -> runner.Handler:
    """Make the handler of `summarize` jobs: each claim is a session."""

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        saved = runner.do_each(
            claims, lambda claim: _summarize(database, tenant_id, claim, client, policy) or None
        )
        return {"embed"} if saved else set()

    return handle


def _summarize(
    database: Database, tenant_id: str, claim: Claim, client: Summarizer, policy: SummaryPolicy
) -> bool:
    """Summarize one session; return whether there is a new summary to embed."""
    session_id = int(claim.key.removeprefix("session:"))
    with database.tenant(tenant_id) as connection:
        row = session_rows.find(connection, session_id)
        if (
            row is not None
            and client.model != EXTRACTIVE
            and not is_for_model(connection, row, policy.rollout)
        ):
            client = ExtractiveSummarizer()
        if (
            row is None
            or row.id != session_id
            or not is_due(connection, tenant_id, row, policy, client.model)
        ):
            jobs.finish(connection, [claim])
            return False
        chat = chats.get(connection, row.chat_id)
        earlier = message_rows.said_before(connection, row.chat_id, row.started_at, limit=EARLIER_MESSAGES)
    source = replace(source_of(database, claim, row.chat_id, chat, policy.lease_seconds), earlier=earlier)
    started = monotonic()
    try:
        made = _compose(database, row, client, source, policy)
    except Permanent as error:
        with database.tenant(tenant_id) as connection:
            session_rows.set_status(connection, session_id, row.revision, "failed", str(error))
            counters.add(connection, tenant_id, FAILED)
            runner.give_up(connection, claim, error)
        return False
    except (BudgetSpent, LeaseLost):
        raise
    except Exception:
        with database.tenant(tenant_id) as connection:
            counters.add(connection, tenant_id, FAILED)
        raise
    with database.tenant(tenant_id) as connection:
        if isinstance(client, LanguageModelSummarizer):
            client.forget_answers(connection, source)
        saved = session_rows.save_summary(
            connection, row, made.summary, model=made.model, version=policy.version
        )
        if saved:
            jobs.enqueue(
                connection,
                tenant_id,
                "embed",
                [f"session:{session_id}"],
                lane=row.chat_id,
                priority=claim.priority,
                trace_id=claim.trace_id,
            )
            if policy.session_lifetime is not None and row.status == "open" and is_named(row.session_key):
                _remember(connection, claim, row, made.summary, source.language, policy.session_lifetime)
            if policy.rollup_after_seconds is not None:
                summary_policy.enqueue_rollups(
                    connection,
                    tenant_id,
                    row.chat_id,
                    row.started_at,
                    source.time_zone,
                    settle_seconds=policy.rollup_after_seconds,
                    priority=claim.priority,
                    trace_id=claim.trace_id,
                )
            transactions.log_once_committed(
                connection,
                "session_summarized",
                tenant=tenant_id,
                session_id=session_id,
                chat_id=row.chat_id,
                model=made.model,
                messages=row.message_count,
                seconds=round(seconds := monotonic() - started, 2),
                trace_id=claim.trace_id,
            )
            counters.add(
                connection,
                tenant_id,
                {"session_summaries_created": 1, "session_summary_seconds": seconds},
            )
        if made.failure is not None:
            _note_fallback(connection, claim, row, made.failure)
        runner.finish_with_fallback(connection, claim, made.failure)
    return saved


def _remember(
    connection: Connection, claim: Claim, row: Row[Any], summary: Summary, language: str, lives_for: timedelta
) -> None:
    """Store an open session's summary as a memory of it, too."""
    memory_id = memory_rows.save_summary(
        connection, claim.tenant_id, row, summary.summary, language, lives_for
    )
    if memory_id is not None:
        jobs.enqueue(connection, claim.tenant_id, "embed", [f"memory:{memory_id}"], lane=row.chat_id)


@dataclass(frozen=True, kw_only=True)
class _Result:
    """A summary, and the model that made it."""

    summary: Summary
    model: str
    # why it is extractive although a language model was asked
    failure: Exception | None = None


def _compose(
    database: Database, row: Row[Any], client: Summarizer, source: SummarySource, policy: SummaryPolicy
) -> _Result:
    """Summarize a session, by extraction if the language model gives no usable answer."""
    try:
        summary = summarize_session(database, row, client, source, policy.version)
        return _Result(summary=summary, model=client.model)
    except (ProviderFailed, ProviderRejected, BudgetSpent) as error:
        waits = isinstance(error, BudgetSpent) and not policy.extracts_when_spent
        if client.model == EXTRACTIVE or waits:
            raise
        summary = summarize_session(database, row, ExtractiveSummarizer(), source, policy.version)
        return _Result(summary=summary, model=EXTRACTIVE, failure=error)


def _note_fallback(connection: Connection, claim: Claim, row: Row[Any], failure: Exception) -> None:
    """Record why the model's summary is missing."""
    reason = runner.fail(claim, failure)
    log.warning("summary_extracted", key=claim.key, trace_id=claim.trace_id, error=reason)
    session_rows.set_status(connection, row.id, row.revision, "summarized", reason)
    failed = {} if isinstance(failure, BudgetSpent) else FAILED
    counters.add(connection, claim.tenant_id, {"session_summary_fallbacks": 1, **failed})
