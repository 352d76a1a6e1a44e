"""An API that answers as a story says, a clock that stands, and a path for the buffer."""

from pathlib import Path

import pytest

from tests.clients_python.doubles import Api, Clock


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "buffer"
