"""Summarize the messages of one session, part by part, going on from its stored summary where that is possible."""

from datetime import timedelta, tzinfo
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.enrich.protocols import Source, Summarizer
from pipeline.store import messages
from pipeline.store.database import Database
from schemas.errors import Permanent
from schemas.sessions import EXTRACTIVE, Message, Summary

MESSAGES_AT_ONCE = 1000
"""A longer session is summarized in parts, each together with the summary of those before it."""

OVERLAP = timedelta(seconds=2)
"""What a rolling summary reads again: messages of one second come in any order."""


def summarize_session(
    database: Database, row: Row[Any], client: Summarizer, source: Source, time_zone: tzinfo, version: int
) -> Summary:
    """Summarize a session's messages part by part. Raises `Permanent` if there are none left."""
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
