"""Sweep every few seconds: close idle sessions, enqueue daily digests, give up exhausted jobs, count due ones."""

from dataclasses import dataclass, field

from pipeline.ingest import session_ranges
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.operations import daily_digests
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.jobs import claims
from pipeline.store.operations import counters
from pipeline.store.sessions import session_rows

CHATS_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What a sweep found."""

    sessions_closed: int = 0
    given_up: int = 0
    # rows that may be claimed now, by kind, counted up to a limit
    due: dict[str, int] = field(default_factory=dict)


def sweep(database: Database, rules: SessionPolicy, max_attempts: int, count_up_to: int = 1000) -> Swept:
    """Close sessions, give up exhausted jobs, and count due ones; do nothing if another sweep is running."""
    with database.maintenance() as connection:
        if not claims.lock_sweep(connection):
            return Swept()
        claims.enqueue_arrivals(connection)
        given_up = claims.mark_exhausted_dead(connection, max_attempts)
        idle = session_rows.idle_chats(connection, rules.gap, rules.ttl, CHATS_AT_ONCE)
    for (tenant_id, kind), count in given_up.items():
        with database.tenant(tenant_id) as connection:
            counters.add(connection, tenant_id, {f"{kind}_dead": count})
    daily_digests.enqueue_due(database)
    closed = 0
    for tenant_id, chat_id in idle:
        with database.tenant(tenant_id) as connection:
            # Whoever holds the chat is placing messages in it, and closes its ended sessions.
            chat = chats.lock_free(connection, [chat_id]).get(chat_id)
            if chat is not None:
                closed += session_ranges.close_sessions(connection, tenant_id, chat_id, rules.for_chat(chat))
    with database.maintenance() as connection:
        due = claims.due_by_kind(connection, count_up_to)
    return Swept(sessions_closed=closed, given_up=sum(given_up.values()), due=due)
