"""The commands and health checks of compose.yaml, run as they stand there against a real Postgres and Redis."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import redis as redis_client

from ops.local.embedded.binaries import redis_server
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.server import free_port
from schemas.settings import PREFIX, Settings
from tests.harness.api import environment as of_api

Services = dict[str, dict[str, Any]]
START_SECONDS = 60
HEARTBEAT_FILE = f"{PREFIX}WORKER_HEARTBEAT_FILE"


def plain(part: str) -> str:
    """As the container gets it: Compose makes one dollar of two."""
    return part.replace("$$", "$")


def environment(settings: Settings, folder: Path, **more: str) -> dict[str, str]:
    """What a container of ours sees, with this test's servers and PATH led by this environment's programs."""
    assert settings.maintenance_database_url
    seen = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "BACKSCROLL_MAINTENANCE_DATABASE_URL": settings.maintenance_database_url.get_secret_value(),
        "BACKSCROLL_DATA_DIR": str(folder),
    }
    return of_api(settings, **seen, **more)


def healthy(service: dict[str, Any], environment: dict[str, str], old: str = "", new: str = "") -> bool:
    """Whether the service's health check says yes, with `old` in it replaced."""
    kind, *test = service["healthcheck"]["test"]
    command = ["/bin/sh", "-c", *test] if kind == "CMD-SHELL" else test
    command = [plain(part).replace(old, new) if old else plain(part) for part in command]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=600)
    return done.returncode == 0


@contextmanager
def running(
    command: list[str], environment: dict[str, str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        yield process
    finally:
        # how they end when asked is told elsewhere, and a worker takes half a minute for it
        process.kill()
        process.wait(60)


def wait_until(true: Callable[[], bool], process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not true():
        log = (folder / "log").read_text()
        assert process.poll() is None, log
        assert time.monotonic() < deadline, log
        time.sleep(0.2)


def test_migrate_makes_roles_and_tables_and_says_no_password(
    services: Services, settings: Settings, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    # Given the passwords that the roles have already: this server is used by others, too
    passwords = {
        role: urlsplit(postgres.dsn(role)).password for role in ("owner", "app", "maintenance", "backup")
    }
    given = environment(
        settings,
        tmp_path,
        BACKSCROLL_SUPERUSER_URL=postgres.superuser_dsn(),
        BACKSCROLL_OWNER_DATABASE_URL=postgres.dsn("owner"),
        **{f"{role.upper()}_PASSWORD": password or "" for role, password in passwords.items()},
    )
    command = [plain(part) for part in services["migrate"]["command"]]
    done = subprocess.run(
        command, env=given, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    for password in passwords.values():
        assert password
        assert password not in done.stdout + done.stderr
    for role in ("owner", "app", "maintenance", "backup"):
        psycopg.connect(postgres.dsn(role)).close()


def test_the_health_check_of_a_worker_tells_a_living_one_from_a_hung_one(
    services: Services, settings: Settings, tmp_path: Path
) -> None:
    service = services["ingest"]
    given = environment(settings, tmp_path, **{HEARTBEAT_FILE: str(tmp_path / "heartbeat")})
    soon = ("30 seconds", "5 seconds")
    assert not healthy(service, given, *soon)
    with running(service["command"], given, tmp_path) as worker:
        wait_until(lambda: healthy(service, given, *soon), worker, tmp_path)
        # When its main process hangs
        worker.send_signal(signal.SIGSTOP)
        wait_until(lambda: not healthy(service, given, *soon), worker, tmp_path)


def test_the_health_check_of_the_door_waits_until_it_is_ready(
    services: Services, settings: Settings, tmp_path: Path
) -> None:
    service, port = services["api"], free_port()
    given = environment(settings, tmp_path, BACKSCROLL_API_KEY="key", BACKSCROLL_PORT=str(port))
    assert not healthy(service, given, "8420", str(port))
    with running(service["command"], given, tmp_path) as door:
        wait_until(lambda: healthy(service, given, "8420", str(port)), door, tmp_path)


def test_the_clock_needs_redis_and_no_database(
    services: Services, redis: EmbeddedRedis, tmp_path: Path
) -> None:
    given = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "BACKSCROLL_REDIS_URL": redis.url,
        "BACKSCROLL_DATA_DIR": str(tmp_path),
    }
    with running(services["beat"]["command"], given, tmp_path) as clock:
        wait_until(lambda: "Starting..." in (tmp_path / "log").read_text(), clock, tmp_path)


def test_redis_starts_with_its_password_and_its_file(services: Services, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "redis-server").symlink_to(redis_server())
    service = services["redis"]
    command = [plain(part) for part in service["command"]]
    script = command[-1].replace("/data", str(tmp_path)).replace("/tmp/redis.conf", f"{tmp_path}/redis.conf")  # noqa: S108
    command[-1] = f"{script.rstrip()} --port {port}"
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "REDIS_PASSWORD": "secret1"}
    with running(command, given, tmp_path) as server:
        with redis_client.Redis(port=port, password="secret1") as client:

            def answers() -> bool:
                try:
                    return bool(client.ping())
                except redis_client.ConnectionError:
                    return False

            wait_until(answers, server, tmp_path)
            told = client.config_get("*")
        assert (told["appendonly"], told["appendfsync"], told["save"]) == ("yes", "everysec", "")
        assert (told["maxmemory"], told["maxmemory-policy"]) == (str(512 * 1024**2), "noeviction")
        with redis_client.Redis(port=port) as stranger, pytest.raises(redis_client.AuthenticationError):
            stranger.ping()
        # the password is no argument, and the file with it is nobody else's to read
        assert b"secret1" not in Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert (tmp_path / "redis.conf").stat().st_mode & 0o077 == 0
