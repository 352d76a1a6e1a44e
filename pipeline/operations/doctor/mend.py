"""Repair what the doctor has found, where that is safe."""

from collections.abc import Iterator, Sequence
from itertools import product

from sqlalchemy import Connection

from pipeline.ingest import session_ranges
from pipeline.ingest.policy import SessionPolicy
from pipeline.operations.doctor.facts import TenantData
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import NewJob
from pipeline.store.operations import checks
from pipeline.store.vectors import indexes, vectors

JOBS_PER_TRANSACTION = 5000


def mend_tenant(database: Database, tenant: TenantData, rules: SessionPolicy) -> list[str]:
    """Repair a tenant's findings, and return a sentence for each repair."""
    return [
        *_recount(database, tenant),
        *_cut_anew(database, tenant, rules),
        *_enqueue(database, tenant, rules),
        *_delete_orphans(database, tenant),
    ]


def mend_indexes(connection: Connection, missing: Sequence[str], unread: Sequence[str]) -> Iterator[str]:
    """Build missing, drop unread and rebuild invalid indexes (owner, in autocommit); yield a sentence for each."""
    for kind, space in product(indexes.INDEXED, vectors.written_spaces(connection)):
        name = indexes.index_of(kind, space)
        if name in missing:
            indexes.build_index(connection, kind, space)
            yield f"built the index {name}"
        elif name in unread:
            indexes.drop_index(connection, kind, space)
            yield f"dropped the index {name}"
    for name in checks.invalid_indexes(connection):
        checks.rebuild(connection, name)
        yield f"rebuilt the index {name}"


def _recount(database: Database, tenant: TenantData) -> Iterator[str]:
    for chat_id in tenant.drifted:
        with database.tenant(tenant.tenant_id) as connection:
            chat = chats.lock(connection, chat_id)
            if chat is not None:
                count, lexemes = checks.counted(connection, chat_id)
                checks.set_counters(connection, chat_id, count, lexemes)
                yield f"counted chat {chat_id} anew: {count:,} messages, not {chat.message_count:,}"


def _cut_anew(database: Database, tenant: TenantData, rules: SessionPolicy) -> Iterator[str]:
    for chat_id in tenant.differing:
        with database.tenant(tenant.tenant_id) as connection:
            session_ranges.sessionize_anew(connection, tenant.tenant_id, chat_id, rules)
        yield f"cut chat {chat_id} into sessions anew"


def _enqueue(database: Database, tenant: TenantData, rules: SessionPolicy) -> Iterator[str]:
    with database.tenant(tenant.tenant_id) as connection:
        statements = checks.missing_jobs(connection, summaries=rules.summaries)
    for kind, statement in statements.items():
        total = 0
        while True:
            with database.tenant(tenant.tenant_id) as connection:
                missing = checks.some_missing_jobs(connection, statement, JOBS_PER_TRANSACTION)
                # arrivals are live messages; other jobs have been missing for a while
                priority = jobs.LIVE if kind == "ingest" else jobs.LATER
                jobs.enqueue_all(
                    connection,
                    tenant.tenant_id,
                    (NewJob(kind=kind, key=key, lane=chat or "", priority=priority) for key, chat in missing),
                )
            total += len(missing)
            if len(missing) < JOBS_PER_TRANSACTION:
                break
        if total:
            yield f"enqueued {total:,} jobs of {kind} of tenant {tenant.tenant_id}"


def _delete_orphans(database: Database, tenant: TenantData) -> Iterator[str]:
    if tenant.orphans:
        with database.tenant(tenant.tenant_id) as connection:
            yield f"deleted {checks.delete_orphans(connection):,} vectors without a row"
