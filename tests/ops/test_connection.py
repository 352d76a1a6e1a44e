"""Commands find their servers: the settings first, then what runs with the data folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops import connection
from ops.local import stack
from ops.local.embedded.folder import open_lock, take
from ops.local.stack import Running
from schemas.errors import DatabaseUnavailable

RUNNING = Running(
    pid=1,
    api_url="http://127.0.0.1:8420",
    api_key="kept",
    database_url="postgresql://app@/running",
    maintenance_database_url="postgresql://maintenance@/running",
    owner_database_url="postgresql://owner@/running",
    redis_url="redis://running",
    tenant="default",
)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("BACKSCROLL_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[None]:
    """What a running `backscroll up` holds."""
    descriptor = open_lock(tmp_path / stack.LOCK)
    assert take(descriptor)
    stack.publish(tmp_path, RUNNING)
    yield
    os.close(descriptor)


def test_what_was_killed_is_not_believed(tmp_path: Path) -> None:
    stack.publish(tmp_path, RUNNING)
    assert stack.running(tmp_path) is None
    with pytest.raises(DatabaseUnavailable, match="backscroll up"):
        connection.open_stack(tmp_path)


def test_settings_come_before_what_runs(tmp_path: Path, lock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_DATABASE_URL", "postgresql://mine")
    settings = connection.open_stack(tmp_path)
    assert settings.database_url
    assert settings.database_url.get_secret_value() == "postgresql://mine"
    # never one database as one role and another as the other
    assert settings.owner_database_url is None
    assert settings.redis_url
    assert settings.redis_url.get_secret_value() == RUNNING.redis_url
