"""Stories about the embedded Redis: queued tasks outlive crashes, and nobody else gets in."""

import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ops.local.embedded.ports import PortTaken, free_port, is_free
from ops.local.embedded.redis import EmbeddedRedis
from ops.local.embedded.server import ServerFailed
from schemas.errors import QueueUnavailable


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


def test_a_second_start_uses_the_one_that_runs_and_leaves_it_running(server: EmbeddedRedis) -> None:
    with EmbeddedRedis(server.data_dir) as second:
        assert second.pid == server.pid
        assert second.url == server.url
    assert server.is_running()
    with pytest.raises(ServerFailed, match=r"runs already .* but not on port"):
        EmbeddedRedis(server.data_dir, port=free_port()).start()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(PortTaken, match=f"Port {port} .* embedded Redis is taken"):
            EmbeddedRedis(tmp_path, port=port).start()
    with EmbeddedRedis(tmp_path, port=port) as server:
        assert f":{port}/" in server.url


def test_it_ends_with_the_process_that_started_it_even_a_killed_one(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from ops.local.embedded.redis import EmbeddedRedis;"
        "EmbeddedRedis(pathlib.Path(sys.argv[1])).start(); print('up', flush=True); time.sleep(99)"
    )
    with subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"up\n"
        server = EmbeddedRedis(tmp_path)
        push(server, "kept")
        starter.kill()
    with server:
        assert server.is_ours
        assert queued(server) == [b"kept"]


def test_what_is_wrong_with_a_setting_is_shown_from_the_log(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match=r"ended while it started(?s:.*)maxmemory"):
        EmbeddedRedis(tmp_path, maxmemory="much").start()


def test_before_the_first_start_there_is_no_url(tmp_path: Path) -> None:
    with pytest.raises(QueueUnavailable, match="never started: `backscroll up`"):
        _ = EmbeddedRedis(tmp_path).url


def test_an_ordinary_user_starts_it_in_a_path_with_a_space(
    ordinary_folder: Path, as_ordinary_user: Callable[[Callable[[], None]], None]
) -> None:
    def story() -> None:
        with EmbeddedRedis(ordinary_folder / "my data") as server:
            push(server, "kept")
            server.kill()
            server.start()
            assert queued(server) == [b"kept"]

    as_ordinary_user(story)
