"""Summarize sessions: load, call, save; the call is outside any transaction.

A closed session is summarized whole, one that stays open too long as it goes on: from the summary so far and the
messages since. A language model, which costs something, also goes on where only later messages came. Where it gives no
usable answer the session gets an extractive summary, and the model is asked again later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from functools import partial
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

import structlog
from sqlalchemy import Connection, Row

from pipeline.enrich import weeks
from pipeline.enrich.language_model import LanguageModelSummarizer
from pipeline.enrich.protocols import Source, Summarizer
from pipeline.enrich.summarizers import ExtractiveSummarizer
from pipeline.jobs import runner
from pipeline.jobs.runner import Claim
from pipeline.store import chats, counters, jobs, messages, sessions, summary_memories
from pipeline.store.database import Database
from schemas.errors import (
    BudgetSpent,
    LeaseLost,
    Permanent,
    ProviderFailed,
    ProviderRejected,
)
from schemas.sessions import EXTRACTIVE, Message, Summary, is_named

log = structlog.get_logger(__name__)

MESSAGES_AT_ONCE = 1000
"""A longer session is summarized in parts, each together with the summary of those before it."""

OVERLAP = timedelta(seconds=2)
"""What a rolling summary reads again: messages of one second come in any order."""

QUIET_TIME, QUIET_SESSIONS = timedelta(days=7), 7
"""A chat is quiet where it had fewer sessions within this time: less than one a day."""

AGAIN_SECONDS = 6 * 3600.0
"""When a model is asked again that gave no usable summary; by then it may be another one, or set up differently."""
AGAIN_ATTEMPTS = 3
"""How often it is asked in all; after that only a backfill asks it again."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Which sessions a language model summarizes; the others are extracted from."""

    # only those of these chats; empty: of all
    chats: frozenset[str] = frozenset()
    # of a quiet chat only every this many
    every: int = 1


@dataclass(frozen=True, kw_only=True)
class _Pace:
    """Which sessions are summarized, and when again."""

    min_messages: int
    version: int
    rolling_messages: int
    rolling_tokens: int
    named_rolling_messages: int
    session_lifetime: timedelta | None
    rollout: Rollout
    lease_seconds: float
    extracts_when_spent: bool
    rollup_after_seconds: float | None


def summarizer(
    database: Database,
    client: Summarizer,
    *,
    min_messages: int,
    version: int,
    rolling_messages: int = 1,
    rolling_tokens: int = 1,
    named_rolling_messages: int = 1,
    session_lifetime: timedelta | None = None,
    rollout: Rollout = Rollout(),
    lease_seconds: float = 120,
    extracts_when_spent: bool = False,
    rollup_after_seconds: float | None = None,
) -> runner.Handler:
    """Make the handler of `summarize` jobs: each claim is a session.

    A closed session of fewer than `min_messages` is marked as skipped. Nothing is done for one whose summary is of its
    revision and of this `version`, nor for an open one that has grown by fewer than `rolling_messages` (if an agent
    named it, `named_rolling_messages`) and `rolling_tokens` since. With a `session_lifetime`, the summary of an open
    session that an agent named is a memory of it, too, and lives for that long after it was last shown. The lease
    begins anew before each call to a model, so it must be longer than one. With `extracts_when_spent` a session does
    not wait for the next day's budget. With `rollup_after_seconds` its week is rolled up that long after both are over.
    """
    pace = _Pace(
        min_messages=min_messages,
        version=version,
        rolling_messages=rolling_messages,
        rolling_tokens=rolling_tokens,
        named_rolling_messages=named_rolling_messages,
        session_lifetime=session_lifetime,
        rollout=rollout,
        lease_seconds=lease_seconds,
        extracts_when_spent=extracts_when_spent,
        rollup_after_seconds=rollup_after_seconds,
    )

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        saved = False
        for claim in claims:
            try:
                saved |= _summarize(database, tenant_id, claim, client, pace)
            except LeaseLost:
                # deleted, changed or joined meanwhile, or slower than its lease: no failure
                log.info("summarize_overtaken", key=claim.key, trace_id=claim.trace_id)
        return {"embed"} if saved else set()

    return handle


