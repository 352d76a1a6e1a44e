"""What a killed worker held comes back long before its lease ends; what kills every worker is given up in the end."""

import os
import signal
from collections.abc import Iterator

import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.server import children
from ops.local.processes import ROOT
from pipeline.jobs import dead_letters
from pipeline.jobs.dead_letters import JobFilter
from tests.conftest import TENANT
from tests.processes.conftest import SECONDS, Deployment, clock, deployed, talk
from workers import queues

LEASE_SECONDS = 900
TRIES = 3


@pytest.fixture(scope="module")
def deployment(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Workers that can die of what they are given, with few attempts."""
    with deployed(postgres, tmp_path_factory.mktemp("dead"), "dead_workers") as running:
        running.start_workers(
            names=("accept", "ingest", "embed", "summarize", "sweep"),
            include="tests.processes.poison",
            BACKSCROLL_LEASE_SECONDS=str(LEASE_SECONDS),
            BACKSCROLL_JOB_MAX_ATTEMPTS=str(TRIES),
            PYTHONPATH=str(ROOT),
        )
        with clock(running):
            yield running


def leases(deployment: Deployment) -> list[float]:
    rows = deployment.query("SELECT extract(epoch FROM due_at - now()) FROM jobs WHERE claimed IS NOT NULL")
    return [float(left) for (left,) in rows]


@pytest.mark.parametrize(
    ("queue", "table", "killed"),
    [("ingest", "conversation_sessions", "all"), ("embed", "message_vectors", "child")],
)
def test_jobs_of_a_killed_worker_do_not_wait_for_their_lease(
    deployment: Deployment, queue: str, table: str, killed: str
) -> None:
    chat, worker = f"test:{queue}-{killed}", deployment.workers[queue]
    if queue == "ingest":
        deployment.accept(chat, talk(5))
    else:
        deployment.accept_and_place(chat, talk(5))
    with deployment.locked(table):
        deployment.make_due()
        queues.wake_up(deployment.app, queue)
        deployment.wait_until_stuck(table)
        assert max(leases(deployment)) > LEASE_SECONDS / 2
        if killed == "all":
            worker.kill()
        else:
            # the others are older, and hold no jobs
            os.kill(max(children()[deployment.workers[queue].pid]), signal.SIGKILL)
    if killed == "all":
        worker.restart()
    deployment.make_due()
    deployment.wait_for(chat, 5)
    assert set(deployment.vectors_of(chat).values()) == {1}
    assert leases(deployment) == []
    assert "claims_of_dead_worker" in worker.logs()


def test_what_a_living_process_holds_is_left_to_it(deployment: Deployment) -> None:
    # Given a worker in the middle of its jobs
    chat = "test:left-alone"
    deployment.accept_and_place(chat, talk(5))
    with deployment.locked("message_vectors"):
        deployment.make_due()
        queues.wake_up(deployment.app, "embed")
        deployment.wait_until_stuck("message_vectors")
        # When another starts beside it
        other = deployment.workers["summarize"]
        other.restart()
        other.ready()
        # Then it takes nothing away
        said_so = [record for record in deployment.records("summarize") if "released" in record]
        assert not any(record["released"] for record in said_so)
    deployment.wait_for(chat, 5)


def test_a_message_that_kills_whoever_places_it_stands_aside_and_its_chat_goes_on(
    deployment: Deployment,
) -> None:
    told = talk(15)
    told[7] |= {"sender_name": "Belladonna"}
    deployment.accept("test:poison", told)
    aside = "SELECT error FROM arrivals WHERE quarantined_at IS NOT NULL"
    deployment.until(lambda: bool(deployment.query(aside)), "it stands aside", 2 * SECONDS)
    assert deployment.query(aside) == [(f"the process that placed it died each time, {TRIES} tries",)]
    later = [message | {"external_id": f"later-{n}"} for n, message in enumerate(talk(25)[20:])]
    deployment.accept("test:poison", later)
    waiting = "SELECT 1 FROM arrivals WHERE quarantined_at IS NULL"
    deployment.until(lambda: not deployment.query(waiting), "all others are placed", SECONDS)


def test_a_payload_that_kills_stands_aside_as_it_came_and_others_are_accepted(deployment: Deployment) -> None:
    poison = talk(3, word="ricin")
    deployment.send("test:pill", poison)
    deployment.send("test:after-the-pill", talk(5))
    deployment.until(lambda: len(deployment.dead_letters()) == 1, "the payload stands aside", 2 * SECONDS)
    (letter,) = deployment.dead_letters()
    assert letter["kwargs"]["messages"] == poison
    killed = [r["tries"] for r in deployment.records("accept") if r["event"] == "payload_kills"]
    assert killed == [TRIES]
    deployment.until(
        lambda: deployment.progress("test:after-the-pill").messages == 5, "others are stored", SECONDS
    )
    assert deployment.progress("test:pill").messages == 0
    [dead], _ = dead_letters.listing(deployment.database, TENANT, JobFilter(kind="payload"))
    assert dead.error == f"version 1, 3 messages: its process ended {TRIES} times"
    assert deployment.query("SELECT 1 FROM jobs WHERE starts_with(key, 'payload:')") == []
