"""Accepting over HTTP: beside the bare insert and commit, beside what is slow, and while the worst is sent.

On servers of its own, durable as they are shipped, with the shipped command of the HTTP API and without workers, so
that only accepting is measured. Bare and HTTP take turns in one run.
"""

import itertools
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from statistics import median, quantiles

import psycopg

from ops.dev.bench import senders, worst
from ops.dev.bench.figures import Figure
from ops.dev.bench.senders import Request
from ops.dev.chaos import cast as casting
from ops.dev.chaos.cast import Cast
from ops.dev.observe import Say

CLIENTS, EVENT_SENDERS = (1, 4), (1, 8)
ROUNDS = 5
ROUND_SECONDS = 2.0
LEAD_SECONDS = 0.3
"""From handing a round to the clients to its beginning: all of them are connected by then."""
BESIDE_SECONDS = 12.0
SMALL_PAUSE, DELETE_PAUSE, HEALTH_PAUSE = 0.01, 0.02, 0.01
SMALL_P99_MS, HEALTH_MS = 50.0, 100.0
AT_LEAST = 0.4
"""Of the bare insert and commit: what an HTTP API may cost."""


def measure(say: Say) -> list[Figure]:
    """Measure all of it, in under two minutes. To be called by the main thread."""
    say("starting Postgres, Redis and the HTTP API")
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-accepting-") as folder,
        casting.playing(Path(folder), only=("api",)) as cast,
        ProcessPoolExecutor(max(*CLIENTS, *EVENT_SENDERS), mp_context=context) as clients,
    ):
        return [
            *_beside_bare(cast, clients, say),
            *_beside_events(cast, clients, say),
            _beside_large(cast, clients, say),
            _beside_worst(cast, clients, say),
        ]


def _beside_bare(cast: Cast, clients: ProcessPoolExecutor, say: Say) -> Iterator[Figure]:
    """Single messages over HTTP beside the bare insert and commit, in turns."""
    dsn, tenant, to = cast.postgres.dsn("app"), cast.settings.tenant, (cast.port, cast.key)
    bare_chats = [f"bench:bare-{client}" for client in range(max(CLIENTS))]
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT set_config('app.tenant_id', %s, true)", [tenant])
        connection.execute("INSERT INTO tenants (tenant_id) VALUES (%s)", [tenant])
        for chat in bare_chats:
            connection.execute("INSERT INTO chats (tenant_id, chat_id) VALUES (%s, %s)", [tenant, chat])
    rounds = iter(range(1_000_000, 2**62, 1_000_000))

    def rate(count: int, begin: Callable[[int, int, float], "Future[list[float]]"]) -> float:
        """Calls a second of one round of all clients together."""
        first, at = next(rounds), time.time() + LEAD_SECONDS
        running = [begin(client, first, at) for client in range(count)]
        return sum(len(each.result()) for each in running) / ROUND_SECONDS

    def bare(client: int, first: int, at: float) -> "Future[list[float]]":
        chat = bare_chats[client]
        return clients.submit(senders.insert_for, dsn, tenant, chat, first, at, ROUND_SECONDS)

    def over_http(client: int, first: int, at: float) -> "Future[list[float]]":
        given = (f"bench:http-{client}", first)
        return clients.submit(senders.send_for, *to, senders.posts, given, at, ROUND_SECONDS)

    say("warming up")
    rate(max(CLIENTS), bare)
    rate(max(CLIENTS), over_http)
    for count in CLIENTS:
        named = f"{count} client{'s' if count > 1 else ''}"
        say(f"single messages, {named}")
        rates = [(rate(count, bare), rate(count, over_http)) for _ in range(ROUNDS)]
        alone, through = (median(each) for each in zip(*rates, strict=True))
        yield Figure(f"bare insert and commit, {named}", alone, "messages/s")
        ratio = through / alone
        yield Figure(f"accepted over HTTP, {named}", through, "messages/s", ratio=ratio, least=AT_LEAST)


