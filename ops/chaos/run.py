"""One chaos run: traffic and faults side by side, then quiet, then the verdict."""

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from redis.exceptions import RedisError

from ops.chaos import cast as casting
from ops.chaos import plan, quiet, traffic, verdict
from ops.chaos.cast import PAYLOAD_TENANT, Cast
from ops.chaos.driver import Driver
from ops.chaos.faults import Faults
from ops.chaos.report import Payloads, Report
from pipeline.rules import Rules

Say = Callable[[str], None]

# What one fault's share of the messages may take to be sent before the fault comes anyway.
SHARE_SECONDS = 20.0
RECOVERY_SECONDS = 60.0
# After the last fault: until everything is done, or said to be stuck.
QUIET_SECONDS = 180.0


@dataclass(frozen=True)
class QueueHistory:
    """Moments (monotonic) at which the queue of payloads was found empty, and at which Redis was emptied."""

    drained: list[float] = field(default_factory=list)
    emptied: list[float] = field(default_factory=list)

    def may_have_held(self, queued_at: float) -> bool:
        """Whether what was queued then may still have been in Redis when its data went.

        >>> QueueHistory([5.0], [7.0]).may_have_held(4.0), QueueHistory([5.0], [7.0]).may_have_held(6.0)
        (False, True)
        """
        emptied = next((moment for moment in self.emptied if moment > queued_at), None)
        return emptied is not None and not any(queued_at < moment < emptied for moment in self.drained)


def run(messages: int, kills: int, seed: int, say: Say) -> Report:
    """Drive so many messages through `kills` kills and half as many other faults.

    To be called by the main thread. Raises what starting the cast raises. The folder with the logs is kept,
    and named in the report, when something was found.
    """
    folder = Path(tempfile.mkdtemp(prefix="backscroll-chaos-"))
    keep = False
    try:
        say("starting Postgres, Redis, five workers, beat and the door")
        with casting.playing(folder) as cast:
            report = _play(cast, messages, plan.draw(kills, seed), seed, say)
        keep = bool(report.violations)
        report.logs = str(folder) if keep else None
        return report
    finally:
        if not keep:
            casting.remove(folder)


def _play(cast: Cast, messages: int, faults: list[plan.Fault], seed: int, say: Say) -> Report:
    made = traffic.make(messages, seed)
    report = Report(seed=seed, messages=messages, duplicates=made.duplicates)
    driver = Driver(cast, made)
    total = messages + made.duplicates
    began = time.monotonic()
    driver.start()
    try:
        queue = _afflict(cast, driver, faults, total, report, say)
        driver.allow(total)
        _settle(cast, driver, report, say)
    finally:
        driver.end()
    report.seconds = round(time.monotonic() - began, 1)
    _judge(cast, driver, made, queue, report)
    return report


def _afflict(
    cast: Cast, driver: Driver, faults: list[plan.Fault], total: int, report: Report, say: Say
) -> QueueHistory:
    """Make the faults while messages come in; when the queue of payloads was empty, and when emptied."""
    maker = Faults(cast)
    history = QueueHistory()
    share = total / (len(faults) + 1)
    for number, fault in enumerate(faults):
        driver.allow(int(share * (number + 0.5)))
        _await_sent(driver, int(share * (number + 0.5)))
        say(f"{number + 1}/{len(faults)} {fault.kind}, {driver.sent} of {total} messages sent")
        with suppress(RedisError):
            looked = time.monotonic()
            if quiet.payloads_waiting(cast) == 0:
                history.drained.append(looked)
        # the other half comes while it happens
        driver.allow(int(share * (number + 1)))
        maker.make(fault)
        if fault.kind in plan.LOSES_QUEUE:
            history.emptied.append(time.monotonic())
        counted = report.kills if fault.kind in plan.KILLS else report.faults
        counted[fault.kind] += 1
        ended = quiet.now(cast)
        report.ended_by_themselves += cast.tend()
        if fault.alone or number == len(faults) - 1:
            took = quiet.wait_recovered(cast, ended, RECOVERY_SECONDS)
            if took is None:
                report.violations.append(f"no recovery within {RECOVERY_SECONDS:.0f} s of {fault.kind}")
            else:
                report.recovered.append((fault.kind, round(took, 2)))
    report.midway = maker.midway
    return history


def _await_sent(driver: Driver, sent: int) -> None:
    deadline = time.monotonic() + SHARE_SECONDS
    while driver.sent < sent and time.monotonic() < deadline:
        time.sleep(0.02)


def _settle(cast: Cast, driver: Driver, report: Report, say: Say) -> None:
    """Wait until everything is sent and done."""
    deadline = time.monotonic() + QUIET_SECONDS
    calm = 0
    while calm < 3:
        report.ended_by_themselves += cast.tend()
        left = -1
        with suppress(psycopg.OperationalError, RedisError):
            left = quiet.owed(cast) + quiet.payloads_waiting(cast)
        calm = calm + 1 if left == 0 and driver.is_done() else 0
        say(f"{driver.sent} sent, {left} left to do")
        if time.monotonic() > deadline:
            report.violations.append(
                f"not quiet within {QUIET_SECONDS:.0f} s of the last fault: {left} left to do, "
                f"{'all' if driver.is_done() else 'not all'} messages were taken"
            )
            return
        time.sleep(0.2)


def _judge(cast: Cast, driver: Driver, made: traffic.Traffic, history: QueueHistory, report: Report) -> None:
    with cast.connect() as connection:
        found = verdict.judge(connection, Rules.of(cast.settings), made.originals, driver.accepted)
    report.accepted = len(driver.accepted)
    report.stored = sum(key[0] != PAYLOAD_TENANT for key in found.stored)
    report.lost, report.doubled, report.stuck = found.lost, found.doubled, found.stuck
    report.dead, report.sessions = found.dead, found.sessions
    report.refusals = Counter(driver.refusals)
    missing = [at for key, at in driver.queued.items() if key not in found.stored]
    forgotten = sum(history.may_have_held(at) for at in missing)
    report.payloads = Payloads(
        queued=len(driver.queued),
        stored=len(found.stored) - report.stored,
        lost_with_redis_data=forgotten,
        lost_in_flight=len(missing) - forgotten,
    )
    report.violations += found.violations + driver.unexpected[:5]
