"""Workers on another host than Postgres, Redis and the HTTP API: how fast, and what a cut network costs.

The same messages go through three deployments: all on one host; workers on another; and that with the network between
the two cut for a while, under load. Each ends with the verdict of chaos runs.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ops.dev.chaos import cast as casting
from ops.dev.chaos import hosts as networks
from ops.dev.chaos import quiet, traffic
from ops.dev.chaos.cast import API_TENANT, Cast
from ops.dev.chaos.driver import Driver
from ops.dev.chaos.hosts import Hosts
from ops.dev.chaos.report import JudgedRun
from ops.dev.chaos.traffic import MessageChange
from ops.dev.observe import Say, count

SEED = 1
# Shares of the messages that are sent before the cut and until its end.
BEFORE, UNTIL_RESTORED = 0.2, 0.8
STEP_SECONDS = 0.5
# Until everything is sent and done.
QUIET_SECONDS = 120.0


@dataclass(kw_only=True)
class Play(JudgedRun):
    """What one deployment did with the messages."""

    name: str
    # of single requests that the HTTP API took, in milliseconds
    accept_p50: float = 0.0
    # messages a second until all had their place, and until nothing was due; none: the network was cut meanwhile
    placed_per_second: float | None = None
    done_per_second: float | None = None
    # after the network was there again: seconds until all was taken up, and until it was done
    taken_up: float | None = None
    caught_up: float | None = None
    # and until everything that was sent meanwhile and later was done as well
    settled: float | None = None
    # payload tasks, as durable as the connection to Redis
    payloads: int = 0
    payloads_lost: int = 0


def measure(messages: int, cut_seconds: float, lease_seconds: float, say: Say) -> list[Play]:
    """Play the three plays. To be called by the main thread, which is on another network afterwards.

    Raises `NoNamespace` where two hosts cannot be made, and what starting a deployment raises.
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
    play = Play(name=name)
    say(f"{name}: starting")
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-hosts-", ignore_cleanup_errors=True) as folder,
        casting.playing(Path(folder), lease_seconds, hosts) as cast,
    ):
        made = traffic.make(messages, SEED)
        total = messages + made.duplicates
        driver = Driver(cast, made)
        try:
            if hosts is not None and cut_seconds:
                _send_through_a_cut(cast, driver, hosts, cut_seconds, total, play, say)
            else:
                _send(cast, driver, total, play, say)
        finally:
            driver.end()
        # nobody is forgotten here
        gone = {
            (API_TENANT, change.chat, change.external_id)
            for change in made.sendings
            if isinstance(change, MessageChange) and change.content is None
        }
        found = play.judge(cast, driver, made, gone)
        play.accept_p50 = round(1000 * median(driver.accept_seconds), 1)
        play.payloads = len(driver.queued)
        play.payloads_lost = sum(key not in found.stored for key in driver.queued)
    return play


def _send(cast: Cast, driver: Driver, total: int, play: Play, say: Say) -> None:
    say(f"{play.name}: {total} messages")
    began = time.monotonic()
    driver.start()
    driver.allow(total)
    if play.settle(cast, lambda: driver.is_done() and not _arrivals(cast), QUIET_SECONDS):
        play.placed_per_second = round(total / (time.monotonic() - began), 1)
        if play.settle(cast, lambda: not quiet.left_to_do(cast), QUIET_SECONDS):
            play.done_per_second = round(total / (time.monotonic() - began), 1)


def _send_through_a_cut(
    cast: Cast, driver: Driver, hosts: Hosts, seconds: float, total: int, play: Play, say: Say
) -> None:
    driver.start()
    driver.allow(int(BEFORE * total))
    play.settle(cast, lambda: driver.sent >= int(BEFORE * total), QUIET_SECONDS)
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
        play.taken_up, play.caught_up = (round(each, 1) for each in took)
    if play.settle(cast, lambda: driver.is_done() and not quiet.left_to_do(cast), QUIET_SECONDS):
        play.settled = round(time.monotonic() - restored, 1)


def _arrivals(cast: Cast) -> int:
    with cast.connect() as connection:
        return count(connection, "SELECT 1 FROM arrivals LIMIT 1")
