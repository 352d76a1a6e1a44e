"""How workers share themselves: a small tenant beside a flood, and ingest while the model provider is down.

On a deployment of its own, with all its processes, and models that cost nothing: what is measured is the sharing,
not a model. Figures are ratios of one run, as times are one machine's at one hour.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles

import psycopg
from celery import Celery
from rich.table import Table

from ops.chaos import cast as casting
from ops.chaos import providers
from ops.chaos.cast import DOOR_TENANT, PAYLOAD_TENANT, Cast
from ops.chaos.driver import Driver
from ops.chaos.traffic import Batch, Traffic
from pipeline.ingest import accept
from pipeline.store.database import Database
from schemas.messages import ChatIn, MessageIn
from workers import queues
from workers.app import make_app

Say = Callable[[str], None]

BIG, SMALL = "big", "small"
FLOOD = 100
"""Messages of the big tenant for each of the small one's."""
PROBE_SECONDS = 1.0
PATIENCE_SECONDS = 600.0
CHATS, BATCH = 20, 20
START = datetime(2025, 1, 6, 8, 0, tzinfo=UTC)


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
    """Both, one after the other; `messages` by each way with each provider, the best of so many `rounds`.

    To be called by the main thread. Raises what starting the deployment raises; nothing is kept.
    """
    folder = Path(tempfile.mkdtemp(prefix="backscroll-load-"))
    try:
        say("starting")
        with casting.playing(folder, lease_seconds=30, sweep_seconds=5) as cast:
            fairness = _fairness(cast, probes, say)
            rates = [_rates(cast, way, messages, rounds, say) for way in ("door", "payload")]
        return fairness, rates
    finally:
        casting.remove(folder)


def as_dict(fairness: Fairness, rates: Sequence[Rate]) -> dict[str, object]:
    """For `--json`."""
    return {
        "fairness": asdict(fairness) | {"ratio": round(fairness.ratio, 2)},
        "provider_down": [asdict(rate) | {"ratio": round(rate.ratio, 2)} for rate in rates],
    }