def _beside_events(cast: Cast, clients: ProcessPoolExecutor, say: Say) -> Iterator[Figure]:
    """The same messages as events of a platform and as our own payload, in turns."""
    to = (cast.port, cast.key)
    rounds = iter(range(1_000_000, 2**31, 100_000))

    def took(senders_at_once: int, *, events: bool) -> list[float]:
        first, at = next(rounds), time.time() + LEAD_SECONDS
        make = senders.updates if events else senders.posts
        running = [
            clients.submit(
                senders.send_for,
                *to,
                make,
                (-1_000_000 - each if events else f"bench:own-{each}", first),
                at,
                ROUND_SECONDS,
            )
            for each in range(senders_at_once)
        ]
        return [seconds for each in running for seconds in each.result()]

    for count in EVENT_SENDERS:
        say(f"events, {count} at once")
        turns = [(took(count, events=True), took(count, events=False)) for _ in range(ROUNDS + 1)][1:]
        for name, each in zip(("events", "own payloads"), zip(*turns, strict=True), strict=True):
            named = f"{name}, {count} sender{'s' if count > 1 else ''}"
            yield Figure(named, median(len(some) for some in each) / ROUND_SECONDS, "messages/s")
            cuts = quantiles([seconds for some in each for seconds in some], n=100)
            yield Figure(f"{named}, p50", 1000 * cuts[49], "ms")
            yield Figure(f"{named}, p99", 1000 * cuts[98], "ms")


def _beside_large(cast: Cast, clients: ProcessPoolExecutor, say: Say) -> Figure:
    """Small requests while an 8 MB one and deletions in another chat are in flight."""
    say("filling the chat that messages are deleted from")
    to = (cast.port, cast.key)
    _post(to, "bench:deleted", int(BESIDE_SECONDS / DELETE_PAUSE))
    say("small requests beside an 8 MB one and deletions")
    when = (time.time() + 2 * LEAD_SECONDS, BESIDE_SECONDS)
    large = (senders.posts, ["bench:large", 0, *senders.LARGE], *when)
    deletions = (senders.deletions, ["bench:deleted"], *when, DELETE_PAUSE)
    small = (senders.posts, ["bench:small", 0], *when, SMALL_PAUSE)
    running = [clients.submit(senders.send_for, *to, *each) for each in (large, deletions, small)]
    # all, as any of them raises what it was refused with
    *_, took = [each.result() for each in running]
    slowest = 1000 * quantiles(took, n=100)[98]
    return Figure("small request beside 8 MB ones and deletions, p99", slowest, "ms", most=SMALL_P99_MS)


def _beside_worst(cast: Cast, clients: ProcessPoolExecutor, say: Say) -> Figure:
    """`/healthz` while the worst questions and messages known are sent."""
    chat, to = "bench:worst", (cast.port, cast.key)
    _post(to, chat, 200)
    said = {"sender_id": "bench:eve", "sent_at": "2026-03-02T18:00:00Z"}
    bodies = [
        ("/v1/messages", {"chat": chat, "messages": {**said, "external_id": f"w{n}", "content": content}})
        for n, content in enumerate(worst.messages())
    ] + [("/v1/context", {"chat_id": chat, "query": question}) for question in worst.questions()]
    sent: list[Request] = [("POST", path, json.dumps(body)) for path, body in bodies]
    sent += [("POST", path, body.decode()) for path, body in worst.bodies(chat).items()]
    say("/healthz beside the worst messages and questions")
    # late enough for what is sent to be with the client
    at = time.time() + 4 * LEAD_SECONDS
    sending = clients.submit(senders.send_all, *to, sent, at)
    answered = senders.ask_health(cast.port, at, HEALTH_PAUSE, lambda: not sending.done())
    sending.result()
    slowest = 1000 * max(answered)
    return Figure("/healthz beside the worst messages and questions, slowest", slowest, "ms", most=HEALTH_MS)


def _post(to: tuple[int, str], chat: str, messages: int) -> None:
    """Fill a chat with at least this number of messages."""
    senders.send_all(*to, list(itertools.islice(senders.posts(chat, 0, 500), -(-messages // 500))))