def _summarize(database: Database, tenant_id: str, claim: Claim, client: Summarizer, pace: _Pace) -> bool:
    """Do one claim, and return whether there is a new summary to embed."""
    session_id = int(claim.key.removeprefix("session:"))
    with database.tenant(tenant_id) as connection:
        row = sessions.find(connection, session_id)
        if row is not None and not _is_for_model(connection, row, client, pace.rollout):
            client = ExtractiveSummarizer()
        if row is None or row.id != session_id or not _wanted(connection, tenant_id, row, pace, client.model):
            runner.finish(connection, [claim])
            return False
        chat = chats.get(connection, row.chat_id)
    source = Source(
        tenant_id=tenant_id,
        chat_id=row.chat_id,
        language=chat.language if chat else "simple",
        claim=claim,
        before_call=partial(runner.renew, database, claim, pace.lease_seconds),
    )
    started = monotonic()
    try:
        made = _make(database, row, client, source, ZoneInfo(chat.time_zone if chat else "UTC"), pace)
    except Permanent as error:
        with database.tenant(tenant_id) as connection:
            sessions.set_status(connection, session_id, row.revision, "failed", str(error))
            counters.add(connection, tenant_id, {"session_summary_failures": 1})
            runner.give_up(connection, claim, error)
        return False
    with database.tenant(tenant_id) as connection:
        if isinstance(client, LanguageModelSummarizer):
            client.forget_answers(connection, source)
        saved = sessions.save_summary(connection, row, made.summary, model=made.model, version=pace.version)
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
            if pace.session_lifetime is not None and row.status == "open" and is_named(row.session_key):
                _remember(connection, claim, row, made.summary, source.language, pace.session_lifetime)
            if pace.rollup_after_seconds is not None:
                weeks.enqueue(
                    connection,
                    tenant_id,
                    row.chat_id,
                    row.started_at,
                    ZoneInfo(chat.time_zone if chat else "UTC"),
                    settle_seconds=pace.rollup_after_seconds,
                    priority=claim.priority,
                    trace_id=claim.trace_id,
                )
            counters.add(
                connection,
                tenant_id,
                {"session_summaries_created": 1, "session_summary_seconds": monotonic() - started},
            )
        if made.failure is None:
            runner.finish(connection, [claim])
        else:
            _end_with_fallback(connection, claim, row, made.failure)
    return saved


def _remember(
    connection: Connection, claim: Claim, row: Row[Any], summary: Summary, language: str, lives_for: timedelta
) -> None:
    """Keep what an open session has been about as a memory of it."""
    made = summary_memories.put(connection, claim.tenant_id, row, summary.summary, language, lives_for)
    if made is not None:
        jobs.enqueue(connection, claim.tenant_id, "embed", [f"memory:{made}"], lane=row.chat_id)


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A summary, and by which model."""

    summary: Summary
    model: str
    # why it is extracted, where a language model was asked
    failure: Exception | None = None


def _make(
    database: Database, row: Row[Any], client: Summarizer, source: Source, time_zone: tzinfo, pace: _Pace
) -> _Made:
    """Summarize a session, by extraction where the language model gives no usable answer."""
    try:
        summary = _read_and_call(database, row, client, source, time_zone, pace.version)
        return _Made(summary=summary, model=client.model)
    except (ProviderFailed, ProviderRejected, BudgetSpent) as error:
        waits = isinstance(error, BudgetSpent) and not pace.extracts_when_spent
        if client.model == EXTRACTIVE or waits:
            raise
        summary = _read_and_call(database, row, ExtractiveSummarizer(), source, time_zone, pace.version)
        return _Made(summary=summary, model=EXTRACTIVE, failure=error)


def _end_with_fallback(connection: Connection, claim: Claim, row: Row[Any], failure: Exception) -> None:
    """Note why the model's summary is missing, and keep the job due if the model is to be asked again."""
    reason = runner.reason_of(failure)
    log.warning("summary_extracted", key=claim.key, trace_id=claim.trace_id, error=reason)
    sessions.set_status(connection, row.id, row.revision, "summarized", reason)
    counters.add(connection, claim.tenant_id, {"session_summary_fallbacks": 1})
    if claim.attempts < AGAIN_ATTEMPTS:
        budget_in = failure.retry_after if isinstance(failure, BudgetSpent) else 0.0
        runner.do_again(connection, claim, delay_seconds=max(AGAIN_SECONDS, budget_in))
    else:
        runner.finish(connection, [claim])


