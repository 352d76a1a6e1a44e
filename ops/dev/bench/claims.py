"""Claims beside a backlog, among many tenants, and of a live message beside an import.

The server does not wait for the disk, which would hide in every claim alike what a claim itself costs.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import psycopg

from ops.dev import shipped
from ops.dev.bench.figures import Figure
from ops.dev.observe import Say, count, timed
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from pipeline.store.jobs.claims import Turn, claim
from pipeline.store.jobs.jobs import Claim, NewJob
from workers.queues import EMBED

KIND = "embed"
BATCH = EMBED.batch
BACKLOGS = (200_000, 1_000_000)
CHATS_OF_A_BACKLOG = 50
TENANTS, ROWS_OF_EACH = 1_000, 100
IMPORTED = 100_000
LOGGED = 32
"""Rows of the claim whose part of the write-ahead log is judged."""
ROUNDS = 100
MOST_TIMES = 1.5
MOST_WAL_KIB = 64.0
MOST_BATCHES = 2

Rows = Sequence[Claim]

_TENANTS = """
    INSERT INTO tenants (tenant_id) SELECT %(name)s || n FROM generate_series(1, %(tenants)s) n ON CONFLICT DO NOTHING
"""
_FILL = """
    INSERT INTO jobs (tenant_id, kind, key, lane, priority, due_at)
    SELECT %(name)s || tenant, 'embed', 'message:' || tenant || '-' || row, row %% %(chats)s, %(priority)s, now()
    FROM generate_series(1, %(tenants)s) AS tenant CROSS JOIN generate_series(1, %(rows)s) AS row
"""


class ClaimedDatabase:
    """A database in which nothing is due but what is put into it here."""

    def __init__(self, database: Database, superuser: psycopg.Connection) -> None:
        self._database = database
        self._superuser = superuser
        self._turn = Turn()

    def refill(
        self, name: str, *, tenants: int = 1, rows: int, chats: int = CHATS_OF_A_BACKLOG, priority: int = 0
    ) -> None:
        """Let these rows be due for each tenant, and nothing else, with the statistics that autovacuum would make."""
        given = {"name": name, "tenants": tenants, "rows": rows, "chats": chats, "priority": priority}
        self._superuser.execute("TRUNCATE jobs")
        # a page written after this moment is not logged as a whole once more when it changes first
        self._superuser.execute("CHECKPOINT")
        self._superuser.execute(_TENANTS, given)
        self._superuser.execute(_FILL, given)
        self._superuser.execute("VACUUM ANALYZE jobs")

    def checkpoint(self) -> None:
        """Write out what was filled in, which the next reader would do otherwise."""
        self._superuser.execute("CHECKPOINT")

    def written(self) -> int:
        """Bytes of the write-ahead log so far."""
        return count(self._superuser, "SELECT pg_current_wal_insert_lsn() - '0/0'")

    def claim(self, batch: int = BATCH) -> Rows:
        """Claim a full batch. Raises `RuntimeError` when it is not full."""
        with self._database.maintenance() as connection:
            found = claim(connection, KIND, batch=batch, lease_seconds=600, max_attempts=5, after=self._turn)
        if len(found.rows) < batch:
            raise RuntimeError(f"a claim took {len(found.rows)} of {batch} rows")
        self._turn = found.turn
        return found.rows

    def finish(self, rows: Rows) -> None:
        """Finish claimed rows of one tenant."""
        with self._database.tenant(rows[0].tenant_id) as connection:
            jobs.finish(connection, rows)

    def add(self, tenant: str, chats: Mapping[str, str]) -> None:
        """Let keys, each of a chat, become due as the pipeline does it."""
        added = (NewJob(kind=KIND, key=key, lane=chat) for key, chat in chats.items())
        with self._database.tenant(tenant) as connection:
            jobs.enqueue_all(connection, tenant, added)


def measure(say: Say) -> Sequence[Figure]:
    """Measure everything, each on rows of its own."""
    with shipped.temporary() as backscroll, backscroll.superuser() as superuser:
        rows = ClaimedDatabase(backscroll.database, superuser)
        return [*_backlogs(rows, say), *_tenants(rows, say), *_live(rows, say)]


def _backlogs(due: ClaimedDatabase, say: Say) -> Iterator[Figure]:
    """Claim a full batch with nothing else due, and with more and more."""
    alone = _median_claim(due, 1)
    yield Figure(f"a claim of {BATCH} rows, nothing else due", alone, "ms")
    for rows in BACKLOGS:
        say(f"{rows:,} rows due")
        found = _median_claim(due, rows)
        case = f"a claim of {BATCH} rows, {rows:,} due in {CHATS_OF_A_BACKLOG} chats of one tenant"
        yield Figure(case, found, "ms", ratio=found / alone, most=MOST_TIMES)


def _median_claim(due: ClaimedDatabase, backlog: int) -> float:
    """Measure the median of some claims in milliseconds; finish what is claimed, and make as much due anew."""
    due.refill("one", rows=backlog)
    due.checkpoint()
    taken = []
    for number in range(ROUNDS):
        due.add("one1", {f"message:new-{number}-{n}": f"chat {n % CHATS_OF_A_BACKLOG}" for n in range(BATCH)})
        ms, rows = timed(due.claim)
        due.finish(rows)
        taken.append(ms)
    return median(taken[ROUNDS // 4 :])


def _tenants(due: ClaimedDatabase, say: Say) -> Iterator[Figure]:
    """Claim among many tenants, with what a claim writes to the log."""
    say(f"{TENANTS:,} tenants with {ROWS_OF_EACH} rows each")
    due.refill("tenant", tenants=TENANTS, rows=ROWS_OF_EACH, chats=10)
    among = f"among {TENANTS:,} tenants with {ROWS_OF_EACH} due rows each"
    for batch in sorted({LOGGED, BATCH}):
        taken, written = [], []
        for _ in range(20):
            before = due.written()
            taken.append(timed(due.claim, batch)[0])
            written.append((due.written() - before) / 1024)
        yield Figure(f"a claim of {batch} rows {among}", median(taken), "ms")
        case = f"the log that a claim of {batch} rows writes {among}"
        yield Figure(case, median(written), "KiB", most=MOST_WAL_KIB if batch == LOGGED else None)


def _live(due: ClaimedDatabase, say: Say) -> Iterator[Figure]:
    """Count the batches until a message of another chat is claimed, beside an import and beside a flood."""
    for what, priority in (("imported", jobs.LATER), ("live", jobs.LIVE)):
        say(f"a live message beside {IMPORTED:,} {what} ones")
        due.refill("import", rows=IMPORTED, chats=1, priority=priority)
        batches = []
        for number in range(5):
            due.add("import1", {f"message:live-{number}": f"chat {number}"})
            batches.append(_batches_until(due, f"message:live-{number}"))
        case = f"batches until a live message is claimed beside {IMPORTED:,} {what} ones of another chat"
        yield Figure(case, max(batches), "batches", most=MOST_BATCHES)


def _batches_until(due: ClaimedDatabase, key: str) -> int:
    batches = 0
    while True:
        rows = due.claim()
        due.finish(rows)
        batches += 1
        if key in {row.key for row in rows}:
            return batches
