"""How workers share themselves: a small tenant beside a flood, and ingest while the model provider is down.

On a deployment of its own, with all its processes and models that cost nothing, as the sharing is measured.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import psycopg
from celery import Celery

from ops.dev.bench.figures import Figure
from ops.dev.bench.talk import numbered
from ops.dev.chaos import cast as casting
from ops.dev.chaos import providers
from ops.dev.chaos.cast import API_TENANT, PAYLOAD_TENANT, Cast
from ops.dev.chaos.driver import Driver
from ops.dev.chaos.traffic import Batch, Traffic
from ops.dev.observe import Say, count, wait
from pipeline.ingest import accept
from pipeline.store.database import Database
from schemas.messages import ChatIn
from workers import queues
from workers.app import make_app

BIG, SMALL = "big", "small"
PROBES, PROBE_SECONDS = 40, 1.0
"""Messages of the small tenant, alone and again beside the flood, and how far apart they are."""
FLOOD = 100
"""Messages of the big tenant for each of the small one's."""
MESSAGES, ROUNDS = 2000, 2
"""Messages sent by each way with each provider, and rounds, of which the best counts."""
PATIENCE_SECONDS = 600.0
CHATS, BATCH = 20, 20
WAYS = {"HTTP": API_TENANT, "payload tasks": PAYLOAD_TENANT}
MOODS = {"healthy": providers.WELL, "failing": providers.FAIL, "hanging": providers.HANG}
DUE = "SELECT count(*) FROM jobs WHERE due_at IS NOT NULL"


def measure(say: Say) -> list[Figure]:
    """Measure both in turn. To be called by the main thread. Raises what starting the deployment raises."""
    say("starting")
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-load-", ignore_cleanup_errors=True) as folder,
        casting.playing(Path(folder)) as cast,
    ):
        return [*_fairness(cast, say), *(figure for way in WAYS for figure in _rates(cast, way, say))]


def _fairness(cast: Cast, say: Say) -> Iterator[Figure]:
    """Measure the small tenant's lag without and with the flood."""
    with (
        closing(Database.from_settings(cast.settings)) as database,
        make_app(cast.settings) as app,
        cast.connect() as connection,
    ):
        _probe(database, app, connection, "warm", 5)
        say("the small tenant alone")
        alone = _probe(database, app, connection, "alone", PROBES)
        say(f"the small tenant beside {FLOOD} times its messages")
        with _flood(database, app):
            flooded = _probe(database, app, connection, "flooded", PROBES)
        _await(lambda: not count(connection, DUE))
    for what, ms in alone.items():
        beside = f"until {what}, beside {FLOOD} times as many of another tenant"
        yield Figure(f"until {what}, alone", ms, "ms")
        yield Figure(beside, flooded[what], "ms", ratio=flooded[what] / ms)


@contextmanager
def _flood(database: Database, app: Celery) -> Iterator[None]:
    """Let the big tenant say a hundred times as much as the small one, at the same moments."""
    ending = threading.Event()

    def run() -> None:
        sent, due = 0, time.monotonic()
        while not ending.is_set():
            for chat in range(FLOOD // BATCH):
                number = (sent // BATCH + chat) % CHATS
                said = numbered(range(sent, sent + BATCH))
                accept.accept(database, BIG, ChatIn(chat_id=f"{BIG}:{number}"), said)
                sent += BATCH
            queues.wake_up(app, "ingest")
            due += PROBE_SECONDS
            ending.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=run, name="flood", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


_REACHED = {
    "placed": """
    SELECT count(*) FROM messages m WHERE tenant_id = 'small' AND chat_id = %s AND external_id = %s
        AND NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = m.tenant_id AND a.message_id = m.id)
""",
    "embedded": """
    SELECT count(*) FROM messages m JOIN message_vectors v ON v.tenant_id = m.tenant_id AND v.message_id = m.id
        AND v.chunk_index = 0
    WHERE m.tenant_id = 'small' AND m.chat_id = %s AND m.external_id = %s
""",
}


def _probe(
    database: Database, app: Celery, connection: psycopg.Connection, name: str, probes: int
) -> dict[str, float]:
    """Say one thing after the other for the small tenant; the median ms from being accepted until each stage."""
    took: dict[str, list[float]] = {name: [] for name in _REACHED}
    chat = f"{SMALL}:{name}"
    for number in range(probes):
        began = time.monotonic()
        (said,) = numbered(range(number, number + 1))
        accept.accept(database, SMALL, ChatIn(chat_id=chat), [said])
        queues.wake_up(app, "ingest")
        for what, statement in _REACHED.items():
            given = [chat, said.external_id]
            _await(lambda s=statement, g=given: count(connection, s, g) > 0, pause=0.004)  # type: ignore[misc]
            took[what].append(1000 * (time.monotonic() - began))
        time.sleep(max(0.0, PROBE_SECONDS - (time.monotonic() - began)))
    return {what: median(times) for what, times in took.items()}


def _rates(cast: Cast, way: str, say: Say) -> Iterator[Figure]:
    """Messages a second until all are accepted and placed, by what the provider does."""
    best = dict.fromkeys(MOODS, 0.0)
    for number in range(ROUNDS):
        for state, mood in MOODS.items():
            say(f"{MESSAGES} messages by {way}, provider: {mood}")
            cast.set_mood(mood)
            best[state] = max(best[state], _rate(cast, WAYS[way], f"{number}-{mood}"))
            cast.set_mood(providers.WELL)
            with cast.connect() as connection:
                connection.execute("UPDATE jobs SET due_at = now() WHERE due_at > now() AND claimed IS NULL")
                _await(lambda: not count(connection, DUE))
    for state, rate in best.items():
        ratio = None if state == "healthy" else rate / best["healthy"]
        yield Figure(f"placed, by {way}, provider {state}", rate, "messages/s", ratio=ratio)


def _rate(cast: Cast, tenant: str, name: str) -> float:
    batches = [
        Batch(
            tenant=tenant,
            chat=f"rate:{name}:{number % CHATS}",
            messages=numbered(range(number * BATCH, (number + 1) * BATCH)),
        )
        for number in range(MESSAGES // BATCH)
    ]
    driver = Driver(cast, Traffic(sendings=batches, originals={}, gone=(), duplicates=0))
    began = time.monotonic()
    driver.start()
    driver.allow(MESSAGES)
    stored = "SELECT count(*) FROM messages WHERE tenant_id = %s AND chat_id LIKE %s"
    with cast.connect() as connection:
        _await(lambda: driver.is_done() and count(connection, stored, [tenant, f"rate:{name}:%"]) == MESSAGES)
        _await(lambda: not count(connection, "SELECT count(*) FROM arrivals"))
    spent = time.monotonic() - began
    driver.end()
    return MESSAGES / spent


def _await(condition: Callable[[], bool], pause: float = 0.02) -> None:
    """Raises `TimeoutError` when it does not come true."""
    if wait(condition, PATIENCE_SECONDS, pause=pause) is None:
        raise TimeoutError(f"the deployment was not done within {PATIENCE_SECONDS:.0f} s")
