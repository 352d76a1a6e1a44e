"""Accepting over HTTP: beside the bare insert and commit, and while the worst is sent.

On a durable deployment of its own without workers, so that only accepting is measured; what is compared takes turns.
"""

import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median

import psycopg

from ops.dev.bench import senders, worst
from ops.dev.bench.senders import Call, Request, To
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import Deployment
from ops.dev.figures import Figure
from ops.dev.observe import Say

CLIENTS = (1, 4)
ROUNDS, ROUND_SECONDS = 5, 2.0
HEALTH_PAUSE, HEALTH_MS = 0.01, 100.0
AT_LEAST = 0.4
"""Of the bare insert and commit: what an HTTP API may cost."""


def measure(say: Say) -> Iterator[Figure]:
    """Measure all of it, in under two minutes. To be called by the main thread."""
    say("starting Postgres, Redis and the HTTP API")
    with deployments.running(only=("api",)) as deployment, senders.clients(max(CLIENTS)) as clients:
        yield from _beside_bare(deployment, clients, say)
        yield _beside_worst(clients, deployment.api, say)


def _beside_bare(deployment: Deployment, clients: ProcessPoolExecutor, say: Say) -> Iterator[Figure]:
    """Compare single messages over HTTP with the bare insert and commit, in turns."""
    dsn, tenant, to = deployment.postgres.dsn("app"), deployment.settings.tenant, deployment.api
    bare_chats = [f"bench:bare-{client}" for client in range(max(CLIENTS))]
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT set_config('app.tenant_id', %s, true)", [tenant])
        connection.execute("INSERT INTO tenants (tenant_id) VALUES (%s)", [tenant])
        for chat in bare_chats:
            connection.execute("INSERT INTO chats (tenant_id, chat_id) VALUES (%s, %s)", [tenant, chat])
    firsts = itertools.count(1_000_000, 1_000_000)

    def bare(count: int) -> float:
        """Return the messages inserted and committed a second."""
        first, at = next(firsts), time.time() + senders.LEAD_SECONDS
        running = [
            clients.submit(senders.insert_for, dsn, tenant, chat, first, at, ROUND_SECONDS)
            for chat in bare_chats[:count]
        ]
        return sum(len(future.result()) for future in running) / ROUND_SECONDS

    def over_http(count: int) -> float:
        first = next(firsts)
        calls: list[Call] = [(senders.posts, (f"bench:http-{client}", first)) for client in range(count)]
        return len(senders.in_parallel(clients, to, calls, ROUND_SECONDS)) / ROUND_SECONDS

    say("warming up")
    bare(max(CLIENTS))
    over_http(max(CLIENTS))
    for count in CLIENTS:
        named = f"{count} client{'s' if count > 1 else ''}"
        say(f"single messages, {named}")
        rates = [(bare(count), over_http(count)) for _ in range(ROUNDS)]
        alone, through = (median(column) for column in zip(*rates, strict=True))
        yield Figure(f"bare insert and commit, {named}", alone, "messages/s")
        ratio = through / alone
        yield Figure(f"accepted over HTTP, {named}", through, "messages/s", ratio=ratio, least=AT_LEAST)


def _beside_worst(clients: ProcessPoolExecutor, to: To, say: Say) -> Figure:
    """Measure `/healthz` while the worst known questions and messages are sent."""
    chat = "bench:worst"
    senders.send_all(to, list(itertools.islice(senders.posts(chat, 0, 500), 1)))
    common = {"sender_id": "bench:eve", "sent_at": "2026-03-02T18:00:00Z"}
    bodies = [
        ("/v1/messages", {"chat": chat, "messages": {**common, "external_id": f"w{n}", "content": content}})
        for n, content in enumerate(worst.messages())
    ] + [("/v1/context", {"chat_id": chat, "query": question}) for question in worst.questions()]
    sent: list[Request] = [("POST", path, json.dumps(body)) for path, body in bodies]
    sent += [("POST", path, body.decode()) for path, body in worst.bodies(chat).items()]
    say("/healthz beside the worst messages and questions")
    # late enough for what is sent to be with the client
    at = time.time() + 3 * senders.LEAD_SECONDS
    sending = clients.submit(senders.send_all, to, sent, at)
    answered = senders.ask_health(to[0], at, HEALTH_PAUSE, lambda: not sending.done())
    sending.result()
    slowest = 1000 * max(answered)
    return Figure("/healthz beside the worst messages and questions, slowest", slowest, "ms", most=HEALTH_MS)
