"""Clients of benchmarks, each in a process of its own: light, so that they cost the machine little.

Each returns how long its calls took, in seconds. `begin_at`: by `time.time`, so that clients begin together.
"""

import itertools
import json
import math
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from http import HTTPStatus
from typing import Any, Self

import psycopg

INSERT = """
    INSERT INTO messages (tenant_id, chat_id, external_id, session_key, sender_id, sender_name, role, content,
        token_count, sent_at, position, language, metadata)
    VALUES (%s, %s, %s, '', 'bench:ann', 'Ann', 'user', %s, 12, now(), 0, 'english', '{}')
    ON CONFLICT (tenant_id, chat_id, external_id) DO NOTHING
"""
_SAID = {"sender_id": "bench:ann", "sender_name": "Ann", "sent_at": "2026-03-02T18:00:00Z"}
TEXT = "Könnte 誰か посмотреть котёл в квартире {}? Πάλι 0,8 bar 🔧, هل من أحد؟ 谢谢 everybody!"
LEAD_SECONDS = 0.5
"""From handing calls to the clients to their beginning: all of them are connected by then."""

To = tuple[int, str]
"""Port and key of the HTTP API."""
Request = tuple[str, str, str | None]
"""Method, path, body."""
Call = tuple[Callable[..., Iterator[Request]], Sequence[Any]]
"""What makes requests, and its arguments."""


def clients(count: int) -> ProcessPoolExecutor:
    """Return as many processes, to be started by the main thread."""
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


def in_parallel(pool: ProcessPoolExecutor, to: To, calls: Sequence[Call], seconds: float) -> list[float]:
    """Let a client do each of the calls for some seconds, all at once; return the seconds of each request."""
    begin_at = time.time() + LEAD_SECONDS
    running = [pool.submit(send_for, to, call, begin_at, seconds) for call in calls]
    return [took for future in running for took in future.result()]


def posts(chat: str, start: int, size: int = 1) -> Iterator[Request]:
    """Yield ever new messages, `size` in a request."""
    for first in itertools.count(start, size):
        messages = [
            {**_SAID, "external_id": f"{chat}-{number}", "content": TEXT.format(number * 1000)}
            for number in range(first, first + size)
        ]
        yield "POST", "/v1/messages", json.dumps({"chat": chat, "messages": messages}, ensure_ascii=False)


def send_all(to: To, requests: Sequence[Request], begin_at: float = 0) -> list[float]:
    """Send requests one after the other over new connections, whatever the answers."""

    def send(number: int) -> None:
        with _Line(*to) as line:
            line.send(*requests[number])

    return _repeated(send, begin_at, lambda count: count < len(requests))


def send_for(to: To, call: Call, begin_at: float, seconds: float) -> list[float]:
    """Send what a call makes over one connection for some seconds. Raises `RuntimeError` on a refusal."""
    make, arguments = call
    requests = make(*arguments)
    with _Line(*to) as line:

        def send(_number: int) -> None:
            status, answer = line.send(*next(requests))
            if status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
                raise RuntimeError(f"{status}: {answer.decode(errors='replace')[:500]}")

        return _repeated(send, begin_at, seconds=seconds)


def ask_health(port: int, begin_at: float, pause: float, goes_on: Callable[[], bool]) -> list[float]:
    """Ask for `/healthz` over new connections, again and again; return the seconds of each answer."""

    def ask(_number: int) -> None:
        with _Line(port) as line:
            line.send("GET", "/healthz", None)

    return _repeated(ask, begin_at, lambda _count: goes_on(), pause=pause)


def insert_for(dsn: str, tenant: str, chat: str, start: int, begin_at: float, seconds: float) -> list[float]:
    """Insert and commit messages one by one for some seconds."""
    with psycopg.connect(dsn) as connection:

        def insert(number: int) -> None:
            connection.execute("SELECT set_config('app.tenant_id', %s, true)", [tenant])
            name, text = f"{chat}-{start + number}", TEXT.format(start + number)
            connection.execute(INSERT, [tenant, chat, name, text])
            connection.commit()

        return _repeated(insert, begin_at, seconds=seconds)


class _Line:
    """A connection to the HTTP API, without a client library: that would cost as much as a third of the server."""

    def __init__(self, port: int, key: str = "") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=600)
        self._answers = self._socket.makefile("rb")
        self._headers = (
            f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._answers.close()
        self._socket.close()

    def send(self, method: str, path: str, body: str | None) -> tuple[int, bytes]:
        """Return the status and the body of the answer. Raises `RuntimeError` when the connection was closed."""
        content = (body or "").encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(content)}\r\n\r\n"
        self._socket.sendall(head.encode() + content)
        lines = []
        while (line := self._answers.readline()) not in (b"\r\n", b""):
            lines.append(line)
        if not lines:
            raise RuntimeError("the HTTP API has closed the connection")
        sizes = (line[15:] for line in lines if line[:15].lower() == b"content-length:")
        return int(lines[0].split()[1]), self._answers.read(int(next(sizes, b"0")))


def _repeated(
    call: Callable[[int], None],
    begin_at: float = 0,
    goes_on: Callable[[int], bool] = lambda _count: True,
    *,
    seconds: float = math.inf,
    pause: float = 0,
) -> list[float]:
    """Call with 0, 1, … from a moment on, for some seconds and while it goes on; return the seconds of each call."""
    time.sleep(max(0.0, begin_at - time.time()))
    until = time.monotonic() + seconds
    took: list[float] = []
    while time.monotonic() < until and goes_on(len(took)):
        began = time.monotonic()
        call(len(took))
        took.append(time.monotonic() - began)
        if pause:
            time.sleep(pause)
    return took
