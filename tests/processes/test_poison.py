"""What kills its worker every time is given up after as many tries as are configured, and takes nothing with it."""

from collections.abc import Iterator

import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.processes import ROOT
from pipeline.jobs import dead_letters
from pipeline.jobs.dead_letters import JobFilter
from tests.conftest import TENANT
from tests.processes.conftest import SECONDS, Deployment, clock, deployed, talk

TRIES = 3


@pytest.fixture(scope="module")
def poisoned(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Workers that can die of what they are given, with few attempts."""
    with deployed(postgres, tmp_path_factory.mktemp("poisoned"), "poisoned") as deployment:
        deployment.start_workers(
            names=("accept", "ingest", "sweep"),
            include="tests.processes.poison",
            BACKSCROLL_JOB_MAX_ATTEMPTS=str(TRIES),
            PYTHONPATH=str(ROOT),
        )
        with clock(deployment):
            yield deployment


def test_a_message_that_kills_whoever_places_it_stands_aside_and_its_chat_goes_on(
    poisoned: Deployment,
) -> None:
    told = talk(15)
    told[7] |= {"sender_name": "Belladonna"}
    poisoned.accept("test:poison", told)
    aside = "SELECT error FROM arrivals WHERE quarantined_at IS NOT NULL"
    poisoned.until(lambda: bool(poisoned.query(aside)), "it stands aside", 2 * SECONDS)
    assert poisoned.query(aside) == [(f"the process that placed it died each time, {TRIES} tries",)]
    later = [message | {"external_id": f"later-{n}"} for n, message in enumerate(talk(25)[20:])]
    poisoned.accept("test:poison", later)
    waiting = "SELECT 1 FROM arrivals WHERE quarantined_at IS NULL"
    poisoned.until(lambda: not poisoned.query(waiting), "all others are placed", SECONDS)


def test_a_payload_that_kills_stands_aside_as_it_came_and_others_are_accepted(poisoned: Deployment) -> None:
    poison = talk(3, word="ricin")
    poisoned.send("test:pill", poison)
    poisoned.send("test:after-the-pill", talk(5))
    poisoned.until(lambda: len(poisoned.dead_letters()) == 1, "the payload stands aside", 2 * SECONDS)
    (letter,) = poisoned.dead_letters()
    assert letter["kwargs"]["messages"] == poison
    killed = [r["tries"] for r in poisoned.records("accept") if r["event"] == "payload_kills"]
    assert killed == [TRIES]
    poisoned.until(
        lambda: poisoned.progress("test:after-the-pill").messages == 5, "others are stored", SECONDS
    )
    assert poisoned.progress("test:pill").messages == 0
    [dead], _ = dead_letters.listing(poisoned.database, TENANT, JobFilter(kind="payload"))
    assert dead.error == f"version 1, 3 messages: its process ended {TRIES} times"
    assert poisoned.query("SELECT 1 FROM jobs WHERE starts_with(key, 'payload:')") == []
