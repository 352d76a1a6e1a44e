"""Roll up the weeks of a chat: summarize the summaries of a week's sessions.

A job is due once its week is over, and again whenever one of its sessions is summarized later. A language model writes
the summary; without a model or a usable answer there is no rollup, nor for a week of a single session, whose summary
says as much. If a session's summary has changed meanwhile, nothing is saved and the job is done again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row

from pipeline.enrich.model_calls import source_of
from pipeline.enrich.summaries import summary_policy
from pipeline.enrich.summaries.summarizers import LanguageModelSummarizer, stored_summary
from pipeline.jobs import runner
from pipeline.store.chats import chats
from pipeline.store.chats.chats import Chat
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.sessions import rollups as store
from pipeline.store.sessions.rollups import MIN_SESSIONS, Week


@dataclass(frozen=True, kw_only=True)
class _Options:
    """How weeks are rolled up, and by which model."""

    client: LanguageModelSummarizer | None
    version: int
    model_chats: frozenset[str]
    lease_seconds: float


def roller(
    database: Database,
    client: LanguageModelSummarizer | None,
    *,
    version: int,
    model_chats: frozenset[str] = frozenset(),
    lease_seconds: float = 120,
) -> runner.Handler:
    """Make the handler of `rollup` jobs: each claim is a week of a chat; without a `client` none is rolled up.

    The model is asked only about `model_chats`, if there are any. A week is skipped if its rollup was made of the same
    summaries by the same model in this `version`.
    """
    options = _Options(client=client, version=version, model_chats=model_chats, lease_seconds=lease_seconds)

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        runner.do_each(claims, lambda claim: _roll_up(database, tenant_id, claim, options) or None)
        return set()

    return handle


def _roll_up(database: Database, tenant_id: str, claim: Claim, options: _Options) -> bool:
    """Roll up one week; return whether it has a new rollup."""
    week, client = Week.of_key(claim.key), options.client
    with database.tenant(tenant_id) as connection:
        chat = chats.get(connection, week.chat_id)
        if client is None or (options.model_chats and week.chat_id not in options.model_chats):
            jobs.finish(connection, [claim])
            return False
        rows = _sessions(connection, week, chat) if chat is not None and chat.memory else []
        if chat is None or len(rows) < MIN_SESSIONS:
            store.drop(connection, week)
            jobs.finish(connection, [claim])
            return False
        if _is_current(store.get(connection, week), rows, client.model, options):
            jobs.finish(connection, [claim])
            return False
    source = source_of(database, claim, week.chat_id, chat, options.lease_seconds)
    in_order = sorted(rows, key=lambda row: (row.started_at, row.session_key))
    parts = [summary for row in in_order if (summary := stored_summary(row)) is not None]
    summary = client.combine(parts, source=source)
    with database.tenant(tenant_id) as connection:
        client.forget_answers(connection, source)
        # locked, so that an erasure waits, and then finds the rollup
        unchanged = _hash(_sessions(connection, week, chat, locked=True)) == _hash(rows)
        if unchanged:
            store.save(
                connection,
                tenant_id,
                week,
                rows,
                _hash(rows),
                summary,
                model=client.model,
                version=options.version,
            )
            jobs.finish(connection, [claim])
        else:
            jobs.finish(connection, [claim], again_in=0)
    return unchanged


def _sessions(connection: Connection, week: Week, chat: Chat, *, locked: bool = False) -> Sequence[Row[Any]]:
    return store.summaries(
        connection,
        week.chat_id,
        *summary_policy.week_bounds(week.monday, ZoneInfo(chat.time_zone)),
        held=locked,
    )


def _is_current(rollup: Row[Any] | None, rows: Sequence[Row[Any]], model: str, options: _Options) -> bool:
    """Tell whether a week's rollup was made of these summaries, by this model and version."""
    if rollup is None:
        return False
    return (bytes(rollup.source_hash), rollup.model, rollup.version) == (_hash(rows), model, options.version)


def _hash(rows: Sequence[Row[Any]]) -> bytes:
    """Identify these summaries by a hash (BLAKE2b, 16 bytes)."""
    made_of = [(row.id, row.summary_revision, row.summary_created_at.timestamp()) for row in rows]
    return blake2b(repr(made_of).encode(), digest_size=16).digest()
