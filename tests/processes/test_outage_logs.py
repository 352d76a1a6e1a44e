"""What a worker logs while Redis answers and refuses: what is wrong, and not again and again."""

import subprocess
import time
from pathlib import Path

from redis import Redis

from ops.local import processes
from ops.local.embedded.redis import EmbeddedRedis
from schemas.settings import Settings
from tests.conftest import refusing
from tests.ops.running import until


def test_a_worker_says_once_that_redis_takes_no_writes_and_goes_on_when_it_does(
    settings: Settings, tmp_path: Path
) -> None:
    with EmbeddedRedis(tmp_path / "redis") as redis, (tmp_path / "log").open("wb") as out:
        told = settings.model_dump() | {"redis_url": redis.url, "sweep_seconds": 0.5}
        environment = processes.environment(Settings(_env_file=None, **told))
        commands = (processes.worker_command(["sweep"]), processes.beat_command(tmp_path))
        running = [
            subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=out) for command in commands
        ]
        log = tmp_path / "log"
        try:
            with Redis.from_url(redis.url) as client:
                until(lambda: client.exists("backscroll.swept"), "a sweep")
                before = log.stat().st_size
                with refusing(redis, "a replica"):
                    time.sleep(8)
                    said = log.read_text()[before:]
                client.delete("backscroll.swept")
                until(lambda: client.exists("backscroll.swept"), "a sweep afterwards")
        finally:
            for process in running:
                process.kill()
                process.wait()
    assert "read only replica" in said
    # before it was some 2 kB a second of each
    lines = [line for line in said.splitlines() if '"level": "info"' not in line]
    assert len(lines) < 8, said
    assert max(map(len, lines)) < 1000, said
