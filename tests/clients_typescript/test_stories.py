"""The TypeScript client with the real frameworks, on a real HTTP API: stories that Node's own test runner tells."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from schemas.settings import Settings
from tests.api.conftest import served
from workers.api.app import make_web_app

CLIENT = Path(__file__).parents[2] / "ops/clients/typescript"
STORIES = sorted(path.name for path in (CLIENT / "test").glob("*.test.mjs"))
INSTALL_SECONDS, STORY_SECONDS = 400, 240
NODE, NPM = shutil.which("node"), shutil.which("npm")

pytestmark = pytest.mark.skipif(
    NODE is None or NPM is None, reason="NODE AND NPM ARE NOT INSTALLED: the TypeScript client was not tested"
)


@pytest.fixture(scope="module")
def client() -> Path:
    """The client's folder, with what its lock file names installed, and built."""
    made = CLIENT / "node_modules/.made"
    lock = (CLIENT / "package-lock.json").read_text("utf-8")
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    if not made.exists() or made.read_text("utf-8") != lock:
        run("npm", "ci", *quiet, seconds=INSTALL_SECONDS)
        made.write_text(lock, "utf-8")
    run("npm", "run", "build", "--silent", seconds=STORY_SECONDS)
    return CLIENT


def run(*command: str, seconds: int, **environment: str) -> None:
    """Run a command in the client's folder; what it printed is shown if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BACKSCROLL_")}
    done = subprocess.run(
        command, cwd=CLIENT, env=clean | environment, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def api(settings: Settings) -> Iterator[httpx.Client]:
    """A real HTTP API on this test's database."""
    with served(settings) as api:
        yield api


@pytest.mark.parametrize("story", STORIES)
def test_in_typescript(client: Path, api: httpx.Client, story: str) -> None:
    environment = {"BACKSCROLL_URL": str(api.base_url).rstrip("/"), "BACKSCROLL_API_KEY": "test-key"}
    run("node", "--test", f"test/{story}", seconds=STORY_SECONDS, **environment)


def test_the_types_are_those_of_the_api(client: Path, settings: Settings, tmp_path: Path) -> None:
    document, written = tmp_path / "openapi.json", tmp_path / "api.ts"
    document.write_text(json.dumps(make_web_app(settings).openapi()), "utf-8")
    run("node", "types.mjs", str(document), str(written), seconds=STORY_SECONDS)
    told = "the API has changed: run `npm run types -- http://127.0.0.1:8420` in ops/clients/typescript"
    assert written.read_text("utf-8") == (CLIENT / "src/api.ts").read_text("utf-8"), told
