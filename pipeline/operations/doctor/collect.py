"""Collect the doctor's facts from Postgres, and repair what it has found, where that is safe.

Chats are checked one by one under their lock, so that no messages are placed meanwhile; a locked chat is skipped.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product

from sqlalchemy import Connection

from migrations import REVISION
from pipeline.clients import deterministic
from pipeline.ingest import accept, session_ranges, sessionize
from pipeline.ingest.session_ranges import FOREVER
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.operations import status
from pipeline.operations.backfill import count_missing
from pipeline.operations.backfill_kinds import Current
from pipeline.operations.doctor.facts import Server, Spaces, TenantData
from pipeline.operations.status import JobCounts
from pipeline.store import llm_calls, vector_spaces, vectors
from pipeline.store.chats import chat_languages, chats
from pipeline.store.chats.chats import tenant_ids
from pipeline.store.connections import engines, trips
from pipeline.store.connections.database import Database
from pipeline.store.connections.engines import driver_of
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import NewJob
from pipeline.store.messages import message_rows
from pipeline.store.operations import checks, counters
from pipeline.store.search import vector_search
from pipeline.store.sessions import ranges as stored_ranges
from pipeline.store.sessions import session_rows
from schemas.backfills import BackfillRequest
from schemas.errors import SettingsError
from schemas.vectors import EmbeddingSpace

# Our transactions wait for nothing but their next statement, so a longer wait is a hung process.
HELD_UP_SECONDS = 30.0
# An index stays while so many times the largest chat would be worth it: one built today is not dropped tomorrow.
MARGIN = 2
Sample = Mapping[str, Sequence[str]]
"""The chats to check, by tenant."""


def tenants(database: Database, tenant_id: str | None) -> list[str]:
    """Return the tenant, or all of them (maintenance) for None."""
    if tenant_id is not None:
        return [tenant_id]
    with database.maintenance() as connection:
        return tenant_ids(connection)


def choose(database: Database, tenant_ids: Sequence[str], limit: int) -> Sample:
    """Sample at most `limit` chats of each tenant."""
    chosen = {}
    for tenant_id in tenant_ids:
        with database.tenant(tenant_id) as connection:
            chosen[tenant_id] = checks.sample(connection, limit)
    return chosen


def server(database: Database) -> Server:
    """Return the facts of Postgres, its extension and its tables."""
    with database.unscoped() as connection:
        row = checks.server(connection)
        migration = checks.migration(connection) if row.migrated else None
        hidden = checks.hidden_vectors(connection)
        differences = (
            list(checks.catalog_differences(connection)) if migration == REVISION and not hidden else []
        )
        is_current = migration == REVISION and not trips.is_pooled(driver_of(connection))
        may_open, allowed = checks.connections(connection) if is_current else (0, 0)
        return Server(
            may_open=may_open,
            allowed=allowed,
            version=row.version,
            release=row.release,
            pgvector=row.pgvector,
            hidden_vectors=hidden,
            migration=migration,
            differences=[what for _, what in differences],
            is_lacking=bool(hidden) or any(is_needed for is_needed, _ in differences),
            needed=REVISION,
            vector_tables=vectors.exist(connection),
            held_up=checks.held_up(connection, HELD_UP_SECONDS),
            read_only=checks.is_read_only(connection),
            unprotected=checks.unprotected_tables(connection),
            invalid_indexes=checks.invalid_indexes(connection),
        )


def replica_problem(database: Database) -> str | None:
    """Return why questions are not put to the standby; None if they are, or there is none."""
    if database.replica is None:
        return None
    try:
        database.look_at_replica()
    except SettingsError as error:
        return str(error)
    if database.reading(lambda reader: reader.is_replica):
        return None
    return database.replica.problem or f"it is more than {engines.CATCH_UP_SECONDS:g} s behind"


def skew_seconds(database: Database) -> float:
    """Return the database's clock minus this machine's, corrected by half the round trip."""
    with database.unscoped() as connection:
        before = datetime.now(UTC)
        there = chats.clock(connection)
        after = datetime.now(UTC)
    return (there - (before + (after - before) / 2)).total_seconds()


def written_spaces(database: Database) -> list[EmbeddingSpace]:
    """Return the stored spaces that new vectors go into; empty without vector tables."""
    with database.tenant("") as connection:
        return vectors.written_spaces(connection) if vectors.exist(connection) else []


def active_space(database: Database) -> EmbeddingSpace | None:
    """Return the space that searches compare in; None without vector tables, or before there is one."""
    with database.tenant("") as connection:
        return vectors.searched_space(connection)


def embedding_spaces(
    database: Database,
    embedder: EmbeddingSpace,
    tenant_ids: Sequence[str],
    model_problem: str | None,
    *,
    everybody: bool,
) -> Spaces | None:
    """Return the stored spaces beside the settings' embedder; None without vector tables.

    `everybody`: these are all tenants, so an index that none of them needs may be dropped.
    """
    retired: Counter[str] = Counter()
    with database.tenant("") as connection:
        if not vectors.exist(connection):
            return None
        statuses = dict(checks.space_statuses(connection))
        written = vectors.written_spaces(connection)
        tables = vector_spaces.indexed_tables(connection)
        pairs = list(product(tables, written))
        built = {pair for pair in pairs if vector_spaces.is_indexed(connection, *pair) is not None}
        searched = vectors.searched_space(connection)
    largest: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    for tenant_id in tenant_ids:
        with database.tenant(tenant_id) as connection:
            largest |= Counter(checks.most_searched(connection, vector_search.EXACT_UP_TO / MARGIN))
            languages.update(chat_languages.shares(connection))
    status = statuses.get(embedder.name)
    if status in {"active", "building", "standby"} and not any(space.same_as(embedder) for space in written):
        status = "other"
    for tenant_id in tenant_ids if "retired" in statuses.values() else ():
        with database.tenant(tenant_id) as connection:
            retired.update(checks.retired_vectors(connection))

    def is_worth_it(table: str, times: int = 1) -> bool:
        return vector_search.is_worth_an_index(times * largest[table], tables[table])

    return Spaces(
        active=next((name for name, state in statuses.items() if state == "active"), None),
        # the dimensions of an unknown model are known once it is loaded
        embedder=embedder.name if embedder.dimensions else f"{embedder.provider}/{embedder.model}",
        embedder_status=status,
        missing_indexes=[
            vector_spaces.index_of(table, space)
            for table, space in pairs
            if is_worth_it(table)
            and (table, space) not in built
            and space.dimensions <= vector_spaces.MAX_INDEXED_DIMENSIONS
        ],
        unread_indexes=[
            vector_spaces.index_of(table, space)
            for table, space in pairs
            if everybody and (table, space) in built and not is_worth_it(table, MARGIN)
        ],
        retired_vectors=retired,
        model=searched.model if searched else "",
        languages=languages,
        is_calibrated=searched is None
        or searched.questions is not None
        or searched.provider == deterministic.PROVIDER,
        model_problem=model_problem,
    )


def late_jobs(database: Database, tenant_id: str | None) -> list[JobCounts]:
    """Return the jobs of each kind: of a tenant, or of all (maintenance) for None."""
    with database.maintenance() if tenant_id is None else database.tenant(tenant_id) as connection:
        return status.job_counts(connection)


def stopped_providers(database: Database) -> list[str]:
    """Return the paused providers of language models."""
    with database.tenant("") as connection:
        return [row.provider for row in llm_calls.stopped_providers(connection)]


TEXTS_READ = 20_000
"""Rows of each kind whose texts are looked into for credentials: 0.2 s."""


def tenant_data(database: Database, sample: Sample, rules: SessionPolicy) -> Iterator[TenantData]:
    """Compare each tenant's stored data with what it should be."""
    for tenant_id, chat_ids in sample.items():
        differing, drifted = [], []
        for chat_id in chat_ids:
            with database.tenant(tenant_id) as connection:
                chat = chats.lock_free(connection, [chat_id]).get(chat_id)
                if chat is None:
                    continue
                if checks.counted(connection, chat_id) != (chat.message_count, chat.lexeme_count):
                    drifted.append(chat_id)
                of_chat = rules.for_chat(chat)
                if of_chat.memory and not _sessions_match(connection, chat_id, of_chat):
                    differing.append(chat_id)
        with database.tenant(tenant_id) as connection:
            lacking = {
                kind: checks.count_missing_jobs(connection, statement)
                for kind, statement in checks.missing_jobs(connection, summaries=rules.summaries).items()
            }
            orphans = checks.orphans(connection) if vectors.exist(connection) else 0
            lately = accept.left_out_counts(counters.totals(connection, 2))
        yield TenantData(
            tenant_id=tenant_id,
            differing=sorted(differing),
            drifted=sorted(drifted),
            without_job=lacking,
            orphans=orphans,
            left_out=lately,
            unmasked=count_missing(
                *(database, tenant_id, BackfillRequest(kind="secrets")),
                Current(rules=rules, summary_version=1, min_messages=1),
                most=TEXTS_READ,
            ),
        )


