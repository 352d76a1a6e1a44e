"""A question on the command line is answered by the Backscroll that runs, or told why it cannot be."""

import os
from collections.abc import Iterator

import pytest

from ops import connection
from ops.local import stack
from ops.local.embedded.folder import open_lock, take
from schemas.settings import Settings
from tests.api.conftest import served
from tests.commands.conftest import Run
from tests.providers.http_server import Answered, serving

QUESTION = "was it the pressure sensor of the boiler?"

pytestmark = pytest.mark.usefixtures("house")


@pytest.fixture
def running_up(settings: Settings, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What runs, known by its data folder alone, with a database that cannot be reached from here."""
    for name in ("DATABASE_URL", "MAINTENANCE_DATABASE_URL", "REDIS_URL", "API_KEY"):
        monkeypatch.delenv(f"BACKSCROLL_{name}")
    settings.data_dir.mkdir()
    with served(settings) as api:
        assert settings.api_key is not None
        running = stack.Running(
            pid=1,
            api_url=str(api.base_url),
            api_key=settings.api_key.get_secret_value(),
            database_url="postgresql://nobody@127.0.0.1:1/none",
            maintenance_database_url="",
            owner_database_url="",
            redis_url="redis://127.0.0.1:1",
            tenant=settings.tenant,
            model_servers={
                "openai_base_url": "http://127.0.0.1:8000/v1",
                "ollama_url": "http://127.0.0.1:8001",
            },
        )
        stack.publish(settings.data_dir, running)
        lock = open_lock(settings.data_dir / stack.LOCK)
        assert take(lock)
        yield
        os.close(lock)


def test_a_running_up_is_found_by_its_data_folder(
    run: Run, running_up: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "pressure sensor" in run("context", QUESTION).out
    # another tenant's data is not what it serves
    other = run("context", QUESTION, "--tenant", "other")
    assert (other.code, "No running Backscroll serves the tenant other" in other.err) == (1, True)
    # another shell knows where the servers of models are, and keeps what it says itself
    monkeypatch.setenv("BACKSCROLL_OPENAI_BASE_URL", "http://127.0.0.1:9000/v1")
    found = connection.open_stack(settings.data_dir)
    assert (found.openai_base_url, found.ollama_url) == ("http://127.0.0.1:9000/v1", "http://127.0.0.1:8001")


def test_a_refused_key_a_missing_key_a_dead_address_and_nothing_at_all_are_told(
    run: Run, running: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(code: int) -> str:
        answered = run("context", QUESTION)
        assert answered.code == code, answered.err
        return answered.err

    monkeypatch.setenv("BACKSCROLL_API_KEY", "another")
    assert "refuses the API key" in told(4)
    monkeypatch.delenv("BACKSCROLL_API_KEY")
    assert "BACKSCROLL_API_KEY is not" in told(4)
    monkeypatch.setenv("BACKSCROLL_API_KEY", "test-key")
    monkeypatch.setenv("BACKSCROLL_URL", "http://127.0.0.1:1")
    assert "does not answer" in told(1)
    monkeypatch.delenv("BACKSCROLL_URL")
    assert "backscroll up" in told(1)


@pytest.mark.parametrize(
    ("status", "body", "code", "told"),
    [
        (200, b'{"openapi": "3", "info": {"version": "9.9"}}', 4, "is version 9.9"),
        (404, b'{"detail": "Not Found", "info": {"version": "9.9"}}', 4, "is version 9.9"),
        (200, b"<html>a proxy</html>", 4, "no Backscroll at all"),
        (500, b'{"type": "x", "detail": "a defect", "request_id": "r1"}', 70, "a defect r1"),
        (503, b'{"type": "x", "detail": "Postgres cannot be reached."}', 1, "Postgres cannot be reached"),
    ],
)
def test_answers_of_another_version_and_failures_are_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, code: int, told: str
) -> None:
    def answer(_method: str, path: str, *_: object) -> Answered:
        return 200 if path == "/openapi.json" else status, {}, body

    with serving(answer) as url:
        monkeypatch.setenv("BACKSCROLL_URL", url)
        answered = run("context", QUESTION)
    assert answered.code == code, answered.err
    assert told in answered.err
