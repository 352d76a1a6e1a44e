"""What became of the messages of a run: waited for, and judged from the database."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ops.dev.chaos import quiet, verdict
from ops.dev.chaos.driver import Driver
from ops.dev.chaos.traffic import Traffic
from ops.dev.chaos.verdict import Key, Verdict
from ops.dev.deployed.deployment import Deployment
from ops.dev.observe import wait
from pipeline.ingest.policy import SessionPolicy


@dataclass(kw_only=True)
class JudgedRun:
    """What became of the messages of a run."""

    # of the HTTP API: answered 202
    accepted: int = 0
    lost: int = 0
    doubled: int = 0
    stuck: int = 0
    # processes that ended without being killed
    ended_by_themselves: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def settle(
        self, deployment: Deployment, holds: Callable[[], bool], seconds: float, looks: int = 1
    ) -> bool:
        """Wait until it holds at this number of looks in a row; return whether it came to that in time."""
        calm = 0

        def is_calm() -> bool:
            nonlocal calm
            self.ended_by_themselves += deployment.tend()
            calm = calm + 1 if holds() else 0
            return calm >= looks

        if wait(is_calm, seconds, pause=0.1) is not None:
            return True
        left = quiet.left_to_do(deployment)
        self.violations.append(f"not quiet within {seconds:.0f} s: {left} left to do")
        return False

    def judge(
        self, deployment: Deployment, driver: Driver, made: Traffic, gone: Collection[Key] = ()
    ) -> Verdict:
        """Read the database of a deployment that is quiet, and note what is wrong."""
        rules = SessionPolicy.of(deployment.settings)
        with deployment.connect() as connection:
            judged = verdict.judge(connection, rules, made.originals, driver.accepted, gone)
        self.accepted = len(driver.accepted)
        self.lost, self.doubled, self.stuck = judged.lost, judged.doubled, judged.stuck
        self.violations += judged.violations + driver.unexpected[:5]
        return judged
