"""Claims beside a backlog, among many tenants, and of a live message beside an import: on a server of their own.

The server does not wait for the disk, which would hide in every claim alike what a claim itself costs.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import psycopg
from sqlalchemy import Row

from ops import migrate
from ops.bench.cases import Case, Say
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.roles import DATABASE
from pipeline.store import jobs
from pipeline.store.claims import Turn, claim
from pipeline.store.database import Database
from pipeline.store.jobs import Owed
from workers.queues import EMBED

KIND = "embed"
BATCH = EMBED.batch
BACKLOGS = (200_000, 1_000_000)
CHATS = 50
"""That share a backlog."""
TENANTS, EACH = 1_000, 100
IMPORTED = 100_000
LOGGED = 32
"""Rows of the claim whose part of the write-ahead log is judged: the batch that it was measured with first."""
ROUNDS = 100
MOST_TIMES = 1.5
MOST_WAL_KIB = 64.0
MOST_BATCHES = 2

_FILL = """
    INSERT INTO work (tenant_id, kind, key, lane, priority, due_at)
    SELECT %(name)s || tenant, 'embed', 'message:' || tenant || '-' || row, row %% %(chats)s, %(priority)s, now()
    FROM generate_series(1, %(tenants)s) AS tenant CROSS JOIN generate_series(1, %(rows)s) AS row
"""


class Server:
    """A database whose only work is what is put into it here."""

    def __init__(self, database: Database, superuser_url: str) -> None:
        self.database = database
        self.turn = Turn()
        self._superuser = psycopg.connect(superuser_url, autocommit=True)

    def close(self) -> None:
        """End the connections."""
        self._superuser.close()
        self.database.close()

    def owe(self, name: str, *, tenants: int = 1, rows: int, chats: int = CHATS, priority: int = 0) -> None:
        """Put so many due rows in for each of so many tenants, and let the planner know, as autovacuum would."""
        given = {"name": name, "tenants": tenants, "rows": rows, "chats": chats, "priority": priority}
        # what is written after this moment is not written whole once more when it changes first
        self._superuser.execute("CHECKPOINT")
        self._superuser.execute(
            "INSERT INTO tenants (tenant_id) SELECT %(name)s || n FROM generate_series(1, %(tenants)s) n "
            "ON CONFLICT DO NOTHING",
            given,
        )
        self._superuser.execute(_FILL, given)
        self._superuser.execute("VACUUM ANALYZE work")

    def rest(self) -> None:
        """Write out what was filled in, which otherwise whoever reads next would do."""
        self._superuser.execute("CHECKPOINT")

    def empty(self) -> None:
        """Owe nothing."""
        self._superuser.execute("TRUNCATE work")

    def written(self) -> int:
        """Bytes of the write-ahead log so far."""
        row = self._superuser.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        assert row is not None  # noqa: S101 - one row by the statement
        return int(row[0])

    @contextmanager
    def claimed(self, batch: int = BATCH) -> Iterator[Sequence[Row[tuple[object, ...]]]]:
        """One claim of a batch, committed at the end."""
        with self.database.maintenance() as connection:
            found = claim(connection, KIND, batch=batch, lease_seconds=600, max_attempts=5, after=self.turn)
            yield found.rows
        self.turn = found.turn

    def claim(self, batch: int = BATCH) -> Sequence[Row[tuple[object, ...]]]:
        """One claim of a batch."""
        with self.claimed(batch) as rows:
            return rows

    def finish(self, rows: Sequence[Row[tuple[object, ...]]]) -> None:
        """End claims of one tenant."""
        tenant = str(rows[0].tenant_id)
        with self.database.tenant(tenant) as connection:
            jobs.finish(connection, tenant, KIND, [row.key for row in rows], [row.token for row in rows])

    def owe_anew(self, tenant: str, chats: Mapping[str, str]) -> None:
        """Raise work as the pipeline does, each key for its chat."""
        with self.database.tenant(tenant) as connection:
            jobs.raise_all(
                connection, tenant, (Owed(kind=KIND, key=key, lane=chat) for key, chat in chats.items())
            )


@contextmanager
def server() -> Iterator[Server]:
    """An embedded Postgres in a temporary folder with its tables, gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-bench-") as folder,
        EmbeddedPostgres(Path(folder), durable=False) as postgres,
        ExitStack() as stack,
    ):
        migrate.upgrade(postgres.dsn("owner"))
        database = Database(postgres.dsn("app"), postgres.dsn("maintenance"))
        running = Server(database, postgres.superuser_dsn(DATABASE))
        stack.callback(running.close)
        yield running


