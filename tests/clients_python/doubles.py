"""An API that answers as a story says, a disk that fills and a clock that stands, for clients with no other edge."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from backscroll_client import AsyncBackscroll, Backscroll, buffer, client, exchange

PROBLEM = {"Content-Type": "application/problem+json; charset=utf-8"}
HTML = {"Content-Type": "text/html"}
BAD = "bad"
"""What a message says that the API will never take."""
Fault = Callable[[httpx.Request, "Api"], httpx.Response]


class Killed(BaseException):
    """The process ends here, without a word."""


def problem(status: int, detail: str = "No.", kind: str = "x", **headers: str) -> httpx.Response:
    """Tell of a problem as Backscroll does."""
    told = {"type": f"urn:backscroll:problem:{kind}", "title": "No", "status": status, "detail": detail}
    return httpx.Response(status, json=told, headers=PROBLEM | headers)


class Api:
    """A healthy API of few messages, which keeps of each chat what came, once; and what may go wrong with it."""

    def __init__(self) -> None:
        self.kept: dict[str, list[str]] = {}
        self.requests = 0
        # the faults of the next requests; of those to a path or about a chat; the most messages of a request
        self.faults: list[Fault] = []
        self.ill: dict[str, Fault] = {}
        self.most: int | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        self.requests += 1
        if request.url.path in self.ill:
            return self.ill[request.url.path](request, self)
        chat, names, is_bad = self.read(request)
        if chat in self.ill:
            return self.ill[chat](request, self)
        if self.faults:
            return self.faults.pop(0)(request, self)
        if self.most is not None and len(names) > self.most:
            return httpx.Response(413, text="<h1>Too large</h1>", headers=HTML)
        if is_bad:
            return problem(422, "messages.0.content: it is bad")
        return self.take(request)

    @staticmethod
    def read(request: httpx.Request) -> tuple[str, list[str], bool]:
        """Return what a request is about, what it changes, and whether that can never be."""
        body, parts = request.read().decode(), request.url.raw_path.decode().split("/")
        if request.url.path == "/v1/messages":
            value = json.loads(body)
            names = [message["external_id"] for message in value["messages"]]
            return value["chat"], names, any(message["content"] == BAD for message in value["messages"])
        if parts[2] not in ("messages", "events"):
            return "", [], False
        if parts[2] == "messages":
            return unquote(parts[3]), [f"{request.method} {parts[4]}"], BAD in body
        value = json.loads(body)
        return f"telegram:{value['message']['chat']['id']}", [f"event {value['update_id']}"], BAD in body

    def take(self, request: httpx.Request) -> httpx.Response:
        """Keep what comes, unless it is there, and say so."""
        chat, names, _ = self.read(request)
        if not chat:
            return httpx.Response(200, json={"hits": []})
        kept = self.kept.setdefault(chat, [])
        new = [name for name in names if name not in kept]
        kept += new
        path = request.url.path
        if path == "/v1/messages":
            return httpx.Response(202, json={"accepted": len(new), "duplicates": len(names) - len(new)})
        if path.startswith("/v1/events/"):
            return httpx.Response(200, json={"accepted": len(new), "broken": []})
        return httpx.Response(200 if request.method == "DELETE" else 202, json={"outcome": "edited"})

    def client(self, buffer: Path | None = None, **options: Any) -> Backscroll:
        """Return a client of it."""
        api = self

        class Client(Backscroll):
            def _connect(self, **more: Any) -> None:
                super()._connect(transport=httpx.MockTransport(api), **more)

        return Client("http://backscroll.test", "key", buffer=buffer, **{"patience": 0.0, **options})

    def async_client(self, buffer: Path | None = None, **options: Any) -> AsyncBackscroll:
        """Return a client of it for asyncio."""
        api = self

        class Client(AsyncBackscroll):
            def _connect(self, **more: Any) -> None:
                super()._connect(transport=httpx.MockTransport(api), **more)

        return Client("http://backscroll.test", "key", buffer=buffer, **{"patience": 0.0, **options})


class Clock:
    """Time as a story lets it pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in (buffer, client, exchange):
            monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        """Return the seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let them pass."""
        self.now += seconds


class Disk(sqlite3.Connection):
    """A connection whose disk may be full or broken, or whose process may end before a statement."""

    is_full = False
    is_broken = False
    # so many statements are executed before the process ends
    lives: int | None = None
    _writes = False

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        """Execute a statement, if it can be."""
        if Disk.lives is not None:
            Disk.lives -= 1
            if Disk.lives < 0:
                raise Killed
        if Disk.is_broken:
            raise sqlite3.OperationalError("disk I/O error")
        verb = statement.split()[0]
        writes = verb in ("INSERT", "UPDATE", "DELETE")
        if Disk.is_full and ((verb == "COMMIT" and self._writes) or (writes and not self.in_transaction)):
            raise sqlite3.OperationalError("database or disk is full")
        self._writes = verb != "BEGIN" and (self._writes or writes)
        return super().execute(statement, *parameters)


ONE, TWO = "telegram:1", "telegram:2"


def said(number: int, content: str = "good") -> Any:
    return {"external_id": f"{number:03}", "sender_id": "x", "content": content}


def names(*numbers: int) -> list[str]:
    return [f"{number:03}" for number in numbers]


def away(request: httpx.Request, api: Api) -> httpx.Response:
    raise httpx.ConnectError("refused")


def left(api: Api, path: Path, *contents: str) -> None:
    """Leave messages in a buffer while the API is away."""
    api.ill[ONE] = away
    with api.client(path) as memory:
        for number, content in enumerate(contents):
            assert memory.add(ONE, said(number, content)) is False
    api.ill, api.requests = {}, 0
