"""Summarize the messages of one session, part by part, continuing its stored summary where that is possible."""

from datetime import datetime, timedelta, tzinfo
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.enrich.protocols import Source, Summarizer
from pipeline.store.connections.database import Database
from pipeline.store.messages import messages
from schemas.errors import Permanent
from schemas.sessions import EXTRACTIVE, Message, Summary

MESSAGES_AT_ONCE = 1000
"""Messages in one part of a longer session; each part is summarized with the summary of the parts before it."""

OVERLAP = timedelta(seconds=2)
"""Time that a rolling summary reads again: messages of the same second arrive in any order."""


def summarize_session(
    database: Database, row: Row[Any], client: Summarizer, source: Source, time_zone: tzinfo, version: int
) -> Summary:
    """Summarize a session's messages part by part. Raises `Permanent` if there are none left."""
    with database.tenant(source.tenant_id) as connection:
        summary, start = _carried_on(connection, row, client.model, version)
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
        source.before_call()
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


def count_left(connection: Connection, row: Row[Any]) -> int:
    """Count a session's messages that are still stored; fewer than `message_count` if retention removed some."""
    return messages.count_in_range(connection, row.chat_id, row.session_key, row.started_at, row.ended_at)


def _carried_on(
    connection: Connection, row: Row[Any], model: str, version: int
) -> tuple[Summary | None, datetime]:
    """Return the stored summary, or None to read everything again, and the time from which messages are read.

    If retention has removed messages, the stored summary is all that is left of them, whoever made it: the new one
    continues it with the remaining messages.
    """
    stored = stored_summary(row)
    if stored is None:
        return None, row.started_at
    if _reads_on(connection, row, model, version):
        return stored, row.summary_ended_at - OVERLAP
    if count_left(connection, row) >= row.message_count:
        return None, row.started_at
    reads_on = row.status == "open" and row.summary_ended_at is not None
    return stored, row.summary_ended_at - OVERLAP if reads_on else row.started_at


def _reads_on(connection: Connection, row: Row[Any], model: str, version: int) -> bool:
    """Tell whether only messages since the stored summary need to be read.

    It must be by the same model, and not outdated. For a closed session only a language model continues it, and only if
    every new message is later than those it has read: extraction costs nothing, and is better over the whole session.
    """
    if row.summary_ended_at is None or row.summary_model != model or row.summary_revision is None:
        return False
    if row.status == "open":
        return True
    if model == EXTRACTIVE or row.summary_version != version:
        return False
    stored = messages.count_in_range(
        connection, row.chat_id, row.session_key, row.started_at, row.summary_ended_at
    )
    # fewer: retention has removed some, which the summary covers
    return stored <= int(row.summary_message_count)
