"""Whatever anybody pushes into Redis, the workers go on, and what was meant for memory is accounted for."""

import base64
import json
import os
import pickle
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.jobs import dead_letters
from pipeline.jobs.dead_letters import JobFilter
from pipeline.store.operations import counters
from tests.conftest import TENANT
from tests.processes.conftest import Deployment, drop_dead_letters, talk
from workers.queues import ACCEPT, QUEUES, enqueue_payload

AN_HOUR_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


def encoded(body: bytes) -> str:
    return base64.b64encode(body).decode()


def payload(chat: str) -> dict[str, Any]:
    return {"v": 1, "chat": f"test:{chat}", "messages": talk(1)}


def pushed(body: Any, *, type_: str = "application/json", encoding: str = "base64", **headers: Any) -> bytes:
    """What a program without Celery may push: `body` is encoded unless it is a text."""
    return json.dumps(
        {
            "body": body if isinstance(body, str) else encoded(json.dumps(body).encode()),
            "content-type": type_,
            "headers": {"task": "backscroll.ingest", "id": "1", **headers},
            "properties": {"body_encoding": encoding, "delivery_tag": "1"},
        }
    ).encode()


SPRUNG = Path(tempfile.gettempdir()) / f"sprung-{os.getpid()}"


class Trap:
    """Unpickled, it leaves a file behind."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (SPRUNG,))


GIVEN = [[], payload("never"), {}]
BOMB = encoded(zlib.compress(b"[" * 10**8))
UNREADABLE = {
    "text": b"the boiler shows \xff",
    "nothing": b"",
    "deep": b"[" * 100_000,
    "too deep": b"[" * 900 + b"]" * 900,
    "huge": b'{"body": "' + b"x" * 33 * 1024**2 + b'"}',
    "yaml": pushed(GIVEN, type_="application/x-yaml"),
    "a pickle": pushed(encoded(pickle.dumps([Trap()])), type_="application/x-python-serialize"),
    "unknown compression": pushed(GIVEN, compression="application/x-nothing"),
    "broken compression": pushed("eA==", compression="application/x-gzip"),
    "a bomb": pushed(BOMB, compression="application/x-gzip"),
    "unknown encoding": pushed(GIVEN, encoding="rot13"),
    "broken encoding": pushed("%%%"),
    "unknown type": pushed([[], {"at": {"__type__": "nothing", "__value__": "x"}}, {}]),
}
REFUSED = {
    "a number": b"7",
    "no task at all": json.dumps(payload("bare")).encode(),
    "a body without arguments": pushed(payload("body")),
    "a misspelt task": pushed([[], payload("misspelt"), {}], task="backscroll.ingset"),
    "a task that is none": pushed([[], payload("none"), {}], task=["x"]),
    "Celery's own": pushed([[], payload("own"), {}], task="celery.chord_unlock"),
    "expired": pushed([[], payload("expired"), {}], expires=AN_HOUR_AGO),
    "no time": pushed([[], payload("soon"), {}], eta="soon"),
    "too far ahead": pushed([[], payload("ahead"), {}], eta="9999-12-31T23:59:59-10:00"),
    "an argument that Celery has": pushed([[], {"self": 1}, {}]),
}
"""JSON that is kept, so that it can be corrected or replayed."""


@pytest.fixture(autouse=True)
def _no_dead_letters(deployment: Deployment) -> Iterator[None]:
    """None before and none after."""
    drop_dead_letters(deployment)
    yield
    drop_dead_letters(deployment)
    assert all(worker.runs for worker in deployment.workers.values())


def refused_today(deployment: Deployment) -> float:
    with deployment.database.tenant(TENANT) as connection:
        return counters.totals(connection, 1).get("payloads_refused", 0)


def test_any_item_of_the_list_of_payloads_is_a_dead_letter_with_a_reason(deployment: Deployment) -> None:
    before = refused_today(deployment)
    for item in (*UNREADABLE.values(), *REFUSED.values()):
        deployment.redis.lpush(ACCEPT.full_name, item)
    deployment.send("test:after", talk(5))
    # Then the worker goes on with what comes after them, and each of them is counted
    deployment.wait_for("test:after", 5)
    assert refused_today(deployment) - before == len(UNREADABLE) + len(REFUSED)
    letters = deployment.query("SELECT payload, error FROM refused_payloads ORDER BY refused_at")
    without_text, kept = letters[: len(UNREADABLE)], letters[len(UNREADABLE) :]
    assert {letter.payload for letter in without_text} == {"null"}
    assert all("SHA-256" in letter.error and "boiler" not in letter.error for letter in without_text)
    assert not SPRUNG.exists()
    assert [json.loads(letter.payload)["kwargs"].get("chat") for letter in kept] == [
        *(None, "test:bare", "test:body", "test:misspelt", "test:none"),
        *("test:own", "test:expired", "test:soon", "test:ahead", None),
    ]
    assert "there is no task backscroll.ingset for bots: send backscroll.ingest" in kept[3].error
    assert f"it expired at {AN_HOUR_AGO}" in kept[6].error
    # When they are replayed, then what was whole is accepted, and of what was not kept nothing is lost either
    items, _ = dead_letters.listing(deployment.database, TENANT, JobFilter(kind="payload"))
    done = dead_letters.replay(
        deployment.database, items, lambda *given: enqueue_payload(deployment.app, *given)
    )
    assert (len(done.items), len(done.left)) == (len(REFUSED), len(UNREADABLE))
    for chat in ("bare", "body", "misspelt", "own", "expired", "ahead"):
        deployment.until(lambda c=chat: deployment.progress(f"test:{c}").messages == 1, chat)  # type: ignore[misc]


def test_a_payload_in_another_queue_is_accepted_and_garbage_there_is_a_dead_letter(
    deployment: Deployment,
) -> None:
    for queue in QUEUES.values():
        deployment.redis.lpush(queue.full_name, f"garbage in {queue.name}")
        deployment.redis.lpush(queue.full_name, pushed([[], payload(f"in-{queue.name}"), {}]))
        deployment.redis.lpush(queue.full_name, pushed([[queue.name], {}, {}], task="backscroll.embed"))
    for name in QUEUES:
        deployment.until(lambda n=name: deployment.progress(f"test:in-{n}").messages == 1, name)  # type: ignore[misc]
    deployment.until(lambda: len(deployment.dead_letters()) == 2 * len(QUEUES), "dead letters")


def test_a_line_in_the_channel_of_commands_that_is_none_ends_no_worker(deployment: Deployment) -> None:
    workers = deployment.workers.values()
    lines = (b"5", b"[]", b"{}", b'{"properties": {"delivery_tag": 1}, "body": 5}', b"[" * 100_000, b"\xff")
    with ThreadPoolExecutor(1) as asking:
        # When they arrive together with a command, in one read
        for worker in workers:
            worker.kill("SIGSTOP")
        try:
            for line in lines:
                deployment.redis.publish("/0.celery.pidbox", line)
            answers = asking.submit(deployment.app.control.ping, timeout=20, limit=len(QUEUES))
            deployment.until(
                lambda: deployment.redis.exists("_kombu.binding.reply.celery.pidbox") > 0, "ping"
            )
        finally:
            for worker in workers:
                worker.kill("SIGCONT")
        # Then each worker answers
        assert len(answers.result(timeout=30)) == len(QUEUES)


def test_neither_a_revocation_nor_a_time_limit_nor_an_expiry_loses_what_a_bot_has_sent(
    deployment: Deployment,
) -> None:
    hasty = {"soft_time_limit": 1, "time_limit": 1}
    with deployment.locked("messages"):
        deployment.send("test:begun", talk(1), task_id="begun", **hasty)
        deployment.wait_until_stuck("messages")
        deployment.send("test:next", talk(1), task_id="next")
        deployment.send("test:late", talk(1), task_id="late", expires=1)
        # When they are revoked while one is being stored, and another expires while it waits
        deployment.app.control.revoke(["begun", "next"], terminate=True)
        deployment.app.control.inspect(timeout=5, limit=len(QUEUES)).revoked()
        expired = datetime.now(UTC) + timedelta(seconds=1)
        deployment.until(lambda: datetime.now(UTC) > expired, "expiry")
    # Then the first is stored, and the others are kept
    deployment.until(lambda: len(deployment.dead_letters()) == 2, "dead letters")
    assert deployment.progress("test:begun").messages == 1
    errors = [row.error for row in deployment.query("SELECT error FROM refused_payloads ORDER BY refused_at")]
    assert "it was revoked" in errors[0]
    assert "it expired at" in errors[1]
