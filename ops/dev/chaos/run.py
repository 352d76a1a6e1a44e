"""One chaos run: traffic and faults side by side, then quiet, then the verdict."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median
from typing import Any

from ops.dev.chaos import faults, quiet, traffic, verdict
from ops.dev.chaos.driver import Driver
from ops.dev.chaos.faults import Fault, Faults
from ops.dev.chaos.traffic import FORGOTTEN_CHAT, FORGOTTEN_SENDER
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import API_TENANT, PAYLOAD_TENANT, Deployment
from ops.dev.observe import Say, wait
from pipeline.erasure import forget
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.failures import OUTAGE_SECONDS
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from schemas.backfills import BackfillKind, BackfillRequest
from schemas.errors import Retryable
from schemas.people.forgetting import Subject
from schemas.settings import Settings

# In which one fault's share of the messages is sent, or the fault comes anyway.
SHARE_SECONDS = 20.0
RECOVERY_SECONDS = 60.0
# After the last fault: until everything is done, or counts as stuck.
QUIET_SECONDS, LOOKS = 180.0, 3
# Of backfills: slow enough to go on through many faults.
ROWS_PER_SECOND = 100.0
ERRAND_SECONDS = 30.0


@dataclass(kw_only=True)
class ChaosReport:
    """A chaos run's figures."""

    seed: int
    lease_seconds: float
    sweep_seconds: float = 0.0
    # unique ones, and how many were sent once more
    messages: int
    duplicates: int = 0
    # how often each kind was made
    kills: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    # faults that could not be made here, with the reason
    skipped: dict[str, str] = field(default_factory=dict)
    # over HTTP: answered 202; of these stored, and deleted or forgotten since
    accepted: int = 0
    stored: int = 0
    gone: int = 0
    lost: int = 0
    doubled: int = 0
    stuck: int = 0
    # work given up with a reason
    dead: int = 0
    # payload tasks, which are as durable as their Redis: messages by what became of them
    payloads: dict[str, int] = field(default_factory=dict)
    # processes that ended without being killed
    ended_by_themselves: list[str] = field(default_factory=list)
    # for each recovery its `fault`; seconds until the killed had started again (`starting`), from then on until all
    # that had been due was taken up (`taken`) and done (`done`), and the most that `taken` may be (`bound`)
    recovered: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)
    # where the logs are, if something was found
    logs: str | None = None

    def bound(self, *, outage: bool) -> float:
        """Return the seconds within which all that is due must have been taken up: a lease and two sweeps.

        After an `outage` of the model provider the pause until it is asked again counts instead, if that is longer.
        """
        pause = max(self.lease_seconds, OUTAGE_SECONDS) if outage else self.lease_seconds
        return pause + 2 * self.sweep_seconds

    def as_dict(self) -> dict[str, Any]:
        """Return the report as one JSON object."""
        recovery: dict[str, Any] = {
            step: {"median": round(median(times), 2), "longest": max(times)}
            for step in ("starting", "taken", "done")
            if (times := [recovered[step] for recovered in self.recovered])
        }
        bounds = {"bound": self.bound(outage=False), "bound_after_outage": self.bound(outage=True)}
        return asdict(self) | {"seconds_to_recover": recovery | bounds}


def run(messages: int, kills: int, seed: int, lease_seconds: float, say: Say) -> ChaosReport:
    """Drive messages through `kills` kills and half as many other faults.

    To be called by the main thread. Raises what starting the deployment raises. The logs are kept, in the folder that
    the report names, when something was found.
    """
    say("starting Postgres, Redis, the workers, the clock and the HTTP API")
    report = ChaosReport(seed=seed, messages=messages, lease_seconds=lease_seconds)
    with deployments.running(lease_seconds=lease_seconds, own_disk=True) as deployment:
        report.sweep_seconds = deployment.settings.sweep_seconds
        if deployment.without_disk is not None:
            report.skipped["disk-full"] = deployment.without_disk
        _play(deployment, faults.draw(kills, seed, report.skipped), report, say)
        if report.violations:
            report.logs = deployment.keep_logs()
    return report


def _play(deployment: Deployment, drawn: list[Fault], report: ChaosReport, say: Say) -> None:
    made = traffic.make(report.messages, report.seed)
    report.duplicates = made.duplicates
    began = time.monotonic()
    with Driver(deployment, made) as driver:
        _afflict(deployment, driver, drawn, report, say)
        driver.allow(report.messages + made.duplicates)
        say("waiting until all is done")
        _settle(deployment, driver, report)
    report.seconds = round(time.monotonic() - began, 1)
    with deployment.connect() as connection:
        rules = SessionPolicy.of(deployment.settings)
        judged = verdict.judge(connection, rules, made.originals, driver.accepted, made.gone)
    report.accepted = len(driver.accepted)
    report.gone = len(driver.accepted.intersection(made.gone))
    report.stored = sum(key[0] != PAYLOAD_TENANT for key in judged.stored)
    report.lost, report.doubled = judged.lost, judged.doubled
    report.stuck, report.dead = judged.stuck, judged.dead
    report.violations += judged.violations + driver.unexpected[:5]
    # taken by Redis, and stored: the rest went with Redis' data, or with a process that had just taken it
    report.payloads = {"queued": len(driver.queued), "stored": len(judged.stored) - report.stored}


