"""Clients of benchmarks, each in a process of its own: light, so that they cost the machine little.

Each call is a step of a generator that is made in the client's process.
"""

import itertools
import json
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from http import HTTPStatus
from typing import Any

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
"""From handing calls to the clients to their beginning: all of them are ready by then."""

To = tuple[int, str]
"""Port and key of the HTTP API."""
Calls = tuple[Callable[..., Iterator[object]], Sequence[Any]]
"""What makes one call a step, and its arguments."""


def clients(count: int) -> ProcessPoolExecutor:
    """Return as many processes, to be started by the main thread."""
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


def in_parallel(pool: ProcessPoolExecutor, calls: Sequence[Calls], seconds: float) -> list[float]:
    """Let a client make each of the calls for some seconds, all at once; return the seconds of each call."""
    begin_at = time.time() + LEAD_SECONDS
    running = [pool.submit(_repeated, make, arguments, begin_at, seconds) for make, arguments in calls]
    return [took for future in running for took in future.result()]


def _repeated(
    make: Callable[..., Iterator[object]], arguments: Sequence[Any], begin_at: float, seconds: float
) -> list[float]:
    steps = make(*arguments)
    time.sleep(max(0.0, begin_at - time.time()))
    until = time.monotonic() + seconds
    took: list[float] = []
    # two of them, however slow: a percentile wants no fewer
    while (began := time.monotonic()) < until or len(took) < 2:
        next(steps)
        took.append(time.monotonic() - began)
    return took


class Line:
    """A connection to the HTTP API, without a client library, whose work would count as the server's."""

    def __init__(self, port: int, key: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=600)
        self._answers = self._socket.makefile("rb")
        self._headers = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"

    def close(self) -> None:
        """Close it."""
        self._answers.close()
        self._socket.close()

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer. Raises `RuntimeError` when the connection was closed."""
        sizes = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(f"POST {path} HTTP/1.1\r\n{self._headers}{sizes}".encode() + body)
        lines = []
        while (line := self._answers.readline()) not in (b"\r\n", b""):
            lines.append(line)
        if not lines:
            raise RuntimeError("the HTTP API has closed the connection")
        lengths = (line[15:] for line in lines if line[:15].lower() == b"content-length:")
        return int(lines[0].split()[1]), self._answers.read(int(next(lengths, b"0")))


def asked(to: To, path: str, bodies: Iterator[Any]) -> Iterator[None]:
    """Post bodies over one connection, one a step. Raises `RuntimeError` on a refusal."""
    with closing(Line(*to)) as line:
        for body in bodies:
            status, answer = line.post(path, json.dumps(body, ensure_ascii=False).encode())
            if status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
                raise RuntimeError(f"{status}: {answer.decode(errors='replace')[:500]}")
            yield


def posts(to: To, chat: str, start: int, size: int = 1) -> Iterator[None]:
    """Send ever new messages, `size` in a request."""
    batches = (range(first, first + size) for first in itertools.count(start, size))
    made = (
        [{**_SAID, "external_id": f"{chat}-{n}", "content": TEXT.format(n * 1000)} for n in batch]
        for batch in batches
    )
    return asked(to, "/v1/messages", ({"chat": chat, "messages": messages} for messages in made))


def inserts(dsn: str, tenant: str, chat: str, start: int) -> Iterator[None]:
    """Insert and commit ever new messages, one by one."""
    with psycopg.connect(dsn) as connection:
        for number in itertools.count(start):
            connection.execute("SELECT set_config('app.tenant_id', %s, true)", [tenant])
            connection.execute(INSERT, [tenant, chat, f"{chat}-{number}", TEXT.format(number)])
            connection.commit()
            yield
