"""Summarize sessions: claim, load, call, save; the call is made outside any transaction.

A closed session is summarized whole. One that stays open too long is summarized as it goes: the summary so far
and the messages since, so that a group that never rests is remembered too.
"""

from collections.abc import Sequence
from time import monotonic
from zoneinfo import ZoneInfo

from sqlalchemy import Row

from pipeline import ledger
from pipeline.clients.protocols import Summarizer
from pipeline.ledger import Claim
from pipeline.store import chats, counters, messages, sessions, summaries, work
from pipeline.store.database import Database
from schemas.errors import Permanent
from schemas.summaries import Summary

MESSAGES_AT_ONCE = 1000
"""A longer session is read in parts, each summarized together with the summary of those before it."""


def summarizer(database: Database, client: Summarizer, *, min_messages: int, version: int) -> ledger.Handler:
    """The handler of `summarize` work: each claim is a session.

    A closed session of fewer than `min_messages` is marked as skipped. Nothing is done for one whose stored
    summary is of its revision and of this `version`.
    """

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        saved = [_summarize(database, tenant_id, claim, client, min_messages, version) for claim in claims]
        return {"embed"} if any(saved) else set()

    return handle


def _summarize(
    database: Database, tenant_id: str, claim: Claim, client: Summarizer, min_messages: int, version: int
) -> bool:
    """Do one claim; whether a summary was stored, so that it must be embedded."""
    session_id = int(claim.key.removeprefix("session:"))
    with database.tenant(tenant_id) as connection:
        row = sessions.find(connection, session_id)
        small = row is not None and row.status != "open" and row.message_count < min_messages
        current = row is not None and (row.summary_revision, row.summary_version) == (row.revision, version)
        if row is None or row.id != session_id or small or current:
            if row is not None and row.id == session_id and small:
                summaries.mark(connection, session_id, row.revision, "skipped")
                counters.add(connection, tenant_id, {"session_summary_skipped_small": 1})
            elif row is not None and current:
                summaries.mark(connection, row.id, row.revision, "summarized")
            ledger.finish(connection, [claim])
            return False
    started = monotonic()
    try:
        summary = _read_and_call(database, tenant_id, row, client)
    except Permanent as error:
        with database.tenant(tenant_id) as connection:
            summaries.mark(connection, session_id, row.revision, "failed", str(error))
            counters.add(connection, tenant_id, {"session_summary_failures": 1})
            ledger.give_up(connection, claim, error)
        return False
    with database.tenant(tenant_id) as connection:
        saved = summaries.save(
            connection, session_id, row.revision, summary, model=client.model, version=version
        )
        if saved:
            work.raise_wanted(
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
        ledger.finish(connection, [claim])
    return saved


def _read_and_call(
    database: Database, tenant_id: str, row: Row[tuple[object, ...]], client: Summarizer
) -> Summary:
    """The summary of a session's messages, read and summarized part by part."""
    rolling = row.status == "open" and row.summary_ended_at is not None
    summary = stored_summary(row) if rolling else None
    start, after = (row.summary_ended_at, True) if rolling else (row.started_at, False)
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
                after=after,
            )
        if part:
            zone = ZoneInfo(chat.time_zone if chat else "UTC")
            summary = client.summarize(part, summary, time_zone=zone)
            start, after = part[-1].sent_at, True
        if len(part) < MESSAGES_AT_ONCE:
            break
    if summary is None:
        raise Permanent("the session has no messages left")
    return summary


def stored_summary(row: Row[tuple[object, ...]]) -> Summary | None:
    """The summary that a session's row holds, if any."""
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
