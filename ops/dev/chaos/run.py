"""One chaos run: traffic and faults side by side, then quiet, then the verdict."""

from collections import Counter
from contextlib import closing, suppress
from typing import Any

from ops.dev import deployment as deployments
from ops.dev.chaos import faults, traffic, verdict
from ops.dev.chaos.faults import Fault, Faults
from ops.dev.chaos.traffic import FORGOTTEN_CHAT, FORGOTTEN_SENDER, Driver
from ops.dev.deployment import API_TENANT, PAYLOAD_TENANT, OwnDeployment
from ops.dev.figures import Report, Say, wait
from pipeline.erasure import forget
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs.failures import OUTAGE_SECONDS
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from schemas.backfills import BackfillRequest
from schemas.errors import Retryable
from schemas.people import Subject

# In which one fault's share of the messages is sent, or the fault comes anyway.
SHARE_SECONDS = 20.0
RECOVERY_SECONDS = 60.0
# Time for everything to be done after the last fault, and number of consecutive looks that must find it done.
QUIET_SECONDS, LOOKS = 180.0, 3
# Slow enough to go on through many faults.
BACKFILL = {"missing_only": False, "rate_per_second": 100.0}
ERRAND_SECONDS = 30.0
FORGOTTEN = {
    "user": Subject(kind="user", sender_id=FORGOTTEN_SENDER),
    "chat": Subject(kind="chat", chat_id=FORGOTTEN_CHAT),
}
ERRANDS = (
    (0.15, "backfill", API_TENANT, "embed"),
    (0.3, "forget", API_TENANT, "user"),
    (0.45, "backfill", PAYLOAD_TENANT, "sessionize"),
    (0.6, "forget", API_TENANT, "chat"),
    (0.75, "backfill", API_TENANT, "summarize"),
)
"""What an operator does meanwhile, each with its turn among the faults."""


def run(messages: int, kills: int, seed: int, lease_seconds: float, say: Say) -> Report:
    """Drive messages through `kills` kills and half as many other faults.

    To be called by the main thread. The logs are kept, in the folder that the outcome names, if something was found.
    """
    say("starting Postgres, Redis, the workers, the clock and the HTTP API")
    with deployments.running(lease_seconds=lease_seconds, own_disk=True) as deployment:
        # what cannot be made here, with the reason
        skipped = {} if deployment.without_disk is None else {"disk-full": deployment.without_disk}
        played = ChaosRun(deployment, traffic.make_traffic(messages, seed), seed, say)
        played.play(faults.draw(kills, seed, skipped))
        found = {"seed": seed, "messages": messages, "skipped": skipped} | played.judged()
        if played.violations:
            found["logs"] = deployment.keep_logs()
    found["violations"] = played.violations
    return Report(found=found, violations=played.violations, only_in_json=("recovered", "violations"))


