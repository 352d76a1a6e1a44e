"""A real HTTP API, and clients of it as a bot has them."""

from collections.abc import Iterator

import httpx
import pytest
from backscroll_client import Backscroll

from schemas.settings import Settings
from tests.api.conftest import served

CHAT = "telegram:-100420"
QUESTION = "When does the new boiler come?"
BOILER = "The new boiler comes on 4 May. 新锅炉五月四日到 🚿"


@pytest.fixture
def api(settings: Settings) -> Iterator[httpx.Client]:
    """A real HTTP API on this test's database."""
    with served(settings) as client:
        yield client


@pytest.fixture
def url(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its address, which is in the environment as its key is."""
    address = str(api.base_url)
    monkeypatch.setenv("BACKSCROLL_URL", address)
    monkeypatch.setenv("BACKSCROLL_API_KEY", "test-key")
    return address


@pytest.fixture
def memory(url: str) -> Iterator[Backscroll]:
    """A client."""
    with Backscroll() as memory:
        yield memory
