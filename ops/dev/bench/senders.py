"""Clients of benchmarks, each in a process of its own, and the worst requests that they send.

Each call is a step of a generator that is made in the client's process.
"""

import itertools
import json
import multiprocessing
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, suppress
from http import HTTPStatus
from typing import Any

import psycopg

from ops.dev.bench.talk import repeated
from pipeline.people.api_keys import digest_of
from schemas.messages import MAX_CONTENT_BYTES
from workers.api import keyring
from workers.api.bodies import MAX_BODY_BYTES
from workers.api.scopes import ACCESS

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


def start_clients(count: int) -> ProcessPoolExecutor:
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


MAX_QUESTION_CHARS = 8000
URL_BYTES, HEADER_BYTES = 8000, 15_000
"""A little less than the HTTP API takes."""
TIMEOUT_SECONDS = 600.0
Request = tuple[bytes, bytes]
"""Its head and its body."""
# So many empty items fit into a body with room to spare, and each was an error of its own.
EMPTY_ITEMS = 900_000

_REPEATED_IN_MESSAGES = (
    "A. |Mr. |1 may |1/1/|1.1.|i'll |a@b.|'|`|[|\n|please |decision |[picture: |1 мая |решили |т. е. |明天|。|👨‍👩‍👧"
).split("|")
_REPEATED_IN_QUESTIONS = (
    "in May |in 1999 |1 may |2024-05-01 |yesterday |3 days ago |before the trip |between the trip and |12345678 |"
    '1.1.1.|1/1/|1|a" "|E41 |1 мая |вчера |3 дня назад |昨天|2024年5月|谁|👍🏿'
).split("|")
# Before and after very many spaces.
FRAMES = (("x", "y[picture: a]"), ("<", "backscroll"), ("what", "?"), ("that", "x"))
REPEATED = (*_REPEATED_IN_MESSAGES, *_REPEATED_IN_QUESTIONS)


def requests(chat_id: str) -> Iterator[tuple[str, bytes]]:
    """Yield paths and bodies: messages and questions, each as long as one may be, and what is refused."""
    spaces = " " * (MAX_CONTENT_BYTES - 64)
    texts = [begin + spaces + end for begin, end in FRAMES]
    texts += [repeated(piece, MAX_CONTENT_BYTES) for piece in _REPEATED_IN_MESSAGES]
    for number, text in enumerate(texts):
        said = {"sender_id": "bench:eve", "sent_at": "2026-03-02T18:00:00Z", "external_id": f"w{number}"}
        body = {"chat": chat_id, "messages": {**said, "content": text}}
        yield "/v1/messages", json.dumps(body).encode()
    words = " ".join(f"w{number}" for number in range(1600))
    for piece in (words, *_REPEATED_IN_QUESTIONS):
        question = (piece * MAX_QUESTION_CHARS)[:MAX_QUESTION_CHARS]
        yield "/v1/context", json.dumps({"chat_id": chat_id, "query": question}).encode()
    yield from bodies(chat_id).items()


def bodies(chat_id: str) -> Mapping[str, bytes]:
    """Return bodies of requests that are refused, by the path that they are sent to."""
    items = ",".join(["{}"] * EMPTY_ITEMS)
    chat = json.dumps(chat_id)
    return {
        "/v1/messages": f'{{"chat":{chat},"messages":[{items}]}}'.encode(),
        "/v1/more": f'{{"chat_id":{chat},"session_id":1,"shown":[{items}]}}'.encode(),
    }


def of_routes(key: str, chat_id: str, *, is_open: bool) -> Iterator[Request]:
    """Yield the worst of every route that needs no key, or of every other with this key."""
    login = f"{keyring.COOKIE_NAME}={keyring.Seal(key).seal(digest_of(key))}; "
    keyed = "" if is_open else f"Authorization: Bearer {key}\r\n"
    large = (
        b"key=" + b"%41" * ((MAX_BODY_BYTES - 4) // 3),
        b"[" + b",".join([b"[]"] * (MAX_BODY_BYTES // 3 - 1)) + b"]",
    )

    def request(route: str, body: bytes = b"", query: str = "", crumbs: str = "") -> Request:
        cookies = f"Cookie: {'' if is_open else login}{crumbs}\r\nSec-Fetch-Site: same-origin\r\n"
        head = (
            f"{route}{query} HTTP/1.1\r\nHost: bench\r\n{keyed}{cookies}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode(), body

    for route in [name for name, access in ACCESS.items() if access.is_open == is_open] + [
        "GET /nowhere"
    ] * is_open:
        plain = re.sub("{.*?}", "standard", route)
        yield request(re.sub("{.*?}", "%2f%41" * (URL_BYTES // 12), route, count=2))
        yield request(plain, query="?" + "a=&" * (URL_BYTES // 3))
        yield request(plain, crumbs='a="' + "\\" * HEADER_BYTES + '"')
        if not route.startswith("GET"):
            yield from (request(plain, body) for body in large)
    if not is_open:
        yield from (request(f"POST {path}", body) for path, body in requests(chat_id))


def send(to: To, clients: int, seconds: float, *, is_open: bool) -> Counter[int]:
    """Let clients send the same request at once, one after the other for so long; count the statuses."""
    every = list(of_routes(to[1], "bench:worst", is_open=is_open))
    random.Random(1).shuffle(every)  # noqa: S311
    until, statuses, waiting = time.monotonic() + seconds, Counter[int](), itertools.cycle(every)
    with ThreadPoolExecutor(clients) as pool:
        while time.monotonic() < until:
            statuses.update(pool.map(_status, [(to[0], next(waiting))] * clients))
    return statuses


def _status(sent: tuple[int, Request]) -> int:
    """Send a request over a connection of its own, whatever the answer; 0 without any."""
    port, parts = sent
    with (
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as line,
        suppress(ConnectionError),
    ):
        # a request that is refused early is not read to its end
        with suppress(ConnectionError):
            line.sendall(b"".join(parts))
        return int(line.recv(65536).split()[1])
    return 0