class ChaosRun:
    """What happens to a deployment under faults."""

    def __init__(self, deployment: OwnDeployment, made: traffic.Traffic, seed: int, say: Say) -> None:
        self._on, self._made, self._say = deployment, made, say
        self._driver = Driver(deployment, made, seed)
        self._total = len(made.originals) + made.duplicates
        self._faults: Counter[str] = Counter()
        # for each recovery its `fault`, the seconds until all that was due was `taken` up, and the most that may be
        self._recovered: list[dict[str, Any]] = []
        self.violations: list[str] = []

    def play(self, drawn: list[Fault]) -> None:
        """Send the messages, make the faults, and wait until everything is done."""
        with self._driver:
            self._afflict(drawn)
            self._driver.allow(self._total)
            self._say("waiting until all is done")
            self._settle()

    def judged(self) -> dict[str, Any]:
        """Return the figures, from the database of the deployment, and note what is wrong."""
        made, driver = self._made, self._driver
        with self._on.connect() as connection:
            rules = SessionPolicy.of(self._on.settings)
            accepted = driver.accepted | driver.handed_over
            judged = verdict.judge(connection, rules, made.originals, accepted, made.gone)
        self.violations += judged.violations + driver.unexpected[:5]
        stored = sum(key[0] != PAYLOAD_TENANT for key in judged.stored)
        return {
            "kills": {kind: n for kind, n in self._faults.items() if kind in faults.KILLS},
            "faults": {kind: n for kind, n in self._faults.items() if kind in faults.OTHERS},
            # over HTTP: answered 202, or handed over to the client; of these stored, and deleted or forgotten since
            "accepted": len(accepted),
            "stored": stored,
            "gone": len(accepted.intersection(made.gone)),
            "lost": judged.count(verdict.LOST),
            "doubled": judged.count(verdict.DOUBLED),
            "stuck": judged.count(*verdict.STUCK),
            # work given up with a reason
            "dead": judged.dead,
            # of the accepted: through the client's buffer; and the answers on its way, by what they were turned into
            "by_client": len(driver.handed_over),
            "turned": dict(sorted(driver.turned.items())),
            # taken by Redis, and stored: the rest went with Redis' data, or with a process that had just taken it
            "payloads": {"queued": len(driver.queued), "stored": len(judged.stored) - stored},
            "seconds_to_recover": {
                "taken": max((recovered["taken"] for recovered in self._recovered), default=None)
            },
            "recovered": self._recovered,
        }

    def _bound(self, *, outage: bool) -> float:
        """Return the seconds within which all that is due must have been taken up: a lease and two sweeps.

        After an `outage` of the model provider the pause until it is asked again counts instead, if that is longer.
        """
        lease = self._on.settings.lease_seconds
        return (max(lease, OUTAGE_SECONDS) if outage else lease) + 2 * self._on.settings.sweep_seconds

    def _settle(self) -> None:
        """Wait until everything was sent and is done."""
        calm = 0

        def is_calm() -> bool:
            nonlocal calm
            self._on.tend()
            calm = calm + 1 if self._driver.is_done() and not verdict.left_to_do(self._on) else 0
            return calm == LOOKS

        if wait(is_calm, QUIET_SECONDS, pause=0.1) is None:
            left = verdict.left_to_do(self._on)
            self.violations.append(f"not quiet within {QUIET_SECONDS:.0f} s: {left} left to do")

    def _afflict(self, drawn: list[Fault]) -> None:
        """Make the faults while messages come in."""
        maker, driver = Faults(self._on), self._driver
        share = self._total / (len(drawn) + 1)
        errands = list(ERRANDS)
        outage = False
        for number, fault in enumerate(drawn):
            while errands and errands[0][0] * len(drawn) <= number:
                self._run_errand(*errands.pop(0)[1:])
            due = int(share * (number + 0.5))
            driver.allow(due)
            wait(lambda due=due: driver.sent >= due, SHARE_SECONDS, pause=0.02)  # type: ignore[misc]
            self._say(f"{number + 1}/{len(drawn)} {fault.kind}, {driver.sent} of {self._total} messages sent")
            # the other half comes while it happens
            driver.allow(int(share * (number + 1)))
            maker.make(fault)
            self._faults[fault.kind] += 1
            self._on.tend()
            outage |= fault.kind.startswith("provider-")
            if fault.alone or number == len(drawn) - 1:
                self._recover(fault.kind, self._bound(outage=outage))
                outage = False
        # where there were few faults some have not had their turn
        for _, *errand in errands:
            self._run_errand(*errand)

    def _recover(self, kind: str, bound: float) -> None:
        """Wait until processes are up and what is due was taken up and done; note how long it took."""
        up = wait(self._on.is_ready, deployments.READY_SECONDS, meanwhile=self._on.tend)
        taken = verdict.wait_recovered(self._on, RECOVERY_SECONDS)
        if up is None or taken is None:
            self.violations.append(f"nothing recovered for {RECOVERY_SECONDS:.0f} s after {kind}")
            return
        self._recovered.append({"fault": kind, "taken": round(taken, 2), "bound": bound})
        if taken > bound:
            self.violations.append(
                f"what {kind} interrupted was taken up after {taken:.2f} s, not {bound:.0f} s"
            )

    def _run_errand(self, act: str, tenant: str, what: str) -> None:
        """Try to start what an operator would until it is taken."""

        def is_taken() -> bool:
            with suppress(Retryable), closing(Database.from_settings(self._on.settings)) as database:
                if act == "forget":
                    forget.start(database, tenant, FORGOTTEN[what])
                else:
                    request = BackfillRequest.model_validate({"kind": what, **BACKFILL})
                    backfill.start(database, tenant, request, Current.of(self._on.settings))
                return True
            return False

        if wait(is_taken, ERRAND_SECONDS, pause=0.2) is None:
            raise TimeoutError("an operator's errand was not taken")
