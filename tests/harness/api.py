"""The HTTP API as a process of its own."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx

from schemas.settings import Settings
from tests.conftest import CHECKOUT
from tests.waiting import until


def environment(settings: Settings, **changes: str) -> dict[str, str]:
    assert settings.database_url
    assert settings.redis_url
    assert settings.api_key
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BACKSCROLL_")}
    return kept | {
        "BACKSCROLL_DATABASE_URL": settings.database_url.get_secret_value(),
        "BACKSCROLL_REDIS_URL": settings.redis_url.get_secret_value(),
        "BACKSCROLL_API_KEY": settings.api_key.get_secret_value(),
        "BACKSCROLL_EMBEDDING_PROVIDER": "deterministic",
        **changes,
    }


def start(port: int, environment: dict[str, str], log: Path, processes: int = 1) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "workers.api", "--port", str(port), "--processes", str(processes)]
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=out, stderr=out)


def until_healthy(process: subprocess.Popen[bytes], client: httpx.Client, log: Path) -> None:
    """Wait until the process answers."""

    def is_healthy() -> bool:
        assert process.poll() is None, log.read_text()
        with suppress(httpx.TransportError):
            return client.get("/healthz").status_code == 200
        return False

    until(is_healthy, f"{client.base_url} answers")