def tables(fairness: Fairness, rates: Sequence[Rate]) -> tuple[Table, Table]:
    """Both for a terminal."""
    lags = Table(title=f"{fairness.probes} messages of a small tenant beside {fairness.flood} of a big one")
    for name in ("milliseconds, p50 / p95", "alone", "beside the flood"):
        lags.add_column(name)
    alone, flooded = fairness.alone, fairness.flooded
    lags.add_row(
        "until placed", *(f"{lag.placed_p50:.0f} / {lag.placed_p95:.0f}" for lag in (alone, flooded))
    )
    lags.add_row(
        "until embedded", *(f"{lag.embedded_p50:.0f} / {lag.embedded_p95:.0f}" for lag in (alone, flooded))
    )
    lags.add_row("times as long", "", f"{fairness.ratio:.2f}")
    ways = Table(title="Messages a second until placed, by the model provider's state")
    for name in ("way", "well", "failing", "hanging", "worst part"):
        ways.add_column(name)
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
            left = _count(
                connection, "SELECT count(*) FROM work WHERE tenant_id = %s AND due_at IS NOT NULL", BIG
            )
            _wait(lambda: not _count(connection, "SELECT count(*) FROM work WHERE due_at IS NOT NULL"))
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
                said = [_message(self.sent + n) for n in range(BATCH)]
                number = (self.sent // BATCH + chat) % CHATS
                accept.accept(self._database, BIG, ChatIn(chat_id=f"{BIG}:{number}"), said)
                self.sent += BATCH
            queues.hint(self._app, "ingest")
            due += PROBE_SECONDS
            self._ending.wait(max(0.0, due - time.monotonic()))


def _probe(database: Database, app: Celery, connection: psycopg.Connection, name: str, probes: int) -> Lag:
    """Say one thing after the other for the small tenant, and see how long each takes."""
    placed, embedded = [], []
    for number in range(probes):
        began = time.monotonic()
        chat = f"{SMALL}:{name}"
        accept.accept(database, SMALL, ChatIn(chat_id=chat), [_message(number)])
        queues.hint(app, "ingest")
        placed.append(_until(connection, _PLACED, chat, f"l{number}", began))
        embedded.append(_until(connection, _EMBEDDED, chat, f"l{number}", began))
        time.sleep(max(0.0, PROBE_SECONDS - (time.monotonic() - began)))
    return Lag(
        placed_p50=_ms(median(placed)),
        placed_p95=_ms(quantiles(placed, n=20)[18]),
        embedded_p50=_ms(median(embedded)),
        embedded_p95=_ms(quantiles(embedded, n=20)[18]),
    )


_PLACED = """
    SELECT count(*) FROM messages m WHERE tenant_id = 'small' AND chat_id = %s AND external_id = %s
        AND NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id)
"""
_EMBEDDED = """
    SELECT count(*) FROM messages m JOIN message_vectors v ON v.tenant_id = m.tenant_id AND v.message_id = m.id
    WHERE m.tenant_id = 'small' AND m.chat_id = %s AND m.external_id = %s
"""


def _until(
    connection: psycopg.Connection, statement: str, chat: str, external_id: str, began: float
) -> float:
    _wait(lambda: _count(connection, statement, chat, external_id) > 0, pause=0.004)
    return time.monotonic() - began


def _rates(cast: Cast, way: str, messages: int, rounds: int, say: Say) -> Rate:
    best: dict[str, float] = {}
    for number in range(rounds):
        for mood in (providers.WELL, providers.FAIL, providers.HANG):
            say(f"{messages} messages by {way}, provider: {mood}")
            cast.set_mood(mood)
            best[mood] = max(best.get(mood, 0.0), _rate(cast, way, messages, f"{number}-{mood}"))
            cast.set_mood(providers.WELL)
            with cast.connect() as connection:
                connection.execute("UPDATE work SET due_at = now() WHERE due_at > now() AND claimed IS NULL")
                _wait(lambda: not _count(connection, "SELECT count(*) FROM work WHERE due_at IS NOT NULL"))
    return Rate(
        way=way,
        healthy=round(best[providers.WELL], 1),
        failing=round(best[providers.FAIL], 1),
        hanging=round(best[providers.HANG], 1),
    )


def _rate(cast: Cast, way: str, messages: int, name: str) -> float:
    tenant = DOOR_TENANT if way == "door" else PAYLOAD_TENANT
    batches = [
        Batch(
            tenant=tenant,
            chat=f"rate:{name}:{number % CHATS}",
            messages=[_message(number * BATCH + n) for n in range(BATCH)],
        )
        for number in range(messages // BATCH)
    ]
    driver = Driver(cast, Traffic(sendings=batches, originals={}, gone=(), duplicates=0))
    began = time.monotonic()
    driver.start()
    driver.allow(messages)
    pattern = f"rate:{name}:%"
    with cast.connect() as connection:
        stored = "SELECT count(*) FROM messages WHERE tenant_id = %s AND chat_id LIKE %s"
        _wait(
            lambda: driver.is_done() and _count(connection, stored, tenant, pattern) == len(batches) * BATCH
        )
        _wait(lambda: not _count(connection, "SELECT count(*) FROM arrivals"))
    spent = time.monotonic() - began
    driver.end()
    return len(batches) * BATCH / spent


def _message(number: int) -> MessageIn:
    """Sessions of some twenty messages, no two alike."""
    return MessageIn(
        external_id=f"l{number}",
        sender_id=f"load:{number % 5}",
        content=f"Message {number} tells of the harbour, the lamp and {number * 7919 % 10007} other things.",
        sent_at=START + timedelta(minutes=number, hours=number // 20),
    )


def _count(connection: psycopg.Connection, statement: str, *values: object) -> int:
    row = connection.execute(statement, values).fetchone()
    return int(row[0]) if row else 0


def _wait(condition: Callable[[], bool], pause: float = 0.02) -> None:
    """Raises `TimeoutError` when it does not come true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the deployment was not done within {PATIENCE_SECONDS:.0f} s")
        time.sleep(pause)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)
