"""Flower knows every worker, however late it came and however many there are of a queue."""

import json
import sys
from contextlib import suppress

import httpx
import pytest

from ops.local import processes
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.server import free_port
from tests.processes.conftest import deployed
from tests.processes.nodes import Process, WorkerProcess
from workers.queues import QUEUES

LOGIN = ("watcher", "secret")


def test_flower_knows_workers_that_came_after_it_and_two_of_a_queue(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("flower")
    with deployed(postgres, folder, "flower") as running:
        port = free_port()
        told = {**running.environment, "FLOWER_BASIC_AUTH": ":".join(LOGIN), "BACKSCROLL_LOG_LEVEL": "info"}

        def known(path: str = "api/workers") -> dict[str, object]:
            with suppress(httpx.TransportError):
                answer = httpx.get(f"http://127.0.0.1:{port}/{path}", auth=LOGIN)
                return dict(answer.json()) if answer.status_code == 200 else {"?": answer.status_code}
            return {"?": 0}

        # Given Flower, which asks who is there at its start, and workers that come after that
        flower = Process("flower", processes.flower_command(port), folder, told)
        command = [sys.executable, "-P", "-m", "ops.cli", "worker", "accept"]
        try:
            running.until(lambda: known() == {}, "Flower answers")
            running.start_workers()
            # and two more of a queue on this host, as an operator starts them
            for name, options in (("second", []), ("third", ["--name", "accept@gpu"])):
                running.workers[name] = WorkerProcess(name, command + options, folder, told)
                running.workers[name].ready()
            running.until(lambda: len(known()) == len(QUEUES) + 2, "Flower knows all")
            assert {name.partition("@")[0] for name in known()} == set(QUEUES)
            assert "accept@gpu" in known()
            # a worker of threads cannot grow, and says what can be done
            (thread,) = (name for name in known() if name.startswith("sweep@"))
            grown = running.app.control.pool_grow(1, destination=[thread], reply=True, timeout=10)
            assert "--concurrency" in str(grown)
            # its log and theirs are JSON, from the first line on
            for log in (flower.logs(), running.workers["second"].logs()):
                assert all(json.loads(line) for line in log.splitlines())
                assert "DuplicateNodename" not in log
        finally:
            flower.end()
