"""Accepting and contexts over HTTP: how many in a second, and how long each takes.

On a durable deployment of its own without workers, so that only accepting is measured; what is compared takes turns.

Askers are client processes that share no interpreter; the HTTP API is the shipped one, of two processes, on a database
filled with talk in English through the shipped path. Each call is a step of a generator that is made in the client's
process.
"""

import itertools
import json
import multiprocessing
import os
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection
from statistics import median
from typing import Any

import psycopg

from ops.dev import deployment as deployments
from ops.dev import shipped
from ops.dev.bench import talk
from ops.dev.bench.talk import repeated
from ops.dev.deployment import API_TENANT, OwnDeployment
from ops.dev.figures import Figure, Say, spread, timed
from pipeline.clients.factory import make_embedder
from pipeline.people.api_keys import digest_of
from schemas.messages import MAX_CONTENT_BYTES
from schemas.settings import Settings
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


class RawConnection:
    """A connection to the HTTP API, without a client library, whose work would count as the server's."""

    def __init__(self, port: int, key: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=600)
        self._answers = self._socket.makefile("rb")
        self._headers = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"

    def close(self) -> None:
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
    with closing(RawConnection(*to)) as line:
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


CLIENTS = (1, 4)
ACCEPTING_ROUNDS, ACCEPTING_SECONDS = 1, 2.0
BESIDE_BARE = ("/healthz", "/v1/chats?limit=1")
WORST_CLIENTS, WORST_SECONDS, WORST_MS = (4, 16), 25.0, 100.0
PAUSE = 0.01
AT_LEAST = 0.4
"""Of the bare insert and commit: what an HTTP API may cost."""
WORST_CHAT = "bench:worst"


def measure_accepting(say: Say) -> Iterator[Figure]:
    """Measure all of it, in five minutes. To be called by the main thread."""
    say("starting Postgres, Redis and the HTTP API")
    with deployments.running(only=("api",)) as deployment, start_clients(max(CLIENTS)) as clients:
        yield from _beside_bare(deployment, clients, say)
        yield from _beside_worst(clients, deployment.api, say)


def _beside_bare(deployment: OwnDeployment, clients: ProcessPoolExecutor, say: Say) -> Iterator[Figure]:
    """Compare single messages over HTTP with the bare insert and commit, in turns."""
    dsn, tenant = deployment.postgres.dsn("app"), deployment.settings.tenant
    bare_chats = [f"bench:bare-{client}" for client in range(max(CLIENTS))]
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT set_config('app.tenant_id', %s, true)", [tenant])
        connection.execute("INSERT INTO tenants (tenant_id) VALUES (%s)", [tenant])
        for chat in bare_chats:
            connection.execute("INSERT INTO chats (tenant_id, chat_id) VALUES (%s, %s)", [tenant, chat])
    firsts = itertools.count(1_000_000, 1_000_000)

    def rates(count: int) -> list[float]:
        """Return the messages a second that are inserted and committed, and those accepted over HTTP."""
        first = next(firsts)
        bare: list[Calls] = [(inserts, (dsn, tenant, chat, first)) for chat in bare_chats[:count]]
        over_http: list[Calls] = [(posts, (deployment.api, f"bench:http-{n}", first)) for n in range(count)]
        made = [in_parallel(clients, calls, ACCEPTING_SECONDS) for calls in (bare, over_http)]
        return [len(times) / ACCEPTING_SECONDS for times in made]

    say("warming up")
    rates(max(CLIENTS))
    for count in CLIENTS:
        named = f"{count} client{'s' if count > 1 else ''}"
        say(f"single messages, {named}")
        rounds = [rates(count) for _ in range(ACCEPTING_ROUNDS)]
        alone, through = (median(column) for column in zip(*rounds, strict=True))
        yield Figure(f"bare insert and commit, {named}", alone, "messages/s")
        ratio = through / alone
        yield Figure(f"accepted over HTTP, {named}", through, "messages/s", ratio=ratio, least=AT_LEAST)


