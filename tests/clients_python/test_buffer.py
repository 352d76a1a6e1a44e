"""The buffer: the API and the bot are killed, and its disk is full, and nothing is lost, doubled or out of order."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from email.message import Message as Headers
from pathlib import Path

import httpx
import pytest
from backscroll_client import AsyncBackscroll, Backscroll, Message

from ops.local.embedded.server import free_port
from schemas.settings import Settings
from tests.clients_python.conftest import CHAT
from tests.harness.api import environment, start, until_healthy
from tests.providers.http_server import Answered, serving

# A bot that writes down each message before it hands it over, until it is killed.
BOT = f"""
import itertools, sys
from backscroll_client import Backscroll
with Backscroll(sys.argv[1], "test-key", buffer=sys.argv[2]) as memory:
    for number in itertools.count():
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
        with httpx.Client(base_url=self.url) as client:
            until_healthy(self.process, client, self.log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

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


def test_nothing_is_lost_doubled_or_out_of_order_while_the_api_and_the_bot_are_killed_and_started_again(
    api: Api, tmp_path: Path
) -> None:
    # Given a bot whose API is killed under it, perhaps within a request, and which then is killed itself
    command = [sys.executable, "-c", BOT, api.url, tmp_path / "buffer"]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as bot:
        assert bot.stdout is not None
        for number in map(int, bot.stdout):
            if number == 20:
                api.kill()
            if number == 60:
                break
        bot.kill()

    async def story() -> None:
        async with AsyncBackscroll(api.url, "test-key", buffer=tmp_path / "buffer") as memory:
            # When the next bot goes on, edits and deletes before the API is back
            assert memory.waiting > 0
            committed = [await memory.add(CHAT, said(number)) for number in (1000, 1001)]
            await memory.edit(CHAT, "58", "№ 58 bis")
            await memory.delete(CHAT, "59")
            assert committed == [False, False]
            api.start()
            await asyncio.to_thread(api.wait)
            assert await memory.add(CHAT, said(1002)) is True
            # Then what is asked knows all of it; the first bot may have come far before it was killed
            latest = await memory.latest(CHAT, limit=1000)
            assert memory.waiting == 0
            assert [m["content"] for m in latest if m["external_id"] in ("58", "59")] == ["№ 58 bis"]

    asyncio.run(story())
    # and all that the first said it took in is there, in order; the one that it had in hand may be
    *stored, first, second, third = api.stored()
    assert (first, second, third) == ("1000", "1001", "1002")
    assert len(stored) >= 60
    assert stored == [str(number) for number in range(len(stored) + 1) if number != 59]


def said(number: int) -> Message:
    message: Message = {"external_id": str(number), "sender_id": "app:7", "content": f"№ {number}"}
    return message | {"sent_at": 1777300000 + number}  # type: ignore[return-value]


def run(script: str, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


def external_ids(body: bytes) -> list[str]:
    return [message["external_id"] for message in json.loads(body)["messages"]]


# What may be in a file is limited instead of a disk, which only the administrator could make.
FULL = f"""
import httpx, resource, sys
from backscroll_client import Backscroll, BufferUnusable
def said(number):
    return {{"external_id": str(number), "sender_id": "app:7", "content": 5000 * "ю", "sent_at": 1777300000}}
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
with Backscroll(sys.argv[1], "test-key", buffer=sys.argv[2]) as memory:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, most))
    number = 0
    try:
        while True:
            assert memory.add("{CHAT}", said(number)) is False
            number += 1
    except BufferUnusable as error:
        assert "hand it over again" in str(error), error
    httpx.post(sys.argv[1] + "/up")
    assert memory.add("{CHAT}", said(number)) is True
    assert memory.add("{CHAT}", said(number + 1)) is True
    assert memory.flush() is True
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert memory.add("{CHAT}", said(number + 2)) is True
with Backscroll(sys.argv[1], "test-key", buffer=sys.argv[2]) as memory:
    print(number, memory.waiting)
"""


def test_a_bot_on_a_full_disk_says_what_it_cannot_keep_and_goes_on_with_the_api(tmp_path: Path) -> None:
    sent: list[str] = []
    is_up = False

    def answer(_method: str, path: str, _headers: Headers, body: bytes) -> Answered:
        nonlocal is_up
        if path == "/up":
            is_up = True
        elif is_up:
            sent.extend(external_ids(body))
        return (202, {}, b'{"accepted": 1}') if is_up else (503, {}, b"")

    with serving(answer) as url, run(FULL, url, tmp_path / "buffer") as bot:
        told, _ = bot.communicate(timeout=60)
        assert bot.returncode == 0
    number, waiting = map(int, told.split())
    assert number > 2
    # nothing is sent twice, though the file was told of the commits only when there was room again
    assert sent == [str(n) for n in range(number + 3)]
    assert waiting == 0