def _settle(deployment: Deployment, driver: Driver, report: ChaosReport) -> None:
    """Wait until everything was sent and is done, at three looks in a row."""
    calm = 0

    def is_calm() -> bool:
        nonlocal calm
        report.ended_by_themselves += deployment.tend()
        calm = calm + 1 if driver.is_done() and not quiet.left_to_do(deployment) else 0
        return calm == LOOKS

    if wait(is_calm, QUIET_SECONDS, pause=0.1) is None:
        left = quiet.left_to_do(deployment)
        report.violations.append(f"not quiet within {QUIET_SECONDS:.0f} s: {left} left to do")


def _afflict(
    deployment: Deployment, driver: Driver, drawn: list[Fault], report: ChaosReport, say: Say
) -> None:
    """Make the faults while messages come in."""
    maker = Faults(deployment)
    total = report.messages + report.duplicates
    share = total / (len(drawn) + 1)
    errands = list(ERRANDS)
    outage = False
    for number, fault in enumerate(drawn):
        while errands and errands[0][0] * len(drawn) <= number:
            _run_errand(deployment.settings, errands.pop(0)[1])
        due = int(share * (number + 0.5))
        driver.allow(due)
        wait(lambda due=due: driver.sent >= due, SHARE_SECONDS, pause=0.02)  # type: ignore[misc]
        say(f"{number + 1}/{len(drawn)} {fault.kind}, {driver.sent} of {total} messages sent")
        # the other half comes while it happens
        driver.allow(int(share * (number + 1)))
        maker.make(fault)
        counted = report.kills if fault.kind in faults.KILLS else report.faults
        counted[fault.kind] = counted.get(fault.kind, 0) + 1
        report.ended_by_themselves += deployment.tend()
        outage |= fault.kind.startswith("provider-")
        if fault.alone or number == len(drawn) - 1:
            _recover(deployment, fault.kind, report, outage=outage)
            outage = False
    # where there were few faults some have not had their turn
    for _, errand in errands:
        _run_errand(deployment.settings, errand)


def _recover(deployment: Deployment, kind: str, report: ChaosReport, *, outage: bool) -> None:
    """Wait until processes are up and what is due was taken up and done; note how long it took."""
    starting = quiet.wait_ready(deployment)
    took = quiet.wait_recovered(deployment, quiet.mark(deployment), RECOVERY_SECONDS)
    if starting is None or took is None:
        report.violations.append(f"no recovery within {RECOVERY_SECONDS:.0f} s of {kind}")
        return
    bound = report.bound(outage=outage)
    taken, done = (round(lag, 2) for lag in took)
    report.recovered.append(
        {"fault": kind, "starting": round(starting, 2), "taken": taken, "done": done, "bound": bound}
    )
    if taken > bound:
        report.violations.append(f"what {kind} interrupted was taken up after {taken} s, not {bound:.0f} s")


def _backfill(tenant_id: str, kind: BackfillKind, database: Database, settings: Settings) -> None:
    request = BackfillRequest(kind=kind, missing_only=False, rate_per_second=ROWS_PER_SECOND)
    backfill.start(database, tenant_id, request, Current.of(settings))


def _forget(subject: Subject, database: Database, _settings: Settings) -> None:
    forget.start(database, API_TENANT, subject)


ERRANDS: Sequence[tuple[float, Callable[[Database, Settings], None]]] = (
    (0.15, partial(_backfill, API_TENANT, "embed")),
    (0.3, partial(_forget, Subject(kind="user", sender_id=FORGOTTEN_SENDER))),
    (0.45, partial(_backfill, PAYLOAD_TENANT, "sessionize")),
    (0.6, partial(_forget, Subject(kind="chat", chat_id=FORGOTTEN_CHAT))),
    (0.75, partial(_backfill, API_TENANT, "summarize")),
)
"""What an operator does meanwhile, each with its turn among the faults."""


def _run_errand(settings: Settings, errand: Callable[[Database, Settings], None]) -> None:
    """Try an errand until it is taken, as an operator would."""

    def is_taken() -> bool:
        with suppress(Retryable), closing(Database.from_settings(settings)) as database:
            errand(database, settings)
            return True
        return False

    if wait(is_taken, ERRAND_SECONDS, pause=0.2) is None:
        raise TimeoutError("an operator's errand was not taken")
