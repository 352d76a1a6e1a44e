"""Claims beside a backlog, among many tenants, and of a live message beside an import.

The server does not wait for the disk, which would hide in every claim alike what a claim itself costs.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import psycopg

from ops.dev import shipped
from ops.dev.figures import Figure
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
"""Rows of the claims whose part of the write-ahead log is judged."""
ROUNDS = 100
MOST_TIMES = 1.5
MOST_WAL_KIB = 64.0
MOST_BATCHES = 2

_TENANTS = """
    INSERT INTO tenants (tenant_id) SELECT %(name)s || n FROM generate_series(1, %(tenants)s) n ON CONFLICT DO NOTHING
"""
_FILL = """
    INSERT INTO jobs (tenant_id, kind, key, lane, priority, due_at)
    SELECT %(name)s || tenant, 'embed', 'message:' || tenant || '-' || row, row %% %(chats)s, %(priority)s, now()
    FROM generate_series(1, %(tenants)s) AS tenant CROSS JOIN generate_series(1, %(rows)s) AS row
"""


class DueJobs:
    """A database in which nothing is due but what is put into it here."""

    def __init__(self, database: Database, superuser: psycopg.Connection) -> None:
        self._database = database
        self._superuser = superuser
        self._turn = Turn()

    def refill(
        self, name: str, *, tenants: int = 1, rows: int, chats: int = CHATS_OF_A_BACKLOG, priority: int = 0
    ) -> None:
        """Let these rows be due for each tenant, and nothing else, with the statistics that autovacuum would make."""
        parameters = {"name": name, "tenants": tenants, "rows": rows, "chats": chats, "priority": priority}
        self._superuser.execute("TRUNCATE jobs")
        # a page written after this moment is not logged as a whole once more when it changes first
        self._superuser.execute("CHECKPOINT")
        self._superuser.execute(_TENANTS, parameters)
        self._superuser.execute(_FILL, parameters)
        self._superuser.execute("VACUUM ANALYZE jobs")

    def written(self) -> int:
        """Return the bytes of the write-ahead log so far."""
        return count(self._superuser, "SELECT pg_current_wal_insert_lsn() - '0/0'")

    def claim(self, batch: int = BATCH) -> Sequence[Claim]:
        """Claim a full batch. Raises `RuntimeError` when it is not full."""
        with self._database.maintenance() as connection:
            taken = claim(connection, KIND, batch=batch, lease_seconds=600, max_attempts=5, after=self._turn)
        if len(taken.rows) < batch:
            raise RuntimeError(f"a claim took {len(taken.rows)} of {batch} rows")
        self._turn = taken.turn
        return taken.rows

    def finish(self, rows: Sequence[Claim]) -> None:
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
        due = DueJobs(backscroll.database, superuser)
        return [*_backlogs(due, superuser, say), *_tenants(due, say), _live(due, say)]


def _backlogs(due: DueJobs, superuser: psycopg.Connection, say: Say) -> Iterator[Figure]:
    """Claim a full batch with nothing else due, and with more and more; the medians."""
    medians = {}
    for rows in (1, *BACKLOGS):
        say(f"{rows:,} rows due")
        due.refill("one", rows=rows)
        # what was filled in, the next reader would write otherwise
        superuser.execute("CHECKPOINT")
        taken = []
        for number in range(ROUNDS):
            new = {f"message:new-{number}-{n}": f"chat {n % CHATS_OF_A_BACKLOG}" for n in range(BATCH)}
            due.add("one1", new)
            ms, claimed = timed(due.claim)
            due.finish(claimed)
            taken.append(ms)
        medians[rows] = median(taken[ROUNDS // 4 :])
    alone = medians.pop(1)
    yield Figure(f"a claim of {BATCH} rows, nothing else due", alone, "ms")
    for rows, ms in medians.items():
        case = f"a claim of {BATCH} rows, {rows:,} due in {CHATS_OF_A_BACKLOG} chats of one tenant"
        yield Figure(case, ms, "ms", ratio=ms / alone, most=MOST_TIMES)


def _tenants(due: DueJobs, say: Say) -> Iterator[Figure]:
    """Claim among many tenants, with what a claim writes to the log."""
    say(f"{TENANTS:,} tenants with {ROWS_OF_EACH} rows each")
    due.refill("tenant", tenants=TENANTS, rows=ROWS_OF_EACH, chats=10)
    among = f"among {TENANTS:,} tenants with {ROWS_OF_EACH} due rows each"
    taken, written = [], []
    for _ in range(20):
        before = due.written()
        taken.append(timed(due.claim, LOGGED)[0])
        written.append((due.written() - before) / 1024)
    yield Figure(f"a claim of {LOGGED} rows {among}", median(taken), "ms")
    case = f"the log that a claim of {LOGGED} rows writes {among}"
    yield Figure(case, median(written), "KiB", most=MOST_WAL_KIB)


def _live(due: DueJobs, say: Say) -> Figure:
    """Count the batches until a message of another chat is claimed beside an import."""
    say(f"a live message beside {IMPORTED:,} imported ones")
    due.refill("import", rows=IMPORTED, chats=1, priority=jobs.LATER)
    most = 0
    for number in range(5):
        key, claimed, batches = f"message:live-{number}", set[str](), 0
        due.add("import1", {key: f"chat {number}"})
        while key not in claimed:
            rows = due.claim()
            due.finish(rows)
            claimed = {row.key for row in rows}
            batches += 1
        most = max(most, batches)
    case = f"batches until a live message is claimed beside {IMPORTED:,} imported ones of another chat"
    return Figure(case, most, "batches", most=MOST_BATCHES)
