"""Summarize sessions: load, call, save; the call is outside any transaction.

A closed session is summarized whole, one that stays open too long as it goes on: from the summary so far and the
messages since.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

import structlog
from sqlalchemy import Connection, Row

from pipeline.clients.protocols import Summarizer
from pipeline.enrich import extractive
from pipeline.jobs import runner
from pipeline.jobs.runner import Claim
from pipeline.store import chats, counters, jobs, messages, sessions
from pipeline.store.database import Database
from schemas.errors import LeaseLost, Permanent, SettingsError
from schemas.sessions import Message, Summary

log = structlog.get_logger(__name__)

MESSAGES_AT_ONCE = 1000
"""A longer session is summarized in parts, each together with the summary of those before it."""

OVERLAP = timedelta(seconds=2)
"""What a rolling summary reads again: messages of one second come in any order."""


class ExtractiveSummarizer:
    """Summarize with sentences picked from the transcript; never fails and calls no model."""

    model = "extractive-v1"

    def summarize(
        self, messages: Sequence[Message], previous: Summary | None = None, *, time_zone: tzinfo = UTC
    ) -> Summary:
        return extractive.summarize(messages, previous, time_zone=time_zone)


def make_summarizer(model: str = ExtractiveSummarizer.model) -> Summarizer:
    """Make the summarizer of this name. Raises `SettingsError`."""
    if model == ExtractiveSummarizer.model:
        return ExtractiveSummarizer()
    raise SettingsError(
        f"BACKSCROLL_SESSION_SUMMARY_MODEL={model} is not built in yet: set {ExtractiveSummarizer.model}."
    )


@dataclass(frozen=True, kw_only=True)
class _Pace:
    """Which sessions are summarized, and when again."""

    min_messages: int
    version: int
    rolling_messages: int
    rolling_tokens: int


def summarizer(
    database: Database,
    client: Summarizer,
    *,
    min_messages: int,
    version: int,
    rolling_messages: int = 1,
    rolling_tokens: int = 1,
) -> runner.Handler:
    """Make the handler of `summarize` jobs: each claim is a session.

    A closed session of fewer than `min_messages` is marked as skipped. Nothing is done for one whose summary is of its
    revision and of this `version`, nor for an open one that has grown by fewer than `rolling_messages` and
    `rolling_tokens` since.
    """
    pace = _Pace(
        min_messages=min_messages,
        version=version,
        rolling_messages=rolling_messages,
        rolling_tokens=rolling_tokens,
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
        if row is None or row.id != session_id or not _wanted(connection, tenant_id, row, pace):
            runner.finish(connection, [claim])
            return False
    started = monotonic()
    try:
        summary = _read_and_call(database, tenant_id, row, client)
    except Permanent as error:
        with database.tenant(tenant_id) as connection:
            sessions.set_status(connection, session_id, row.revision, "failed", str(error))
            counters.add(connection, tenant_id, {"session_summary_failures": 1})
            runner.give_up(connection, claim, error)
        return False
    with database.tenant(tenant_id) as connection:
        saved = sessions.save_summary(connection, row, summary, model=client.model, version=pace.version)
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
            counters.add(
                connection,
                tenant_id,
                {"session_summaries_created": 1, "session_summary_seconds": monotonic() - started},
            )
        runner.finish(connection, [claim])
    return saved


def _wanted(connection: Connection, tenant_id: str, row: Row[Any], pace: _Pace) -> bool:
    """Tell whether a session is to be summarized now, and mark one that is not."""
    if row.status != "open" and row.message_count < pace.min_messages:
        sessions.set_status(connection, row.id, row.revision, "skipped")
        counters.add(connection, tenant_id, {"session_summary_skipped_small": 1})
        return False
    if (row.summary_revision, row.summary_version) == (row.revision, pace.version):
        sessions.set_status(connection, row.id, row.revision, "summarized")
        return False
    return bool(
        row.status != "open"
        or row.message_count - (row.summary_message_count or 0) >= pace.rolling_messages
        or row.token_count - (row.summary_token_count or 0) >= pace.rolling_tokens
    )


def _read_and_call(database: Database, tenant_id: str, row: Row[Any], client: Summarizer) -> Summary:
    """Read and summarize a session's messages part by part."""
    summary, start = None, row.started_at
    if row.status == "open" and row.summary_ended_at is not None:
        summary, start = stored_summary(row), row.summary_ended_at - OVERLAP
    last: Message | None = None
    while True:
        with database.tenant(tenant_id) as connection:
            chat = chats.get(connection, row.chat_id)
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
            zone = ZoneInfo(chat.time_zone if chat else "UTC")
            summary = client.summarize(part, summary, time_zone=zone)
            last = part[-1]
        if len(part) < MESSAGES_AT_ONCE:
            break
    if summary is None:
        raise Permanent("the session has no messages left")
    return summary


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
