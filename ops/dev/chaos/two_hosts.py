"""Workers on another host than Postgres, Redis and the HTTP API: how fast, and what a cut network costs.

The same messages go through three deployments: all on one host; workers on another; and that with the network between
the two cut for a while, under load. Each ends with the verdict of chaos runs.
"""

import time
from dataclasses import dataclass
from statistics import median

from ops.dev.chaos import quiet, traffic
from ops.dev.chaos.driver import Driver
from ops.dev.chaos.judged import JudgedRun
from ops.dev.chaos.traffic import MessageChange
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed import hosts as networks
from ops.dev.deployed.deployment import API_TENANT, Deployment
from ops.dev.deployed.hosts import Hosts
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
    made = traffic.make(messages, SEED)
    plays = [_play("one host", made, None, 0, lease_seconds, say)]
    with networks.joined() as hosts:
        plays.append(_play("two hosts", made, hosts, 0, lease_seconds, say))
        name = f"two hosts, cut for {cut_seconds:.0f} s"
        plays.append(_play(name, made, hosts, cut_seconds, lease_seconds, say))
    return plays


def _play(
    name: str, made: traffic.Traffic, hosts: Hosts | None, cut_seconds: float, lease_seconds: float, say: Say
) -> Play:
    play = Play(name=name)
    total = len(made.originals) + made.duplicates
    say(f"{name}: starting")
    with deployments.running(lease_seconds=lease_seconds, hosts=hosts) as deployment:
        say(f"{name}: {total} messages")
        with Driver(deployment, made) as driver:
            if hosts is not None and cut_seconds:
                _send_through_a_cut(deployment, driver, hosts, cut_seconds, total, play)
            else:
                _send(deployment, driver, total, play)
        # nobody is forgotten here
        gone = {
            (API_TENANT, change.chat, change.external_id)
            for change in made.sendings
            if isinstance(change, MessageChange) and change.content is None
        }
        verdict = play.judge(deployment, driver, made, gone)
    play.accept_p50 = round(1000 * median(driver.accept_seconds), 1)
    play.payloads = len(driver.queued)
    play.payloads_lost = sum(key not in verdict.stored for key in driver.queued)
    return play


def _send(deployment: Deployment, driver: Driver, total: int, play: Play) -> None:
    def are_placed() -> bool:
        with deployment.connect() as connection:
            return driver.is_done() and not count(connection, "SELECT 1 FROM arrivals LIMIT 1")

    began = time.monotonic()
    driver.allow(total)
    if play.settle(deployment, are_placed, QUIET_SECONDS):
        play.placed_per_second = round(total / (time.monotonic() - began), 1)
        if play.settle(deployment, lambda: not quiet.left_to_do(deployment), QUIET_SECONDS):
            play.done_per_second = round(total / (time.monotonic() - began), 1)


def _send_through_a_cut(
    deployment: Deployment, driver: Driver, hosts: Hosts, seconds: float, total: int, play: Play
) -> None:
    driver.allow(int(BEFORE * total))
    play.settle(deployment, lambda: driver.sent >= int(BEFORE * total), QUIET_SECONDS)
    hosts.cut()
    try:
        steps = max(1, int(seconds / STEP_SECONDS))
        for step in range(steps):
            driver.allow(int((BEFORE + (UNTIL_RESTORED - BEFORE) * step / steps) * total))
            time.sleep(seconds / steps)
    finally:
        hosts.restore()
    restored = time.monotonic()
    mark = quiet.mark(deployment)
    driver.allow(total)
    took = quiet.wait_recovered(deployment, mark, QUIET_SECONDS)
    if took is not None:
        play.taken_up, play.caught_up = (round(lag, 1) for lag in took)
    if play.settle(deployment, lambda: driver.is_done() and not quiet.left_to_do(deployment), QUIET_SECONDS):
        play.settled = round(time.monotonic() - restored, 1)
