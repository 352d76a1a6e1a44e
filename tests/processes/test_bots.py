"""What a bot that enqueues by Celery can rely on: remembered once, refused visibly, and never quoted in a log."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery

from pipeline.jobs import dead_letters
from pipeline.jobs.dead_letters import JobFilter
from tests.api.conftest import served
from tests.conftest import TENANT
from tests.processes.conftest import SECONDS, Deployment, drop_dead_letters, talk
from tests.scripts import batch
from tests.waiting import ended, until
from workers.queues import QUEUES, enqueue_payload


def test_what_a_bot_without_our_code_enqueues_is_remembered_by_hints_alone(deployment: Deployment) -> None:
    # Given no clock that sweeps, and the same messages twice
    deployment.send("test:bot", talk(20))
    deployment.send("test:bot", talk(20))
    # Then they are stored once, in sessions, summarized and embedded
    remembered = deployment.wait_for("test:bot", 20)
    assert remembered.summarized == 4
    assert set(deployment.vectors_of("test:bot").values()) == {1}


def test_a_message_that_postgres_does_not_take_is_not_lost(deployment: Deployment) -> None:
    # Given a rule of the database that no check of ours foresees
    with deployment.as_owner() as owner:
        owner.execute("ALTER TABLE messages ADD CONSTRAINT odd CHECK (content NOT LIKE '%kaleidoscope%')")
    try:
        payload = {"v": 1, "chat": "test:odd", "messages": talk(1, word="kaleidoscope")}
        deployment.send_payload(payload)
        until(lambda: deployment.dead_letters() != [], "a dead letter", SECONDS)
    finally:
        with deployment.as_owner() as owner:
            owner.execute("ALTER TABLE messages DROP CONSTRAINT odd")
    assert [letter["kwargs"] for letter in deployment.dead_letters()] == [payload]
    [failed] = [r for r in deployment.records("accept") if r["event"] == "accept_failed"]
    assert "odd" in failed["error"]
    assert "kaleidoscope" not in json.dumps(failed)
    # When the reason is gone, the letter is put back as it is
    [letter], _ = dead_letters.listing(deployment.database, TENANT, JobFilter(kind="payload"))
    assert letter.error == f"version 1, 1 messages: {failed['error']}"
    again = dead_letters.replay(
        deployment.database, [letter], lambda *given: enqueue_payload(deployment.app, *given)
    )
    assert again.items == [letter]
    deployment.send("test:odd", talk(5, word="kaleidoscope"))
    deployment.wait_for("test:odd", 5)


def test_a_request_id_is_found_in_the_last_log_lines_and_on_the_work(deployment: Deployment) -> None:
    deployment.send("test:traced", talk(5), headers={"request_id": "bot-7"})
    with served(deployment.settings) as door:
        body = {"chat": "test:door", "messages": talk(5)}
        assert door.post("/v1/messages", json=body, headers={"X-Request-ID": "door-7"}).status_code == 202
    for chat, request_id in (("test:traced", "bot-7"), ("test:door", "door-7")):
        deployment.wait_for(chat, 5)
        # the chat's row stays; that of its messages and its session is gone with what it asked for
        owed = deployment.query("SELECT kind FROM jobs WHERE trace_id = :id", id=request_id)
        assert [row.kind for row in owed] == ["ingest"]
        for name, tasks in (
            ("ingest", ["ingest"]),
            ("summarize", ["summarize", "extract"]),
            ("embed", ["embed"]),
        ):
            done = [r for r in deployment.records(name) if r["event"] == "jobs_run"]
            mine = [r for r in done if request_id in r["trace_ids"]]
            assert {r["task"] for r in mine} == {f"backscroll.{task}" for task in tasks}
            # no hint was lost, so that the hints carried it all the way
            assert request_id in {r["request_id"] for r in mine}


def test_neither_logs_nor_events_nor_inspection_tell_what_was_said(deployment: Deployment) -> None:
    secret = "chrysanthemum"
    with events(deployment) as seen:
        with deployment.locked("messages"):
            deployment.send("test:secret", talk(5, word=secret))
            deployment.wait_until_stuck("messages")
            inspected = deployment.app.control.inspect(timeout=2).active(safe=False)
        deployment.send_payload({"v": 9, "chat": "test:secret", "messages": talk(1, word=secret)})
        with Celery(broker=deployment.server.url) as bot:
            # a name that nobody knows, and a message that is no task
            bot.send_task("backscroll.ingset", kwargs={"text": secret}, queue="backscroll.accept")
            with bot.connection_for_write() as connection:
                producer = connection.Producer(serializer="json")
                producer.publish({"said": secret}, routing_key="backscroll.accept")
        deployment.wait_for("test:secret", 5)
        until(lambda: len(deployment.dead_letters()) == 3, "three dead letters", SECONDS)
    assert "backscroll.ingest" in str(inspected)
    assert secret not in str(inspected)
    assert {"task-received", "task-started", "task-succeeded", "task-sent"} <= {e["type"] for e in seen}
    assert secret not in str(seen)
    # only what came of it, and how much
    assert any("'messages': 5" in event.get("kwargs", "") for event in seen)
    assert any("'accepted': 5" in event.get("result", "") for event in seen)
    for row in deployment.query("SELECT key FROM refused_payloads"):
        assert any(f"backscroll jobs show payload:{row.key}" in event.get("exception", "") for event in seen)
    for name in QUEUES:
        assert secret not in deployment.workers[name].log.read_text()
    drop_dead_letters(deployment)


def test_workers_run_as_they_were_meant_to(deployment: Deployment) -> None:
    inspect = deployment.app.control.inspect(timeout=3, limit=len(QUEUES))
    stats = {name.partition("@")[0]: found for name, found in (inspect.stats() or {}).items()}
    assert set(stats) == set(QUEUES)
    # one task for each process or thread, acknowledged when done, whatever became of it
    conf = deployment.app.conf
    assert conf.task_acks_late
    assert conf.task_acks_on_failure
    assert conf.task_acks_on_timeout
    assert not conf.task_reject_on_worker_lost
    for name, queue in QUEUES.items():
        pool = stats[name]["pool"]
        assert stats[name]["prefetch_count"] == pool["max-concurrency"] == queue.concurrency
        if queue.pool == "prefork":
            assert pool["timeouts"] == [queue.soft_limit or 0, queue.hard_limit or 0]


@contextmanager
def events(deployment: Deployment) -> Iterator[list[dict[str, Any]]]:
    """What workers tell whoever listens, such as Flower."""
    seen: list[dict[str, Any]] = []
    with deployment.app.connection_for_read() as connection:
        receiver = deployment.app.events.Receiver(connection, handlers={"*": seen.append})

        def listen() -> None:
            for _ in receiver.itercapture(limit=None, timeout=None, wakeup=False):
                pass

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            # what is told before somebody listens is lost; workers tell every two seconds that they live
            until(lambda: seen, "somebody listens", SECONDS)
            yield seen
        finally:
            receiver.should_stop = True
            ended(listening)


def test_large_payloads_hold_up_no_other_bot(deployment: Deployment) -> None:
    deployment.send("test:large", batch("chinese", 1000 * 1024))
    deployment.send("test:beside", talk(5))
    for chat, count in (("test:large", 150), ("test:beside", 5)):
        until(lambda c=chat, n=count: deployment.progress(c).messages == n, chat, SECONDS)  # type: ignore[misc]
