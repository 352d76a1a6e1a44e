"""What is not lost and not doubled when hints, workers, Redis or Postgres go away in the middle of work."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.processes.conftest import SECONDS, Deployment, talk
from tests.processes.nodes import Process
from tests.waiting import until
from workers import queues
from workers.queues import SWEPT

pytestmark = pytest.mark.usefixtures("beat")


@pytest.fixture(autouse=True)
def all_workers_run(deployment: Deployment) -> Iterator[None]:
    """Whatever a story has ended runs again for the next one."""
    yield
    deployment.revive()


def work_of(deployment: Deployment, chat: str, kind: str) -> list[dict[str, Any]]:
    """The rows of a kind for the messages or sessions of a chat."""
    keys = (
        "SELECT 'message:' || id FROM messages WHERE chat_id = :chat"
        if kind == "embed"
        else "SELECT 'session:' || id FROM conversation_sessions WHERE chat_id = :chat"
    )
    rows = deployment.query(
        f"SELECT key, attempts, claimed, due_at <= now() AS due FROM jobs WHERE kind = :kind AND key IN ({keys})",
        chat=chat,
        kind=kind,
    )
    return [dict(row._mapping) for row in rows]


@contextmanager
def stopped(worker: Process) -> Iterator[None]:
    """While this holds a worker takes nothing, and does not know that it does not."""
    worker.kill("SIGSTOP")
    try:
        yield
    finally:
        worker.kill("SIGCONT")


@contextmanager
def stuck(deployment: Deployment, kind: str, table: str) -> Iterator[None]:
    """All that is owed of a kind is due, and its worker in the middle of it: it waits for this table."""
    with deployment.locked(table):
        deployment.make_due()
        queues.wake_up(deployment.app, kind)
        deployment.wait_until_stuck(table)
        yield


def test_a_worker_that_was_stopped_for_a_while_does_what_thousands_of_hints_were_for(
    deployment: Deployment,
) -> None:
    chats = [f"test:many-{n}" for n in range(20)]
    # Given a worker that takes nothing, and many more hints than its queue is given
    with stopped(deployment.workers["ingest"]):
        for chat in chats:
            deployment.accept(chat, talk(1))
            queues.wake_up(deployment.app, "ingest", times=50)
        for _ in range(1000):
            queues.wake_up(deployment.app, "ingest")
        waiting = deployment.redis.llen(queues.INGEST.full_name)
        # the sweep, which looks at the same moment, may add as many
        assert waiting <= 2 * (2 * queues.INGEST.concurrency + queues.SPARE_WAKE_UPS)
    # When it goes on, then nothing is left, and no sweep was needed for it
    keys = {"chats": chats}
    until(
        lambda: (
            deployment.query("SELECT count(*) FROM arrivals WHERE chat_id = ANY(:chats)", **keys) == [(0,)]
        ),
        "all is placed",
        SECONDS,
    )


def test_hints_thrown_away_in_the_middle_of_an_import_are_made_up_for(deployment: Deployment) -> None:
    told = talk(200)
    for start in range(0, 200, 50):
        deployment.accept("test:import", told[start : start + 50])
        # the second half is never hinted at
        if start < 100:
            queues.wake_up(deployment.app, "ingest")
        deployment.redis.flushall()
    deployment.wait_for("test:import", 200)
    assert set(deployment.vectors_of("test:import").values()) == {1}


def test_a_payload_whose_worker_was_killed_while_it_was_being_stored_is_stored_once(
    deployment: Deployment,
) -> None:
    worker = deployment.workers["accept"]
    with deployment.locked("messages"):
        deployment.send("test:on-its-way", talk(10))
        deployment.wait_until_stuck("messages")
        worker.kill()
    # Then the payload comes again
    worker.restart()
    deployment.wait_for("test:on-its-way", 10)
    until(lambda: deployment.redis.hlen("unacked") == 0, "everything acknowledged", SECONDS)
    assert deployment.progress("test:on-its-way").messages == 10


def test_a_worker_told_to_end_gives_back_what_it_cannot_finish(deployment: Deployment) -> None:
    chat, worker = "test:returned", deployment.workers["embed"]
    deployment.accept_and_place(chat, talk(10))
    with stuck(deployment, "embed", "message_vectors"):
        worker.kill("SIGTERM")
        until(lambda: not worker.runs, "ended", SECONDS)
        # Then it may be claimed at once, and no attempt is lost
        returned = work_of(deployment, chat, "embed")
        assert [(row["attempts"], row["claimed"], row["due"]) for row in returned] == [(0, None, True)] * 10
    worker.restart()
    deployment.wait_for(chat, 10)


def test_while_postgres_is_away_payloads_wait_even_for_another_worker(deployment: Deployment) -> None:
    chat, worker = "test:away", deployment.workers["accept"]

    def waits() -> bool:
        return "accept_waits" in worker.logs()

    with deployment.postgres_away():
        deployment.send(chat, talk(10))
        until(waits, "the payload is tried", SECONDS)
        # When the worker that waits is told to end, the payload goes back into the queue
        worker.kill("SIGTERM")
        until(lambda: not worker.runs, "ended", SECONDS)
        assert deployment.redis.llen("backscroll.accept") == 1
        worker.restart()
        until(waits, "the payload is tried again", SECONDS)
        assert deployment.redis.hlen("unacked") > 0
    deployment.wait_for(chat, 10)
    assert all(worker.runs for worker in deployment.workers.values())


def test_while_postgres_takes_no_writes_payloads_wait(deployment: Deployment) -> None:
    chat, worker = "test:standby", deployment.workers["accept"]
    with deployment.postgres_read_only():
        deployment.send(chat, talk(10))
        deployment.send_payload({"v": 2, "chat": chat})
        until(lambda: "takes no writes" in worker.logs(), "the payload is tried", SECONDS)
    # Then connections that take none are left for such that do
    deployment.wait_for(chat, 10)
    until(lambda: deployment.dead_letters() != [], "the one that is refused is kept", SECONDS)
    deployment.query("DELETE FROM refused_payloads RETURNING 1")


def test_a_task_in_hand_while_redis_goes_and_comes_back_does_not_end_its_worker(
    deployment: Deployment,
) -> None:
    chat, worker = "test:in-hand", deployment.workers["summarize"]
    deployment.accept_and_place(chat, talk(10))
    with stuck(deployment, "summarize", "conversation_sessions"):
        deployment.server.kill()
        until(lambda: "Connection to broker lost" in worker.logs(), "the loss is noticed", SECONDS)
        deployment.server.restart()
    # Then it is acknowledged over the new connection, soon
    deployment.wait_for(chat, 10)
    until(lambda: deployment.redis.hlen("unacked") == 0, "everything acknowledged", SECONDS)
    assert worker.runs
    assert "Unrecoverable" not in worker.logs()


def test_a_redis_that_takes_no_writes_is_logged_once_and_work_goes_on_when_it_does(
    deployment: Deployment,
) -> None:
    logs = [deployment.folder / f"{name}.log" for name in ("sweep", "beat")]
    until(lambda: deployment.redis.exists(SWEPT), "a sweep", SECONDS)
    before = [len(log.read_text()) for log in logs]
    deployment.redis.slaveof("127.0.0.1", 1)
    try:
        time.sleep(4)
        said = "".join(log.read_text()[start:] for log, start in zip(logs, before, strict=True))
    finally:
        deployment.redis.slaveof()
    deployment.redis.delete(SWEPT)
    until(lambda: deployment.redis.exists(SWEPT), "a sweep afterwards", SECONDS)
    assert "read only replica" in said
    # before it was some 2 kB a second of each
    lines = [line for line in said.splitlines() if json.loads(line)["level"] in {"warning", "error"}]
    assert len(lines) < 8, said
    assert max(map(len, lines)) < 1000, said
    deployment.send("test:replica", talk(5))
    deployment.wait_for("test:replica", 5)
