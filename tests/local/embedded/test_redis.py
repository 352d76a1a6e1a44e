"""Stories about the embedded Redis: queued tasks outlive crashes, and nobody else gets in."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ops.local.embedded import redis as embedded_redis
from ops.local.embedded.binaries import redis_server
from ops.local.embedded.folder import is_taken, open_lock, take
from ops.local.embedded.redis import EmbeddedRedis


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path) as running:
        yield running


def push(server: EmbeddedRedis, word: str) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.lpush("queue", word)


def queued(server: EmbeddedRedis) -> list[bytes]:
    with redis.Redis.from_url(server.url) as client:
        return list(client.lrange("queue", 0, -1))


def test_the_queue_survives_stops_and_crashes_at_the_same_url(server: EmbeddedRedis) -> None:
    url = server.url
    push(server, "before the stop")
    server.stop()
    assert not server.is_running()
    server.start()
    push(server, "before the crash")
    server.kill()
    assert server.pid is None
    server.start()
    assert queued(server) == [b"before the crash", b"before the stop"]
    assert server.url == url


def test_nobody_gets_in_without_the_password(server: EmbeddedRedis, tmp_path: Path) -> None:
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    for password in (None, "guess"):
        with (
            redis.Redis(port=port, password=password, retry=Retry(NoBackoff(), 0)) as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.ping()
    for path in (*tmp_path.iterdir(), tmp_path / "redis"):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path
    command = Path(f"/proc/{server.pid}/cmdline").read_bytes().decode()
    assert (tmp_path / "redis-password").read_text() not in command


def test_it_keeps_what_it_took_and_refuses_when_it_is_full(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path, maxmemory="3mb") as server, redis.Redis.from_url(server.url) as client:
        settings = client.config_get("maxmemory-policy") | client.config_get("append*")
        assert settings.items() >= {"maxmemory-policy": "noeviction", "appendonly": "yes"}.items()
        assert settings["appendfsync"] == "everysec"
        with pytest.raises(redis.OutOfMemoryError):
            [client.lpush("queue", "x" * 100_000) for _ in range(50)]


def test_data_of_a_newer_server_are_not_given_to_one_that_would_not_see_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given what Redis 7 and Valkey write
    (tmp_path / "redis" / "appendonlydir").mkdir(parents=True)
    wanted: list[int] = []
    monkeypatch.setattr(
        embedded_redis, "redis_server", lambda oldest: wanted.append(oldest) or redis_server()
    )
    with EmbeddedRedis(tmp_path):
        assert wanted == [7]


def test_a_lock_has_one_holder_until_the_last_heir_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    assert not is_taken(path)
    mine, others = open_lock(path), open_lock(path)
    assert take(mine)
    assert not take(others)
    heir = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"], pass_fds=[mine])
    os.close(mine)
    assert is_taken(path)
    heir.kill()
    heir.wait(60)
    assert not is_taken(path)
    assert take(others)
    os.close(others)
