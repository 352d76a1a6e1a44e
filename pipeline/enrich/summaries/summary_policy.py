"""Decide which sessions are summarized, when again, and which of them by a language model."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.enrich.summaries.session_summary import count_left
from pipeline.store.connections import committed
from pipeline.store.operations import counters
from pipeline.store.sessions import sessions
from schemas.sessions import EXTRACTIVE, is_named

QUIET_TIME, QUIET_SESSIONS = timedelta(days=7), 7
"""A chat is quiet where it had fewer sessions within this time: less than one a day."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Which sessions a language model summarizes; the others are extracted from."""

    # only those of these chats; empty: of all
    chats: frozenset[str] = frozenset()
    # of a quiet chat only every this many
    every: int = 1


@dataclass(frozen=True, kw_only=True)
class SummaryPolicy:
    """Which sessions are summarized, and when again."""

    # a closed session of fewer is skipped
    min_messages: int
    # a session whose summary is of its revision and of this version is done
    version: int
    # an open session is summarized again when it has grown by as many messages (if an agent named it, by the other
    # number) or tokens
    rolling_messages: int = 1
    rolling_tokens: int = 1
    named_rolling_messages: int = 1
    # the summary of an open session that an agent named is a memory of it, too, for as long after it was last shown
    session_lifetime: timedelta | None = None
    rollout: Rollout = Rollout()
    # it begins anew before each call to a model, so it must be longer than one
    lease_seconds: float = 120
    # a session does not wait for the next day's budget
    extracts_when_spent: bool = False
    # a session's week is rolled up so long after both are over; None: never
    rollup_after_seconds: float | None = None


def is_for_model(connection: Connection, row: Row[Any], rollout: Rollout) -> bool:
    """Tell whether a session is one that a language model summarizes."""
    if rollout.chats and row.chat_id not in rollout.chats:
        return False
    if rollout.every == 1:
        return True
    before, lately = sessions.count_before(connection, row.chat_id, row.started_at, row.id, QUIET_TIME)
    return lately >= QUIET_SESSIONS or before % rollout.every == 0


def is_due(connection: Connection, tenant_id: str, row: Row[Any], policy: SummaryPolicy, model: str) -> bool:
    """Tell whether a session is to be summarized now, and mark one that is not."""
    if row.status != "open" and row.message_count < policy.min_messages:
        sessions.set_status(connection, row.id, row.revision, "skipped")
        committed.tell(
            connection,
            "session_skipped",
            tenant=tenant_id,
            session_id=row.id,
            chat_id=row.chat_id,
            reason="too short",
        )
        counters.add(connection, tenant_id, {"session_summary_skipped_small": 1})
        return False
    is_current = (row.summary_revision, row.summary_version) == (row.revision, policy.version)
    # what retention has left of a session makes no better summary
    if is_current and (
        row.summary_model != EXTRACTIVE
        or model == EXTRACTIVE
        or count_left(connection, row) < row.message_count
    ):
        sessions.set_status(connection, row.id, row.revision, "summarized")
        return False
    if row.status != "open" and row.summary_text and not count_left(connection, row):
        sessions.keep_summary(connection, row.id, row.revision, policy.version)
        return False
    enough = policy.named_rolling_messages if is_named(row.session_key) else policy.rolling_messages
    is_outdated = row.summary_text is not None and row.summary_revision is None
    return bool(
        row.status != "open"
        or is_outdated
        or row.message_count - (row.summary_message_count or 0) >= enough
        or row.token_count - (row.summary_token_count or 0) >= policy.rolling_tokens
    )