def _beside_worst(clients: ProcessPoolExecutor, to: To, say: Say) -> Iterator[Figure]:
    """Measure `/healthz` and a route with a key while clients send the worst of all routes."""
    next(posts(to, WORST_CHAT, 0, 500))
    for is_open, count in itertools.product((True, False), WORST_CLIENTS):
        sent = f"{count} x the worst of {'open routes' if is_open else 'routes with a key'}"
        say(f"beside {sent}")
        sending = clients.submit(send, to, count, WORST_SECONDS, is_open=is_open)
        took: dict[str, list[float]] = {path: [0.0] for path in BESIDE_BARE}
        while not sending.done():
            for path in BESIDE_BARE:
                took[path].append(timed(_ask, to, path)[0])
            time.sleep(PAUSE)
        statuses = sending.result()
        if statuses[500]:
            raise RuntimeError(f"{statuses[500]} of {statuses.total()} were answered 500")
        limit = WORST_MS if count == min(WORST_CLIENTS) else None
        for path, times in took.items():
            yield Figure(f"{path} beside {sent}, slowest", max(times), "ms", most=limit)


def _ask(to: To, path: str) -> None:
    with closing(HTTPConnection("127.0.0.1", to[0], timeout=600)) as api:
        api.request("GET", path, headers={"Authorization": f"Bearer {to[1]}"})
        answer = api.getresponse()
        answer.read()
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"{path} was answered {answer.status}")


BUDGET = 2000
ASKERS = 8
"""Beside one."""
LEAST_GAIN, CORES = 1.7, 2
"""Contexts that many askers get in a second, beside one asker, on two cores."""
CONTEXT_ROUNDS, CONTEXT_SECONDS = 3, 5.0


def measure_contexts(settings: Settings, messages: int, chats: int, say: Say) -> list[Figure]:
    """Fill a database, and ask one asker and then several, in turns. To be called by the main thread."""
    say("starting Postgres and the HTTP API")
    space = make_embedder(settings).space
    took: dict[int, list[float]] = {1: [], ASKERS: []}
    with deployments.running(only=("api",), space=space, durable=False) as deployment:
        ours = settings.model_copy(update={"tenant": API_TENANT})
        with shipped.on(deployment.postgres, ours) as backscroll:
            backscroll.fill_chats(talk.english, messages, chats, say)
        say(f"one asker and {ASKERS}")
        with start_clients(ASKERS) as clients:
            for number, (count, of_all) in itertools.product(range(-1, CONTEXT_ROUNDS), took.items()):
                seeds = range(1000 * (number + 2), 1000 * (number + 2) + count)
                calls: list[Calls] = [(_contexts, (deployment.api, chats, seed)) for seed in seeds]
                times = in_parallel(clients, calls, CONTEXT_SECONDS)
                # the first round warms up
                of_all += times if number >= 0 else []
    alone, many = took.values()
    least = LEAST_GAIN if len(os.sched_getaffinity(0)) >= CORES else None
    rates = [len(times) / CONTEXT_ROUNDS / CONTEXT_SECONDS for times in (alone, many)]
    gain = rates[1] / max(rates[0], 0.001)
    return [
        Figure("one asker over HTTP", rates[0], "contexts/s"),
        *spread("one asker over HTTP", [1000 * seconds for seconds in alone]),
        Figure(f"{ASKERS} askers over HTTP", rates[1], "contexts/s", ratio=gain, least=least),
        *spread(f"{ASKERS} askers over HTTP", [1000 * seconds for seconds in many]),
    ]


def _contexts(to: To, chats: int, seed: int) -> Iterator[None]:
    """Ask ever new questions."""
    rng = random.Random(seed)  # noqa: S311
    drawn = ((f"bench:{rng.randrange(chats)}", talk.english_question(rng)) for _ in itertools.count())
    queries = ({"chat_id": chat, "query": query, "budget_tokens": BUDGET} for chat, query in drawn)
    return asked(to, "/v1/context", queries)
