"""How workers share themselves: a small tenant beside a flood, and ingest while the model provider is down.

On a deployment of its own, with all its processes and models that cost nothing, as the sharing is measured. Figures
are ratios of one run, as times are one machine's at one hour.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from celery import Celery
from rich.table import Table

from ops.dev.bench.figures import spread
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
FLOOD = 100
"""Messages of the big tenant for each of the small one's."""
PROBE_SECONDS = 1.0
PATIENCE_SECONDS = 600.0
CHATS, BATCH = 20, 20
MOODS = {"healthy": providers.WELL, "failing": providers.FAIL, "hanging": providers.HANG}
DUE = "SELECT count(*) FROM jobs WHERE due_at IS NOT NULL"


def measure(probes: int, messages: int, rounds: int, say: Say) -> dict[str, Any]:
    """Measure both in turn; what `--json` prints.

    `messages` are sent by each way with each provider, and the best of `rounds` counts. To be called by the
    main thread. Raises what starting the deployment raises.
    """
    say("starting")
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-load-", ignore_cleanup_errors=True) as folder,
        casting.playing(Path(folder), lease_seconds=30) as cast,
    ):
        fairness = _fairness(cast, probes, say)
        rates = [_rates(cast, way, messages, rounds, say) for way in ("door", "payload")]
        return {"fairness": fairness, "provider_down": rates}


def tables(found: Mapping[str, Any]) -> tuple[Table, Table]:
    """Both for a terminal."""
    fairness = found["fairness"]
    title = f"{fairness['probes']} messages of a small tenant beside {fairness['flood']} of a big one"
    lags = Table("milliseconds, p50 / p95", "alone", "beside the flood", title=title)
    both = (fairness["alone"], fairness["flooded"])
    for what in ("placed", "embedded"):
        spreads = (f"{lag[f'{what}_p50']:.0f} / {lag[f'{what}_p95']:.0f}" for lag in both)
        lags.add_row(f"until {what}", *spreads)
    lags.add_row("times as long", "", f"{fairness['ratio']:.2f}")
    title = "Messages a second until placed, by the model provider's state"
    ways = Table("way", "well", "failing", "hanging", "worst part", title=title)
    for rate in found["provider_down"]:
        figures = (f"{rate[state]:.0f}" for state in MOODS)
        ways.add_row(rate["way"], *figures, f"{rate['ratio']:.2f}")
    return lags, ways


def _fairness(cast: Cast, probes: int, say: Say) -> dict[str, Any]:
    """The small tenant's lag without and with the flood."""
    with (
        closing(Database.from_settings(cast.settings)) as database,
        make_app(cast.settings) as app,
        cast.connect() as connection,
    ):
        _probe(database, app, connection, "warm", 5)
        say("the small tenant alone")
        alone = _probe(database, app, connection, "alone", probes)
        say(f"the small tenant beside {FLOOD} times its messages")
        with _flood(database, app) as flood:
            flooded = _probe(database, app, connection, "flooded", probes)
        left = count(connection, f"{DUE} AND tenant_id = %s", [BIG])
        _await(lambda: not count(connection, DUE))
    return {
        "probes": probes,
        # messages of the big tenant accepted meanwhile, and those that waited at the end
        "flood": flood[0],
        "left": left,
        "alone": alone,
        "flooded": flooded,
        # of the median message until it is embedded, which comes last
        "ratio": round(flooded["embedded_p50"] / alone["embedded_p50"], 2),
    }


@contextmanager
def _flood(database: Database, app: Celery) -> Iterator[list[int]]:
    """Let the big tenant say a hundred times as much as the small one, at the same moments; yields `[said so far]`."""
    sent, ending = [0], threading.Event()

    def run() -> None:
        due = time.monotonic()
        while not ending.is_set():
            for chat in range(FLOOD // BATCH):
                number = (sent[0] // BATCH + chat) % CHATS
                said = numbered(range(sent[0], sent[0] + BATCH))
                accept.accept(database, BIG, ChatIn(chat_id=f"{BIG}:{number}"), said)
                sent[0] += BATCH
            queues.hint(app, "ingest")
            due += PROBE_SECONDS
            ending.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=run, name="flood", daemon=True)
    thread.start()
    try:
        yield sent
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
    WHERE m.tenant_id = 'small' AND m.chat_id = %s AND m.external_id = %s
""",
}


def _probe(
    database: Database, app: Celery, connection: psycopg.Connection, name: str, probes: int
) -> dict[str, float]:
    """Say one thing after the other for the small tenant; how long each takes from being accepted, in milliseconds."""
    took: dict[str, list[float]] = {name: [] for name in _REACHED}
    chat = f"{SMALL}:{name}"
    for number in range(probes):
        began = time.monotonic()
        (said,) = numbered(range(number, number + 1))
        accept.accept(database, SMALL, ChatIn(chat_id=chat), [said])
        queues.hint(app, "ingest")
        for what, statement in _REACHED.items():
            given = [chat, said.external_id]
            _await(lambda s=statement, g=given: count(connection, s, g) > 0, pause=0.004)  # type: ignore[misc]
            took[what].append(1000 * (time.monotonic() - began))
        time.sleep(max(0.0, PROBE_SECONDS - (time.monotonic() - began)))
    return {f"{what}_{name}": ms for what, times in took.items() for name, ms in spread(times).items()}


def _rates(cast: Cast, way: str, messages: int, rounds: int, say: Say) -> dict[str, Any]:
    """Messages a second until all are accepted and placed, by what the provider does."""
    best = dict.fromkeys(MOODS, 0.0)
    for number in range(rounds):
        for state, mood in MOODS.items():
            say(f"{messages} messages by {way}, provider: {mood}")
            cast.set_mood(mood)
            best[state] = max(best[state], _rate(cast, way, messages, f"{number}-{mood}"))
            cast.set_mood(providers.WELL)
            with cast.connect() as connection:
                connection.execute("UPDATE jobs SET due_at = now() WHERE due_at > now() AND claimed IS NULL")
                _await(lambda: not count(connection, DUE))
    rates = {state: round(rate, 1) for state, rate in best.items()}
    # the worse of both, as a part of the rate with a healthy provider
    ratio = min(rates["failing"], rates["hanging"]) / rates["healthy"]
    return {"way": way, **rates, "ratio": round(ratio, 2)}


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
