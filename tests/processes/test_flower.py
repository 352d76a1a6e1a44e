"""Flower knows every worker, however late it came and however many there are of a queue."""

import json
import sys
from contextlib import suppress

import httpx

from ops.local import processes
from ops.local.embedded.server import free_port
from tests.processes.conftest import Deployment
from tests.processes.nodes import Process, WorkerProcess
from workers.queues import QUEUES

LOGIN = ("watcher", "secret")


def test_flower_knows_workers_that_came_after_it_and_two_of_a_queue(deployment: Deployment) -> None:
    port = free_port()
    told = {**deployment.environment, "FLOWER_BASIC_AUTH": ":".join(LOGIN), "BACKSCROLL_LOG_LEVEL": "info"}

    def known(path: str = "api/workers") -> dict[str, object]:
        with suppress(httpx.TransportError):
            answer = httpx.get(f"http://127.0.0.1:{port}/{path}", auth=LOGIN)
            return dict(answer.json()) if answer.status_code == 200 else {"?": answer.status_code}
        return {"?": 0}

    # Given Flower, which asks who is there at its start
    flower = Process("flower", processes.flower_command(port), deployment.folder, told)
    command = [sys.executable, "-P", "-m", "ops.cli", "worker", "accept"]
    later: list[WorkerProcess] = []
    try:
        deployment.until(lambda: len(known()) == len(QUEUES), "Flower knows who was there")
        # When two more of a queue come on this host, as an operator starts them
        for name, options in (("second", []), ("third", ["--name", "accept@gpu"])):
            later.append(WorkerProcess(name, command + options, deployment.folder, told))
            later[-1].ready()
        deployment.until(lambda: len(known()) == len(QUEUES) + 2, "Flower knows all")
        assert {name.partition("@")[0] for name in known()} == set(QUEUES)
        assert "accept@gpu" in known()
        # a worker of threads cannot grow, and says what can be done
        (thread,) = (name for name in known() if name.startswith("sweep@"))
        grown = deployment.app.control.pool_grow(1, destination=[thread], reply=True, timeout=10)
        assert "--concurrency" in str(grown)
        # its log and theirs are JSON, from the first line on
        for log in (flower.logs(), later[0].logs()):
            assert all(json.loads(line) for line in log.splitlines())
            assert "DuplicateNodename" not in log
    finally:
        for process in (*later, flower):
            process.end()
