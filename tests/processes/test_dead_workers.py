"""What a killed worker held comes back soon after another one starts beside it, long before its lease ends."""

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.process import children
from tests.conftest import EPOCH
from tests.processes.conftest import Deployment, clock, deployed
from workers import queues

LEASE_SECONDS = 900
WORDS = ("Der Leuchtturm 🗼", "маяк у гавани", "港の灯台", "منارة الميناء", "η φάρος", "灯塔在港口")
QUEUES = ("ingest", "embed", "summarize")


@pytest.fixture(scope="module")
def deployment(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployed(postgres, tmp_path_factory.mktemp("dead"), "dead_workers") as running:
        running.start_workers(names=(*QUEUES, "sweep"), BACKSCROLL_LEASE_SECONDS=str(LEASE_SECONDS))
        with clock(running):
            yield running


def said(count: int) -> list[dict[str, Any]]:
    return [
        {
            "external_id": f"ф{number}",
            "sender_id": f"test:{number % 2}",
            "sender_name": "Jürgen" if number % 2 else "小雪",
            "content": f"{WORDS[number % len(WORDS)]} {number}",
            "sent_at": (EPOCH + timedelta(minutes=number)).isoformat(),
        }
        for number in range(count)
    ]


def leases(deployment: Deployment) -> list[float]:
    rows = deployment.query("SELECT extract(epoch FROM due_at - now()) FROM jobs WHERE claimed IS NOT NULL")
    return [float(left) for (left,) in rows]


@pytest.mark.parametrize(
    ("queue", "table", "killed"),
    [
        ("ingest", "conversation_sessions", "all"),
        ("embed", "message_vectors", "child"),
    ],
)
def test_jobs_of_a_killed_worker_do_not_wait_for_their_lease(
    deployment: Deployment, queue: str, table: str, killed: str
) -> None:
    chat, worker = f"test:{queue}-{killed}", deployment.workers[queue]
    if queue == "ingest":
        deployment.accept(chat, said(6))
    else:
        deployment.accept_and_place(chat, said(6))
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
    deployment.wait_for(chat, 6)
    assert set(deployment.vectors_of(chat).values()) == {1}
    assert leases(deployment) == []
    assert "claims_of_dead_worker" in worker.logs()


def test_what_a_living_process_holds_is_left_to_it(deployment: Deployment) -> None:
    # Given a worker in the middle of its jobs
    chat = "test:left-alone"
    deployment.accept_and_place(chat, said(6))
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
    deployment.wait_for(chat, 6)
