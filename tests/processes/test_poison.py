"""A payload that kills its worker every time is given up after as many tries as are configured."""

from pathlib import Path

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.processes import ROOT
from pipeline.jobs import dead_letters
from pipeline.jobs.dead_letters import JobFilter
from tests.conftest import TENANT
from tests.ops.running import until
from tests.processes.conftest import SECONDS, deployed, talk

TRIES = 3


def test_a_payload_that_kills_stands_aside_as_it_came_and_others_are_accepted(
    postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    with deployed(postgres, tmp_path, "poisoned") as deployment:
        deployment.start_workers(
            names=("accept",),
            include="tests.processes.poison",
            BACKSCROLL_JOB_MAX_ATTEMPTS=str(TRIES),
            PYTHONPATH=str(ROOT),
        )
        poison = talk(3, word="ricin")
        deployment.send("test:pill", poison)
        deployment.send("test:after-the-pill", talk(5))
        until(lambda: len(deployment.dead_letters()) == 1, "the payload stands aside", 2 * SECONDS)
        (letter,) = deployment.dead_letters()
        assert letter["kwargs"]["messages"] == poison
        killed = [r["tries"] for r in deployment.records("accept") if r["event"] == "payload_kills"]
        assert killed == [TRIES]
        until(
            lambda: deployment.progress("test:after-the-pill").messages == 5, "others are accepted", SECONDS
        )
        assert deployment.progress("test:pill").messages == 0
        [dead], _ = dead_letters.listing(deployment.database, TENANT, JobFilter(kind="payload"))
        assert dead.error == f"version 1, 3 messages: its process ended {TRIES} times"
        assert deployment.query("SELECT 1 FROM jobs WHERE starts_with(key, 'payload:')") == []