def measure(say: Say) -> Sequence[Case]:
    """Everything, each on rows of its own."""
    with server() as running:
        cases = [*_backlogs(running, say)]
        running.empty()
        cases += _tenants(running, say)
        running.empty()
        cases += _live(running, say)
    return cases


def _backlogs(running: Server, say: Say) -> Iterator[Case]:
    """A claim of a full batch with nothing else owed, and with more and more."""
    running.owe("one", rows=1)
    running.rest()
    alone = _rounds(running)
    yield Case(case=f"a claim of {BATCH} rows, nothing else owed", value=round(alone, 2), unit="ms")
    for rows in BACKLOGS:
        say(f"{rows:,} rows owed")
        running.empty()
        running.owe("one", rows=rows)
        running.rest()
        found = _rounds(running)
        yield Case(
            case=f"a claim of {BATCH} rows, {rows:,} owed in {CHATS} chats of one tenant",
            value=round(found, 2),
            unit="ms",
            ratio=round(found / alone, 2),
            limit=MOST_TIMES,
        )


def _rounds(running: Server) -> float:
    """The median of some claims, in milliseconds; what is claimed is finished, and as much owed anew."""
    taken = []
    for number in range(ROUNDS):
        keys = [f"message:new-{number}-{row}" for row in range(BATCH)]
        running.owe_anew("one1", {key: f"chat {row % CHATS}" for row, key in enumerate(keys)})
        ms, rows = _timed(running.claim)
        if len(rows) < BATCH:
            raise RuntimeError(f"a claim took {len(rows)} of {BATCH} rows")
        running.finish(rows)
        taken.append(ms)
    return median(taken[ROUNDS // 4 :])


def _timed(
    what: Callable[[], Sequence[Row[tuple[object, ...]]]],
) -> tuple[float, Sequence[Row[tuple[object, ...]]]]:
    began = time.perf_counter()
    rows = what()
    return (time.perf_counter() - began) * 1000, rows


def _tenants(running: Server, say: Say) -> Iterator[Case]:
    """A claim among many tenants, and a second one at the same moment."""
    say(f"{TENANTS:,} tenants with {EACH} rows each")
    running.owe("tenant", tenants=TENANTS, rows=EACH, chats=10)
    among = f"among {TENANTS:,} tenants with {EACH} due rows each"
    for batch in sorted({LOGGED, BATCH}):
        taken, written = [], []
        for _ in range(20):
            before = running.written()
            ms, rows = _timed(lambda batch=batch: running.claim(batch))  # type: ignore[misc]
            taken.append(ms)
            written.append((running.written() - before) / 1024)
        if len(rows) < batch:
            raise RuntimeError(f"a claim took {len(rows)} of {batch} rows")
        yield Case(case=f"a claim of {batch} rows {among}", value=round(median(taken), 2), unit="ms")
        yield Case(
            case=f"the log that a claim of {batch} rows writes {among}",
            value=round(median(written), 1),
            unit="KiB",
            limit=MOST_WAL_KIB if batch == LOGGED else None,
        )
    with running.claimed() as first, running.claimed() as second:
        pass
    if {row.token for row in first} & {row.token for row in second}:
        raise RuntimeError("two claims took the same row")
    yield Case(
        case=f"rows of a second claim beside one that is not committed, {among}",
        value=len(second),
        unit="rows",
        ratio=len(second) / BATCH,
        limit=1,
        more_is_better=True,
    )


def _live(running: Server, say: Say) -> Iterator[Case]:
    """How many batches are claimed until a message of another chat is, beside an import and beside a flood."""
    for what, priority in (("imported", jobs.LATER), ("live", jobs.LIVE)):
        say(f"a live message beside {IMPORTED:,} {what} ones")
        running.empty()
        running.owe("door", rows=IMPORTED, chats=1, priority=priority)
        batches = []
        for number in range(5):
            running.owe_anew("door1", {f"message:live-{number}": f"chat {number}"})
            batches.append(_until(running, f"message:live-{number}"))
        yield Case(
            case=f"batches until a live message is claimed beside {IMPORTED:,} {what} ones of another chat",
            value=max(batches),
            unit="batches",
            limit=MOST_BATCHES,
        )


def _until(running: Server, key: str) -> int:
    batches = 0
    while True:
        rows = running.claim()
        running.finish(rows)
        batches += 1
        if key in {row.key for row in rows}:
            return batches
