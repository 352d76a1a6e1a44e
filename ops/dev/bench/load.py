"""How workers share themselves: a small tenant beside a flood, and ingest while the model provider is down.

On a deployment of its own, with all its processes and models that cost nothing, as the sharing is measured. Figures
are ratios of one run, as times are one machine's at one hour.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
from celery import Celery
from rich.table import Table

from ops.dev.bench.figures import Say, Spread
from ops.dev.bench.talk import numbered
from ops.dev.chaos import cast as casting
from ops.dev.chaos import providers
from ops.dev.chaos.cast import API_TENANT, PAYLOAD_TENANT, Cast
from ops.dev.chaos.driver import Driver
from ops.dev.chaos.traffic import Batch, Traffic
from ops.dev.observe import count, wait
from pipeline.ingest import accept
from pipeline.store.database import Database
from schemas.messages import ChatIn
from workers import queues
from workers.app import make_app

BIG, SMALL = "big", "small"
FLOOD = 100
"""Messages of the big tenant for each of the small one's."""
PROBE_SECONDS = 1.0
PATIENCE_SECONDS = 600.0
CHATS, BATCH = 20, 20
DUE = "SELECT count(*) FROM jobs WHERE due_at IS NOT NULL"


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How long a message of the small tenant took from being accepted, in milliseconds."""

    placed_p50: float
    placed_p95: float
    embedded_p50: float
    embedded_p95: float


@dataclass(frozen=True, kw_only=True)
class Fairness:
    """The small tenant's lag without and with the flood."""

    probes: int
    # messages of the big tenant accepted meanwhile, and those that waited at the end
    flood: int
    left: int
    alone: Lag
    flooded: Lag

    @property
    def ratio(self) -> float:
        """How many times as long the median message takes until it is embedded, which comes last."""
        return self.flooded.embedded_p50 / self.alone.embedded_p50


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Messages a second until all are accepted and placed."""

    way: str
    healthy: float
    # the provider fails at once; it does not answer
    failing: float
    hanging: float

    @property
    def ratio(self) -> float:
        """The worse of both, as a part of the rate with a healthy provider."""
        return min(self.failing, self.hanging) / self.healthy


def measure(probes: int, messages: int, rounds: int, say: Say) -> tuple[Fairness, list[Rate]]:
    """Measure both in turn; `messages` by each way with each provider, the best of so many `rounds`.

    To be called by the main thread. Raises what starting the deployment raises; nothing is kept.
    """
    say("starting")
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-load-", ignore_cleanup_errors=True) as folder,
        casting.playing(Path(folder), lease_seconds=30) as cast,
    ):
        fairness = _fairness(cast, probes, say)
        return fairness, [_rates(cast, way, messages, rounds, say) for way in ("door", "payload")]


def as_dict(fairness: Fairness, rates: Sequence[Rate]) -> dict[str, object]:
    """Both as one JSON object."""
    return {
        "fairness": asdict(fairness) | {"ratio": round(fairness.ratio, 2)},
        "provider_down": [asdict(rate) | {"ratio": round(rate.ratio, 2)} for rate in rates],
    }


def tables(fairness: Fairness, rates: Sequence[Rate]) -> tuple[Table, Table]:
    """Both for a terminal."""
    title = f"{fairness.probes} messages of a small tenant beside {fairness.flood} of a big one"
    lags = Table("milliseconds, p50 / p95", "alone", "beside the flood", title=title)
    both = (fairness.alone, fairness.flooded)
    lags.add_row("until placed", *(f"{lag.placed_p50:.0f} / {lag.placed_p95:.0f}" for lag in both))
    lags.add_row("until embedded", *(f"{lag.embedded_p50:.0f} / {lag.embedded_p95:.0f}" for lag in both))
    lags.add_row("times as long", "", f"{fairness.ratio:.2f}")
    title = "Messages a second until placed, by the model provider's state"
    ways = Table("way", "well", "failing", "hanging", "worst part", title=title)
    for rate in rates:
        figures = (f"{each:.0f}" for each in (rate.healthy, rate.failing, rate.hanging))
        ways.add_row(rate.way, *figures, f"{rate.ratio:.2f}")
    return lags, ways


def _fairness(cast: Cast, probes: int, say: Say) -> Fairness:
    database = Database.from_settings(cast.settings)
    with make_app(cast.settings) as app, cast.connect() as connection:
        try:
            _probe(database, app, connection, "warm", 5)
            say("the small tenant alone")
            alone = _probe(database, app, connection, "alone", probes)
            say(f"the small tenant beside {FLOOD} times its messages")
            flood = _Flood(database, app)
            flood.start()
            try:
                flooded = _probe(database, app, connection, "flooded", probes)
            finally:
                flood.end()
            left = count(connection, f"{DUE} AND tenant_id = %s", [BIG])
            _await(lambda: not count(connection, DUE))
        finally:
            database.close()
    return Fairness(probes=probes, flood=flood.sent, left=left, alone=alone, flooded=flooded)


class _Flood:
    """The big tenant: at every moment at which the small one says something it says a hundred times as much."""

    def __init__(self, database: Database, app: Celery) -> None:
        self.sent = 0
        self._database = database
        self._app = app
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flood", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ending.is_set():
            for chat in range(FLOOD // BATCH):
                number = (self.sent // BATCH + chat) % CHATS
                said = numbered(range(self.sent, self.sent + BATCH))
                accept.accept(self._database, BIG, ChatIn(chat_id=f"{BIG}:{number}"), said)
                self.sent += BATCH
            queues.wake_up(self._app, "ingest")
            due += PROBE_SECONDS
            self._ending.wait(max(0.0, due - time.monotonic()))


_PLACED = """
    SELECT count(*) FROM messages m WHERE tenant_id = 'small' AND chat_id = %s AND external_id = %s
        AND NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id)
