"""How fast messages are placed, and jobs claimed beside a backlog and beside an import.

The server does not wait for the disk, which would hide in every claim alike what a claim itself costs.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from ops.dev import shipped
from ops.dev.bench.talk import numbered
from ops.dev.figures import Figure
from ops.dev.observe import Say, timed
from ops.dev.shipped import Shipped
from pipeline.store.jobs import jobs
from pipeline.store.jobs.claims import Turn, claim
from pipeline.store.jobs.jobs import Claim, NewJob
from schemas.messages import ChatIn
from workers.queues import EMBED

BACKLOGS = (200_000, 1_000_000)
CHATS_OF_A_BACKLOG = 50
CLAIMS, MOST_TIMES = 100, 1.5
"""Claims that are timed, and how many times as long one may take beside a backlog."""
IMPORTED, MOST_BATCHES = 100_000, 2
"""Imported messages that are due, and the batches until a live one is claimed."""
CHATS, ROUNDS, LEAST_CHATS_PER_SECOND = 200, 5, 400
_DUE = """
    INSERT INTO jobs (tenant_id, kind, key, lane, priority, due_at)
    SELECT %(tenant)s, 'embed', 'message:' || row, row %% %(chats)s, %(priority)s, now()
    FROM generate_series(1, %(rows)s) AS row
"""


def measure(say: Say) -> list[Figure]:
    """Measure everything, each on rows of its own."""
    with shipped.temporary() as backscroll:
        return [_placed(backscroll, say), *_claimed(backscroll, say), _live(backscroll, say)]


def _placed(backscroll: Shipped, say: Say) -> Figure:
    """Place one message in each of many chats; return the median of several rounds."""
    rates = []
    for number in range(ROUNDS):
        say(f"one message in each of {CHATS} chats, {number + 1} of {ROUNDS}")
        for chat in range(CHATS):
            backscroll.accept(ChatIn(chat_id=f"many:{chat}"), numbered(number))
        rates.append(1000 * CHATS / timed(backscroll.run_all, "ingest")[0])
    case = f"placing one message in each of {CHATS} chats"
    return Figure(case, median(rates[1:]), "chats/s", least=LEAST_CHATS_PER_SECOND)


class DueJobs:
    """A backlog, and nothing else that is due but what is added."""

    def __init__(self, backscroll: Shipped, rows: int, chats: int, priority: int = 0) -> None:
        self._database, self._tenant, self._turn = backscroll.database, backscroll.tenant, Turn()
        parameters = {"tenant": self._tenant, "rows": rows, "chats": chats, "priority": priority}
        with backscroll.superuser() as connection:
            connection.execute("TRUNCATE jobs")
            connection.execute(_DUE, parameters)
            connection.execute("VACUUM ANALYZE jobs")
            # what was filled in, the next reader would write otherwise
            connection.execute("CHECKPOINT")

    def add(self, chats: Mapping[str, str]) -> None:
        """Let keys, each of a chat, become due as the pipeline does it."""
        added = (NewJob(kind=EMBED.name, key=key, lane=chat) for key, chat in chats.items())
        with self._database.tenant(self._tenant) as connection:
            jobs.enqueue_all(connection, self._tenant, added)

    def claim(self) -> Sequence[Claim]:
        """Claim a full batch. Raises `RuntimeError` when it is not full."""
        limits = {"batch": EMBED.batch, "lease_seconds": 600, "max_attempts": 5}
        with self._database.maintenance() as connection:
            taken = claim(connection, EMBED.name, **limits, after=self._turn)
        if len(taken.rows) < EMBED.batch:
            raise RuntimeError(f"a claim took {len(taken.rows)} of {EMBED.batch} rows")
        self._turn = taken.turn
        return taken.rows

    def finish(self, rows: Sequence[Claim]) -> None:
        """Finish claimed rows."""
        with self._database.tenant(self._tenant) as connection:
            jobs.finish(connection, rows)


def _claimed(backscroll: Shipped, say: Say) -> Iterator[Figure]:
    """Claim a full batch with nothing else due, and with more and more; the medians."""
    alone = 0.0
    for rows in (1, *BACKLOGS):
        say(f"{rows:,} rows due")
        due = DueJobs(backscroll, rows, CHATS_OF_A_BACKLOG)
        times = []
        for number in range(CLAIMS):
            keys = [f"message:new-{number}-{n}" for n in range(EMBED.batch)]
            due.add({key: f"chat {n % CHATS_OF_A_BACKLOG}" for n, key in enumerate(keys)})
            ms, claimed = timed(due.claim)
            due.finish(claimed)
            times.append(ms)
        ms = median(times[CLAIMS // 4 :])
        alone = alone or ms
        beside = f"{rows:,} due in {CHATS_OF_A_BACKLOG} chats" if rows > 1 else "nothing else due"
        most = MOST_TIMES if rows > 1 else None
        yield Figure(f"a claim of {EMBED.batch} rows, {beside}", ms, "ms", ratio=ms / alone, most=most)


def _live(backscroll: Shipped, say: Say) -> Figure:
    """Count the batches until a message of another chat is claimed beside an import."""
    say(f"a live message beside {IMPORTED:,} imported ones")
    due = DueJobs(backscroll, IMPORTED, 1, jobs.LATER)
    most = 0
    for number in range(5):
        key, claimed, batches = f"message:live-{number}", set[str](), 0
        due.add({key: f"chat {number}"})
        while key not in claimed:
            rows = due.claim()
            due.finish(rows)
            claimed = {row.key for row in rows}
            batches += 1
        most = max(most, batches)
    case = f"batches until a live message is claimed beside {IMPORTED:,} imported ones of another chat"
    return Figure(case, most, "batches", most=MOST_BATCHES)
