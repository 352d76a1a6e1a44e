"""What an operator sees in a real Flower: what each task did, and a provider that refuses every call."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ops.local import processes
from ops.local.embedded.ports import free_port
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.jobs import jobs
from tests.conftest import TENANT
from tests.ops.running import until
from tests.processes.conftest import SECONDS, Deployment, deployed, talk
from tests.processes.nodes import Process
from tests.providers.chat_server import ChatServer, Reply
from workers.queues import wake_up

Tasks = Callable[[str], list[dict[str, Any]]]
PASSWORD = "operator:flower"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as server:
        yield server


@pytest.fixture
def deployment(postgres: EmbeddedPostgres, tmp_path: Path, server: ChatServer) -> Iterator[Deployment]:
    """Workers whose sessions a language model summarizes."""
    with deployed(postgres, tmp_path, "flower") as running:
        running.start_workers(
            names=("accept", "ingest", "embed", "summarize"),
            BACKSCROLL_SESSION_SUMMARY_MODEL="small-1",
            BACKSCROLL_SESSION_SUMMARY_TIMEOUT_SECONDS="25",
            BACKSCROLL_LEASE_SECONDS="30",
            BACKSCROLL_OPENAI_BASE_URL=server.url,
            BACKSCROLL_OPENAI_API_KEY="secret",
        )
        yield running


@pytest.fixture
def tasks(deployment: Deployment) -> Iterator[Tasks]:
    """The ended tasks of a name, as Flower shows them."""
    port = free_port()
    environment = {**deployment.environment, "FLOWER_BASIC_AUTH": PASSWORD}
    flower = Process("flower", processes.flower_command(port), deployment.folder, environment)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api", auth=tuple(PASSWORD.split(":")))

    def ended(name: str) -> list[dict[str, Any]]:
        found = client.get("/tasks", params={"taskname": f"backscroll.{name}"}).json().values()
        return sorted((t for t in found if t["state"] in {"SUCCESS", "FAILURE"}), key=lambda t: t["received"])

    def listens() -> bool:
        try:
            return len(client.get("/workers", params={"status": True}).json()) == len(deployment.workers)
        except (httpx.TransportError, json.JSONDecodeError):
            return False

    try:
        until(listens, "Flower knows all workers", SECONDS)
        yield ended
    finally:
        client.close()
        flower.end()


def told(shown: list[dict[str, Any]], state: str) -> set[tuple[str, str]]:
    """The arguments of tasks in a state and what they say, but for those that found nothing to do."""
    said = {(task["kwargs"], task["result"] or task["exception"]) for task in shown if task["state"] == state}
    return {each for each in said if each[1] != "'nothing was due'"}


def test_flower_says_what_was_done_and_what_failed(
    deployment: Deployment, server: ChatServer, tasks: Tasks
) -> None:
    # Given a provider that is well, then one that refuses, and quotes what it was sent
    deployment.send("test:灯台", talk(5, word="灯台"))
    until(lambda: told(tasks("summarize"), "SUCCESS"), "a summary", SECONDS)
    server.answer = lambda request: Reply(status=429, text=f"too many: {request['messages'][1]['content']}")
    deployment.send("test:маяк", talk(5, word="маяк"))
    # the one that comes first is refused, the other one does not ask again at once
    until(lambda: all(told(tasks(n), "FAILURE") for n in ("summarize", "extract")), "both failed", SECONDS)
    deployment.send_payload({"v": 7, "chat": "test:маяк", "messages": []})
    until(lambda: told(tasks("ingest"), "FAILURE"), "a refused payload", SECONDS)
    # Then a task says what it did, and one of which nothing came is a failure and says why
    assert told(tasks("summarize"), "SUCCESS") == {("{}", "'1 summarized'")}
    host = server.url.removeprefix("http://").removesuffix("/v1")
    failed = {why for name in ("summarize", "extract") for _, why in told(tasks(name), "FAILURE")}
    assert f"JobsFailed('1 failed: {host} answered 429')" in failed
    # and so is a payload that was refused, beside the others and the placing
    assert {("{}", "'1 placed'")} < told(tasks("ingest"), "SUCCESS")
    assert "{'v': 1, 'chat': 'test:маяк', 'messages': 5}" in dict(told(tasks("ingest"), "SUCCESS"))
    ((refused, why),) = told(tasks("ingest"), "FAILURE")
    assert refused == "{'v': 7, 'chat': 'test:маяк', 'messages': 0}"
    assert "backscroll jobs show" in why
    assert "5 embedded" in str(tasks("embed"))
    shown = [value for task in tasks("") for value in (task["result"], task["exception"], task["traceback"])]
    assert not [each for each in shown if "lighthouse" in str(each) or "маяк number" in str(each)]


def test_one_bad_row_among_good_ones_is_told_of_by_a_task_that_succeeds(
    deployment: Deployment, tasks: Tasks
) -> None:
    deployment.accept_and_place("test:кухня", talk(5, word="кухня"))
    with deployment.database.tenant(TENANT) as connection:
        # of something that cannot be
        jobs.enqueue(connection, TENANT, "embed", ["memory:каша"])
    deployment.make_due()
    wake_up(deployment.app, "embed")
    until(lambda: told(tasks("embed"), "SUCCESS"), "the batch", SECONDS)
    assert told(tasks("embed"), "SUCCESS") == {("{}", "'5 embedded, 1 failed: InvalidTextRepresentation'")}