"""
_EMBEDDED = """
    SELECT count(*) FROM messages m JOIN message_vectors v ON v.tenant_id = m.tenant_id AND v.message_id = m.id
    WHERE m.tenant_id = 'small' AND m.chat_id = %s AND m.external_id = %s
"""


def _probe(database: Database, app: Celery, connection: psycopg.Connection, name: str, probes: int) -> Lag:
    """Say one thing after the other for the small tenant, and see how long each takes."""
    took: dict[str, list[float]] = {_PLACED: [], _EMBEDDED: []}
    chat = f"{SMALL}:{name}"
    for number in range(probes):
        began = time.monotonic()
        (said,) = numbered(range(number, number + 1))
        accept.accept(database, SMALL, ChatIn(chat_id=chat), [said])
        queues.wake_up(app, "ingest")
        for statement, times in took.items():
            _await(lambda s=statement, m=said: count(connection, s, [chat, m.external_id]) > 0, pause=0.004)  # type: ignore[misc]
            times.append(1000 * (time.monotonic() - began))
        time.sleep(max(0.0, PROBE_SECONDS - (time.monotonic() - began)))
    placed, embedded = map(Spread.of, took.values())
    return Lag(
        placed_p50=placed.p50,
        placed_p95=placed.p95,
        embedded_p50=embedded.p50,
        embedded_p95=embedded.p95,
    )


def _rates(cast: Cast, way: str, messages: int, rounds: int, say: Say) -> Rate:
    best = dict.fromkeys((providers.WELL, providers.FAIL, providers.HANG), 0.0)
    for number in range(rounds):
        for mood in best:
            say(f"{messages} messages by {way}, provider: {mood}")
            cast.set_mood(mood)
            best[mood] = max(best[mood], _rate(cast, way, messages, f"{number}-{mood}"))
            cast.set_mood(providers.WELL)
            with cast.connect() as connection:
                connection.execute("UPDATE jobs SET due_at = now() WHERE due_at > now() AND claimed IS NULL")
                _await(lambda: not count(connection, DUE))
    healthy, failing, hanging = (round(rate, 1) for rate in best.values())
    return Rate(way=way, healthy=healthy, failing=failing, hanging=hanging)


def _rate(cast: Cast, way: str, messages: int, name: str) -> float:
    tenant = API_TENANT if way == "door" else PAYLOAD_TENANT
    batches = [
        Batch(
            tenant=tenant,
            chat=f"rate:{name}:{number % CHATS}",
            messages=numbered(range(number * BATCH, (number + 1) * BATCH)),
        )
        for number in range(messages // BATCH)
    ]
    driver = Driver(cast, Traffic(sendings=batches, originals={}, gone=(), duplicates=0))
    began = time.monotonic()
    driver.start()
    driver.allow(messages)
    stored = "SELECT count(*) FROM messages WHERE tenant_id = %s AND chat_id LIKE %s"
    given, total = [tenant, f"rate:{name}:%"], len(batches) * BATCH
    with cast.connect() as connection:
        _await(lambda: driver.is_done() and count(connection, stored, given) == total)
        _await(lambda: not count(connection, "SELECT count(*) FROM arrivals"))
    spent = time.monotonic() - began
    driver.end()
    return total / spent


def _await(condition: Callable[[], bool], pause: float = 0.02) -> None:
    """Raises `TimeoutError` when it does not come true."""
    if wait(condition, PATIENCE_SECONDS, pause=pause) is None:
        raise TimeoutError(f"the deployment was not done within {PATIENCE_SECONDS:.0f} s")