def _is_for_model(connection: Connection, row: Row[Any], client: Summarizer, rollout: Rollout) -> bool:
    """Tell whether a session is one that the model summarizes."""
    if client.model == EXTRACTIVE:
        return True
    if rollout.chats and row.chat_id not in rollout.chats:
        return False
    if rollout.every == 1:
        return True
    before, lately = sessions.count_before(connection, row.chat_id, row.started_at, row.id, QUIET_TIME)
    return lately >= QUIET_SESSIONS or before % rollout.every == 0


def _wanted(connection: Connection, tenant_id: str, row: Row[Any], pace: _Pace, model: str) -> bool:
    """Tell whether a session is to be summarized now, and mark one that is not."""
    if row.status != "open" and row.message_count < pace.min_messages:
        sessions.set_status(connection, row.id, row.revision, "skipped")
        counters.add(connection, tenant_id, {"session_summary_skipped_small": 1})
        return False
    is_current = (row.summary_revision, row.summary_version) == (row.revision, pace.version)
    # what retention has left of a session makes no better summary
    if is_current and (
        row.summary_model != EXTRACTIVE or model == EXTRACTIVE or not _is_whole(connection, row)
    ):
        sessions.set_status(connection, row.id, row.revision, "summarized")
        return False
    enough = pace.named_rolling_messages if is_named(row.session_key) else pace.rolling_messages
    return bool(
        row.status != "open"
        or row.message_count - (row.summary_message_count or 0) >= enough
        or row.token_count - (row.summary_token_count or 0) >= pace.rolling_tokens
    )


def _is_whole(connection: Connection, row: Row[Any]) -> bool:
    """Tell whether all messages of a session are still stored."""
    place = row.chat_id, row.session_key, row.started_at, row.ended_at
    return messages.count_in_range(connection, *place) >= int(row.message_count)


def _read_and_call(
    database: Database, row: Row[Any], client: Summarizer, source: Source, time_zone: tzinfo, version: int
) -> Summary:
    """Read and summarize a session's messages part by part."""
    with database.tenant(source.tenant_id) as connection:
        summary = _carried_on(connection, row, client.model, version)
    start = row.started_at if summary is None else row.summary_ended_at - OVERLAP
    last: Message | None = None
    while True:
        with database.tenant(source.tenant_id) as connection:
            part = messages.in_range(
                connection,
                row.chat_id,
                row.session_key,
                start,
                row.ended_at,
                limit=MESSAGES_AT_ONCE,
                after=last.stamp if last else None,
            )
        if part:
            summary = client.summarize(part, summary, time_zone=time_zone, source=source)
            last = part[-1]
        if len(part) < MESSAGES_AT_ONCE:
            break
    if summary is None:
        raise Permanent("the session has no messages left")
    return summary


def _carried_on(connection: Connection, row: Row[Any], model: str, version: int) -> Summary | None:
    """Return the stored summary if the new one goes on from it; None if everything is read again.

    It must be by the same model. A closed session is carried on by a language model only, and only where every message
    since came later than what the summary has read: extraction costs nothing, and is better of the whole.
    """
    if row.summary_ended_at is None or row.summary_model != model:
        return None
    if row.status != "open":
        if model == EXTRACTIVE or row.summary_revision is None or row.summary_version != version:
            return None
        read = messages.count_in_range(
            connection, row.chat_id, row.session_key, row.started_at, row.summary_ended_at
        )
        # fewer: retention has removed some, which the summary remembers
        if read > row.summary_message_count:
            return None
    return stored_summary(row)


def stored_summary(row: Row[Any]) -> Summary | None:
    """Return the summary of a session's row, if any."""
    if not row.summary_text:
        return None
    return Summary(
        summary=row.summary_text,
        topics=row.topic_tags,
        decisions=row.decisions,
        open_questions=row.open_questions,
        action_items=row.action_items,
        entities=row.entities,
    )
