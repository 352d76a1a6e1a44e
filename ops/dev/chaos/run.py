"""One chaos run: traffic and faults side by side, then quiet, then the verdict."""

import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from ops.dev.chaos import cast as casting
from ops.dev.chaos import namespaces, plan, quiet, traffic
from ops.dev.chaos.cast import API_TENANT, PAYLOAD_TENANT, Cast
from ops.dev.chaos.driver import Driver
from ops.dev.chaos.faults import Faults
from ops.dev.chaos.report import ChaosReport
from ops.dev.chaos.traffic import FORGOTTEN_CHAT, FORGOTTEN_SENDER
from ops.dev.observe import Say, wait
from pipeline.erasure import forget
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from schemas.backfills import BackfillKind, BackfillRequest
from schemas.errors import Retryable
from schemas.forgetting import Subject

# In which one fault's share of the messages is sent, or the fault comes anyway.
SHARE_SECONDS = 20.0
RECOVERY_SECONDS = 60.0
# After the last fault: until everything is done, or counts as stuck.
QUIET_SECONDS = 180.0
# Of backfills: slow enough to go on through many faults.
ROWS_PER_SECOND = 100.0
ERRAND_SECONDS = 30.0


class Errands:
    """An operator's errands, each with its turn among the faults: backfills, and a person and a chat to forget."""

    def __init__(self, cast: Cast, faults: int, report: ChaosReport) -> None:
        self._settings = cast.settings
        self._report = report
        user = Subject(kind="user", sender_id=FORGOTTEN_SENDER)
        chat = Subject(kind="chat", chat_id=FORGOTTEN_CHAT)
        self._turns: list[tuple[float, Callable[[Database], None]]] = [
            (0.15 * faults, lambda database: self._backfill(database, API_TENANT, "embed")),
            (0.3 * faults, lambda database: self._forget(database, user)),
            (0.45 * faults, lambda database: self._backfill(database, PAYLOAD_TENANT, "sessionize")),
            (0.6 * faults, lambda database: self._forget(database, chat)),
            (0.75 * faults, lambda database: self._backfill(database, API_TENANT, "summarize")),
        ]

    def run(self, fault: int) -> None:
        """Start what is due before this fault; tried until it is taken, as an operator would."""
        with closing(Database.from_settings(self._settings)) as database:
            while self._turns and self._turns[0][0] <= fault:
                if wait(lambda: self._is_taken(database), ERRAND_SECONDS, pause=0.2) is None:
                    raise TimeoutError("an operator's errand was not taken")
                self._turns.pop(0)

    def _is_taken(self, database: Database) -> bool:
        with suppress(Retryable):
            self._turns[0][1](database)
            return True
        return False

    def _backfill(self, database: Database, tenant_id: str, kind: BackfillKind) -> None:
        current = Current.of(self._settings)
        request = BackfillRequest(kind=kind, missing_only=False, rate_per_second=ROWS_PER_SECOND)
        backfill.start(database, tenant_id, request, current)
        self._report.backfills += 1

    def _forget(self, database: Database, subject: Subject) -> None:
        forget.start(database, API_TENANT, subject)
        self._report.forgotten += 1


def run(messages: int, kills: int, seed: int, lease_seconds: float, say: Say) -> ChaosReport:
    """Drive messages through `kills` kills and half as many other faults.

    To be called by the main thread. Raises what starting the cast raises. The logs are kept, in the folder that the
    report names, when something was found.
    """
    with tempfile.TemporaryDirectory(prefix="backscroll-chaos-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with namespaces.mounted(folder) as problem:
            skipped = {} if problem is None else {"disk-full": problem}
            say("starting Postgres, Redis, five workers, beat and the HTTP API")
            with casting.playing(folder, lease_seconds) as cast:
                report = ChaosReport(
                    seed=seed,
                    messages=messages,
                    lease_seconds=lease_seconds,
                    sweep_seconds=cast.settings.sweep_seconds,
                    skipped=skipped,
                )
                _play(cast, plan.draw(kills, seed, skipped), report, say)
            if report.violations:
                report.logs = casting.keep_logs(folder)
    return report


def _play(cast: Cast, faults: list[plan.Fault], report: ChaosReport, say: Say) -> None:
    made = traffic.make(report.messages, report.seed)
    report.duplicates = made.duplicates
    driver = Driver(cast, made)
    total = report.messages + made.duplicates
    began = time.monotonic()
    driver.start()
    try:
        _afflict(cast, driver, faults, total, report, say)
        driver.allow(total)
        say("waiting until all is done")
        report.settle(cast, lambda: driver.is_done() and not quiet.left_to_do(cast), QUIET_SECONDS, looks=3)
    finally:
        driver.end()
    report.seconds = round(time.monotonic() - began, 1)
    _judge(cast, driver, made, report)


def _afflict(
    cast: Cast, driver: Driver, faults: list[plan.Fault], total: int, report: ChaosReport, say: Say
) -> None:
    """Make the faults while messages come in."""
    maker = Faults(cast)
    share = total / (len(faults) + 1)
    errands = Errands(cast, len(faults), report)
    outage = False
    for number, fault in enumerate(faults):
        errands.run(number)
        due = int(share * (number + 0.5))
        driver.allow(due)
        wait(lambda due=due: driver.sent >= due, SHARE_SECONDS, pause=0.02)  # type: ignore[misc]
        say(f"{number + 1}/{len(faults)} {fault.kind}, {driver.sent} of {total} messages sent")
        # the other half comes while it happens
        driver.allow(int(share * (number + 1)))
        maker.make(fault)
        counted = report.kills if fault.kind in plan.KILLS else report.faults
        counted[fault.kind] = counted.get(fault.kind, 0) + 1
        report.ended_by_themselves += cast.tend()
        outage |= fault.kind.startswith("provider-")
        if fault.alone or number == len(faults) - 1:
            _recover(cast, fault.kind, report, outage=outage)
            outage = False
    # where there were few faults some have not had their turn
    errands.run(len(faults))
    report.midway = maker.midway


def _recover(cast: Cast, kind: str, report: ChaosReport, *, outage: bool) -> None:
    """Wait until processes are up and what is due was taken up and done; note how long it took."""
    starting = quiet.wait_ready(cast)
    took = quiet.wait_recovered(cast, quiet.mark(cast), RECOVERY_SECONDS)
    if starting is None or took is None:
        report.violations.append(f"no recovery within {RECOVERY_SECONDS:.0f} s of {kind}")
        return
    bound = report.bound(outage=outage)
    taken, done = (round(each, 2) for each in took)
    report.recovered.append(
        {"fault": kind, "starting": round(starting, 2), "taken": taken, "done": done, "bound": bound}
    )
    if taken > bound:
        report.violations.append(f"what {kind} interrupted was taken up after {taken} s, not {bound:.0f} s")


def _judge(cast: Cast, driver: Driver, made: traffic.Traffic, report: ChaosReport) -> None:
    found = report.judge(cast, driver, made, made.gone)
    report.gone = len(driver.accepted.intersection(made.gone))
    report.stored = sum(key[0] != PAYLOAD_TENANT for key in found.stored)
    report.dead, report.sessions = found.dead, found.sessions
    report.refusals = dict(driver.refusals)
    report.changed = driver.changed
    # taken by Redis, and stored: the rest went with Redis' data, or with a process that had just taken it
    report.payloads = {"queued": len(driver.queued), "stored": len(found.stored) - report.stored}
