"""The memory of the processes that hold a model, started by the shipped commands: worker of `embed`, HTTP API."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from ops.client import Api
from ops.dev.bench.figures import Figure
from ops.dev.observe import Say, wait
from ops.dev.shipped import Shipped
from ops.local import memory, processes
from ops.local.embedded.ports import free_port
from ops.local.embedded.redis import EmbeddedRedis
from schemas.context import Context
from schemas.errors import ApiUnavailable
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from workers.app import make_app
from workers.queues import wake_up

WORKER_MB, API_MB = 350.0, 300.0
READY_SECONDS, EMBEDDED_SECONDS = 60.0, 600.0
QUESTIONS = 20

_LEFT = "SELECT count(*) FROM jobs WHERE kind = 'embed' AND due_at IS NOT NULL"


def measure(backscroll: Shipped, say: Say) -> list[Figure]:
    """Let a worker embed what is left, and the HTTP API answer questions, then measure both; nothing without /proc."""
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-resident-") as folder,
        EmbeddedRedis(Path(folder)) as redis,
    ):
        changes = {
            "redis_url": SecretStr(redis.url),
            "api_key": SecretStr(secrets.token_urlsafe(16)),
            "data_dir": Path(folder),
            "port": free_port(),
            "api_processes": 1,
        }
        settings = backscroll.settings.model_copy(update=changes)
        worker, api = processes.worker_command(["embed"]), processes.api_command(settings)
        with _running(settings, worker), _running(settings, api):
            say("a worker embeds")
            wake_up(make_app(settings), "embed")
            if wait(lambda: not _left(backscroll), EMBEDDED_SECONDS, pause=0.5) is None:
                raise RuntimeError(f"the worker has left {_left(backscroll)} rows")
            say("the HTTP API answers")
            _ask(settings)
            sizes = memory.by_kind(os.getpid())
    limits = {"worker embed": WORKER_MB, "api": API_MB}
    return [
        Figure(f"memory of the process {kind}, with its child", sizes[kind] / 1e6, "MB", limit=limit)
        for kind, limit in limits.items()
        if kind in sizes
    ]


@contextmanager
def _running(settings: Settings, command: Sequence[str]) -> Iterator[None]:
    process = subprocess.Popen(
        command, env=processes.environment(settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _left(backscroll: Shipped) -> int:
    with backscroll.superuser() as connection:
        row = connection.execute(_LEFT).fetchone()
    return int(row[0]) if row else 0


def _ask(settings: Settings) -> None:
    """Ask for contexts, once the HTTP API is up."""
    key = settings.api_key.get_secret_value() if settings.api_key else ""
    api = Api(url=f"http://{settings.host}:{settings.port}", api_key=key)

    def asked() -> bool:
        try:
            api.post(
                "/v1/context", ContextQuery(chat_id="bench:0", query="who repairs the heating?"), Context
            )
        except ApiUnavailable:
            return False
        return True

    if wait(asked, READY_SECONDS, pause=0.5) is None:
        raise RuntimeError("the HTTP API does not answer")
    for _ in range(QUESTIONS):
        asked()
