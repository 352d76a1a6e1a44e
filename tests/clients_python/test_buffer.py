"""The buffer: the API is killed and started again under load, and nothing is lost, doubled or out of order."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from backscroll_client import AsyncBackscroll, Backscroll, Message

from ops.local.embedded.ports import free_port
from schemas.settings import Settings
from tests.api.test_process import environment, start
from tests.clients_python.conftest import CHAT

# A bot that writes down each message before it hands it over, until it is killed.
BOT = f"""
import itertools, sys
from backscroll_client import Backscroll
url, buffer, first = sys.argv[1:]
with Backscroll(url, "test-key", buffer=buffer) as memory:
    for number in itertools.count(int(first)):
        message = {{"external_id": str(number), "sender_id": "app:7", "content": f"№ {{number}}"}}
        memory.add("{CHAT}", message | {{"sent_at": 1777300000 + number}})
        print(number, flush=True)
"""


class Api:
    """An HTTP API at a port of its own, which can be killed."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.port, self.settings, self.log = free_port(), settings, log
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = start(self.port, environment(self.settings), self.log)

    def wait(self) -> None:
        while True:
            assert self.process.poll() is None, self.log.read_text()
            try:
                httpx.get(f"{self.url}/healthz")
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stored(self) -> list[str]:
        """What is stored of the chat, in its order."""
        with Backscroll(self.url, "test-key") as memory:
            pages: list[Message] = []
            while page := memory.latest(CHAT, limit=1000, until=pages[0]["sent_at"] if pages else None):
                pages = page + pages
            return [message["external_id"] for message in pages]


@pytest.fixture
def api(settings: Settings, tmp_path: Path) -> Iterator[Api]:
    api = Api(settings, tmp_path / "api.log")
    api.start()
    api.wait()
    yield api
    api.kill()


def said(number: int) -> Message:
    content = f"№ {number}"
    return {
        "external_id": str(number),
        "sender_id": "app:7",
        "content": content,
        "sent_at": 1777300000 + number,
    }


def test_nothing_is_lost_doubled_or_out_of_order_while_the_api_is_killed_and_started_again(
    api: Api, tmp_path: Path
) -> None:
    async def talk(memory: AsyncBackscroll, numbers: range, committed: list[bool]) -> None:
        for number in numbers:
            done = await memory.add(CHAT, said(number))
            committed.append(done)

    async def story() -> list[bool]:
        committed: list[bool] = []
        async with AsyncBackscroll(api.url, "test-key", buffer=tmp_path / "buffer") as memory:
            # Given a bot whose API is killed between, and perhaps within, two requests
            before = asyncio.create_task(talk(memory, range(100), committed))
            while len(committed) < 30:
                await asyncio.sleep(0.001)
            api.kill()
            await before
            assert committed[0]
            assert not committed[-1]
            assert memory.waiting > 0
            # and which edits and deletes meanwhile
            await memory.edit(CHAT, "98", "№ 98 bis")
            await memory.delete(CHAT, "99")
            # When the API is back
            api.start()
            await asyncio.to_thread(api.wait)
            await talk(memory, range(100, 120), committed)
            # Then what is asked knows all of it
            latest = await memory.latest(CHAT, limit=30)
            assert memory.waiting == 0
            assert [m["content"] for m in latest if m["external_id"] in ("98", "99")] == ["№ 98 bis"]
        return committed

    asyncio.run(story())
    assert api.stored() == [str(number) for number in range(120) if number != 99]


def test_what_a_killed_bot_had_taken_in_is_sent_by_the_next(api: Api, tmp_path: Path) -> None:
    @contextmanager
    def bot(first: int) -> Iterator[Iterator[int]]:
        command = [sys.executable, "-c", BOT, api.url, tmp_path / "buffer", str(first)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)}
        )
        assert process.stdout is not None
        yield (int(line) for line in process.stdout)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

    # Given a bot whose API is killed under it, and which then is killed itself
    with bot(0) as numbers:
        for number in numbers:
            if number == 20:
                api.kill()
            if number == 60:
                break
    # When both are back
    api.start()
    api.wait()
    with Backscroll(api.url, "test-key", buffer=tmp_path / "buffer") as memory:
        assert memory.waiting > 0
        assert memory.flush() is True
    # Then all that it had said it took in is there, in order; the one that it had in hand may be
    stored = api.stored()
    assert len(stored) > 60
    assert stored == [str(number) for number in range(len(stored))]
