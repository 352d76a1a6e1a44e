"""Workers on another host than Postgres, Redis and the door: how fast, and what a cut network costs.

The same messages go through three deployments: all on one host; workers on another; and that with the network between
the two cut for a while, under load. Each ends with the verdict of chaos runs.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from redis.exceptions import RedisError
from rich.table import Table

from ops.chaos import cast as casting
from ops.chaos import hosts as networks
from ops.chaos import quiet, traffic, verdict
from ops.chaos.cast import DOOR_TENANT, Cast
from ops.chaos.driver import Driver
from ops.chaos.hosts import Hosts
from ops.chaos.traffic import Change, Traffic
from pipeline.ingest.policy import Rules

Say = Callable[[str], None]

SEED = 1
# Shares of the messages that are sent before the cut and until its end.
BEFORE, UNTIL_RESTORED = 0.2, 0.8
STEP_SECONDS = 0.5
SWEEP_SECONDS = 5.0
# Until everything is sent and done.
QUIET_SECONDS = 120.0


@dataclass(kw_only=True)
class Play:
    """What one deployment did with the messages."""

    name: str
    accepted: int = 0
    # of single requests that the door took, in milliseconds
    accept_p50: float = 0.0
    # messages a second until all had their place, and until nothing was owed; none: the network was cut meanwhile
    placed_per_second: float | None = None
    done_per_second: float | None = None
    # after the network was there again: seconds until all was taken up, and until it was done
    taken_up: float | None = None
    caught_up: float | None = None
    # and until everything that was sent meanwhile and later was done as well
    settled: float | None = None
    lost: int = 0
    doubled: int = 0
    stuck: int = 0
    # payload tasks, as durable as the connection to Redis
    payloads: int = 0
    payloads_lost: int = 0
    ended_by_themselves: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def measure(messages: int, cut_seconds: float, lease_seconds: float, say: Say) -> list[Play]:
    """The three plays. To be called by the main thread, which is on another network afterwards.

    Raises `NoHosts` where two hosts cannot be made, and what starting a deployment raises.
    """
    networks.require()
    plays = [_play("one host", None, 0, messages, lease_seconds, say)]
    with networks.joined() as hosts:
        plays.append(_play("two hosts", hosts, 0, messages, lease_seconds, say))
        name = f"two hosts, cut for {cut_seconds:.0f} s"
        plays.append(_play(name, hosts, cut_seconds, messages, lease_seconds, say))
    return plays


def _play(
    name: str, hosts: Hosts | None, cut_seconds: float, messages: int, lease_seconds: float, say: Say
) -> Play:
    folder = Path(tempfile.mkdtemp(prefix="backscroll-hosts-"))
    play = Play(name=name)
    try:
        say(f"{name}: starting")
        with casting.playing(folder, lease_seconds, min(SWEEP_SECONDS, lease_seconds / 2), hosts) as cast:
            made = traffic.make(messages, SEED)
            driver = Driver(cast, made)
            if quiet.wait_ready(cast, casting.READY_SECONDS) is None:
                play.violations.append("not everybody came up")
            try:
                if hosts is not None and cut_seconds:
                    _send_through_a_cut(
                        cast, driver, hosts, cut_seconds, messages + made.duplicates, play, say
                    )
                else:
                    _send(cast, driver, messages + made.duplicates, play, say)
            finally:
                driver.end()
            _judge(cast, driver, made, play)
        return play
    finally:
        casting.remove(folder)


def _send(cast: Cast, driver: Driver, total: int, play: Play, say: Say) -> None:
    say(f"{play.name}: {total} messages")
    began = time.monotonic()
    driver.start()
    driver.allow(total)
    if not _wait(cast, play, lambda: driver.is_done() and not _arrivals(cast)):
        return
    play.placed_per_second = round(total / (time.monotonic() - began), 1)
    if _wait(cast, play, lambda: not _left(cast)):
        play.done_per_second = round(total / (time.monotonic() - began), 1)


def _send_through_a_cut(
    cast: Cast, driver: Driver, hosts: Hosts, seconds: float, total: int, play: Play, say: Say
) -> None:
    driver.start()
    driver.allow(int(BEFORE * total))
    _wait(cast, play, lambda: driver.sent >= int(BEFORE * total))
    say(f"{play.name}: cut")
    hosts.cut()
    try:
        steps = max(1, int(seconds / STEP_SECONDS))
        for step in range(steps):
            driver.allow(int((BEFORE + (UNTIL_RESTORED - BEFORE) * step / steps) * total))
            time.sleep(seconds / steps)
    finally:
        hosts.restore()
    say(f"{play.name}: restored")
    restored = time.monotonic()
    mark = quiet.mark(cast)
    driver.allow(total)
    took = quiet.wait_recovered(cast, mark, QUIET_SECONDS)
    if took is not None:
        play.taken_up, play.caught_up = round(took.taken, 1), round(took.done, 1)
    if _wait(cast, play, lambda: driver.is_done() and not _left(cast)):
        play.settled = round(time.monotonic() - restored, 1)


def _wait(cast: Cast, play: Play, condition: Callable[[], bool]) -> bool:
    """Wait until it is so; whether it came to that in time."""
    deadline = time.monotonic() + QUIET_SECONDS
    while not condition():
        play.ended_by_themselves += cast.tend()
        if time.monotonic() > deadline:
            play.violations.append(f"not quiet within {QUIET_SECONDS:.0f} s: {_left(cast)} left to do")
            return False
        time.sleep(0.05)
    return True


def _left(cast: Cast) -> int:
    """What is owed or waits in the queue of payloads; at least 1 while that cannot be asked."""
    with contextlib.suppress(psycopg.OperationalError, RedisError):
        return quiet.owed(cast) + quiet.payloads_waiting(cast)
    return 1


def _arrivals(cast: Cast) -> bool:
    with cast.connect() as connection:
        return connection.execute("SELECT 1 FROM arrivals LIMIT 1").fetchone() is not None


def _judge(cast: Cast, driver: Driver, made: Traffic, play: Play) -> None:
    # nobody is forgotten here
    gone = {
        (DOOR_TENANT, change.chat, change.external_id)
        for change in made.sendings
        if isinstance(change, Change) and change.content is None
    }
    with cast.connect() as connection:
        found = verdict.judge(connection, Rules.of(cast.settings), made.originals, driver.accepted, gone)
    play.accepted = len(driver.accepted)
    play.accept_p50 = round(1000 * median(driver.accept_seconds), 1)
    play.lost, play.doubled, play.stuck = found.lost, found.doubled, found.stuck
    play.payloads = len(driver.queued)
    play.payloads_lost = sum(key not in found.stored for key in driver.queued)
    play.violations += found.violations + driver.unexpected[:5]


def as_dict(plays: Sequence[Play]) -> dict[str, Any]:
    """For `--json`."""
    return {"plays": [asdict(play) for play in plays]}


def as_table(plays: Sequence[Play]) -> Table:
    """For a terminal."""
    table = Table(title="Workers on another host")
    table.add_column("")
    for play in plays:
        table.add_column(play.name)
    rows = {
        "messages accepted by the door": "accepted",
        "accepting, p50, ms": "accept_p50",
        "placed, messages a second": "placed_per_second",
        "all done, messages a second": "done_per_second",
        "after the cut: seconds until taken up": "taken_up",
        "  and done": "caught_up",
        "  and all that came later": "settled",
        "lost": "lost",
        "doubled": "doubled",
        "stuck": "stuck",
        "payload tasks": "payloads",
        "  lost on their way": "payloads_lost",
    }
    for told, name in rows.items():
        values = (getattr(play, name) for play in plays)
        table.add_row(told, *("–" if value is None else f"{value:,}" for value in values))
    return table