def _sessions_match(connection: Connection, chat_id: str, rules: SessionPolicy) -> bool:
    """Tell whether the sessions of a locked chat are those that `sessionize.split` gives."""
    keys = session_rows.keys(connection, chat_id)
    closes = session_rows.closes(connection, [(chat_id, key) for key in keys])
    for key in keys:
        rows = message_rows.times(connection, chat_id, key, *FOREVER)
        existing = stored_ranges.of_key(connection, chat_id, key)
        kept, times = sessionize.after_pruned(existing, [row[0] for row in rows])
        parts = sessionize.split(times, rules.gap_of(key), closes[chat_id, key])
        if [(s.started_at, s.ended_at, s.message_count) for s in kept] != [
            (p.started_at, p.ended_at, p.count) for p in parts
        ]:
            return False
    return True


JOBS_PER_TRANSACTION = 5000


def mend_tenant(database: Database, tenant: TenantData, rules: SessionPolicy) -> Iterator[str]:
    """Repair a tenant's findings; yield a sentence for each repair."""
    yield from _recount(database, tenant)
    for chat_id in tenant.differing:
        with database.tenant(tenant.tenant_id) as connection:
            session_ranges.sessionize_anew(connection, tenant.tenant_id, chat_id, rules)
        yield f"cut chat {chat_id} into sessions anew"
    yield from _enqueue(database, tenant, rules)
    if tenant.orphans:
        with database.tenant(tenant.tenant_id) as connection:
            yield f"deleted {checks.delete_orphans(connection):,} vectors without a row"


def mend_indexes(connection: Connection, missing: Sequence[str], unread: Sequence[str]) -> Iterator[str]:
    """Build missing, drop unread and rebuild invalid indexes (owner, in autocommit); yield a sentence for each."""
    tables = vector_spaces.indexed_tables(connection)
    for table, space in product(tables, vectors.written_spaces(connection)):
        name = vector_spaces.index_of(table, space)
        if name in missing:
            vector_spaces.build_index(connection, table, space)
            yield f"built the index {name}"
        elif name in unread:
            vector_spaces.drop_index(connection, table, space)
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
