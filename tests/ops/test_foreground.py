"""Single processes in the foreground, as a service manager runs them."""

import signal
import subprocess
from pathlib import Path

import httpx
import pytest
from redis import Redis

from ops.local.embedded.ports import free_port
from schemas.settings import Settings
from tests.ops.running import COMMAND, clean_environment, until


@pytest.mark.parametrize(
    ("arguments", "sign"),
    [
        (["worker", "ingest", "accept"], "ingest@"),
        (["api"], "Application startup complete"),
        (["metrics"], "Application startup complete"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_one_process_runs_until_term(
    settings: Settings, tmp_path: Path, arguments: list[str], sign: str
) -> None:
    assert settings.redis_url
    with Redis.from_url(settings.redis_url.get_secret_value()) as client:
        # hints of earlier stories would make it busy, and then it takes its 30 s to end
        client.flushdb()
    port = free_port()
    told = {
        "BACKSCROLL_DATABASE_URL": settings.database_url,
        "BACKSCROLL_MAINTENANCE_DATABASE_URL": settings.maintenance_database_url,
        "BACKSCROLL_REDIS_URL": settings.redis_url,
        "BACKSCROLL_API_KEY": settings.api_key,
    }
    environment = clean_environment(
        **{name: secret.get_secret_value() for name, secret in told.items() if secret},
        # not made yet: `backscroll up` never ran here
        BACKSCROLL_DATA_DIR=str(tmp_path / "data"),
        BACKSCROLL_PORT=str(port),
        BACKSCROLL_METRICS_PORT=str(port),
        BACKSCROLL_EMBEDDING_PROVIDER="deterministic",
    )
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=out, stderr=out, cwd=tmp_path, env=environment
        )
    try:
        until(lambda: sign in log.read_text() or process.poll() is not None, f"{arguments} runs")
        assert process.poll() is None, log.read_text()
        if arguments == ["api"]:
            assert httpx.get(f"http://127.0.0.1:{port}/readyz").json()["status"] == "ready"
        if arguments == ["metrics"]:
            until(lambda: "redis_up 1" in httpx.get(f"http://127.0.0.1:{port}/metrics").text, "Redis is read")
        process.send_signal(signal.SIGTERM)
        process.wait(150)
    finally:
        process.kill()
        process.wait()
