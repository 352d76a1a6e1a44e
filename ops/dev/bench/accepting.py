"""Accepting over HTTP: beside the bare insert and commit, and while the worst is sent.

On a durable deployment of its own without workers, so that only accepting is measured; what is compared takes turns.
"""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from statistics import median

import psycopg

from ops.dev.bench import senders, worst
from ops.dev.bench.senders import Calls, To
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import Deployment
from ops.dev.figures import Figure
from ops.dev.observe import Say, timed

CLIENTS = (1, 4)
ROUNDS, ROUND_SECONDS = 5, 2.0
HEALTH_PAUSE, HEALTH_MS = 0.01, 100.0
AT_LEAST = 0.4
"""Of the bare insert and commit: what an HTTP API may cost."""
WORST_CHAT = "bench:worst"


def measure(say: Say) -> Iterator[Figure]:
    """Measure all of it, in under two minutes. To be called by the main thread."""
    say("starting Postgres, Redis and the HTTP API")
    with deployments.running(only=("api",)) as deployment, senders.clients(max(CLIENTS)) as clients:
        yield from _beside_bare(deployment, clients, say)
        yield _beside_worst(clients, deployment.api, say)


def _beside_bare(deployment: Deployment, clients: ProcessPoolExecutor, say: Say) -> Iterator[Figure]:
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
        bare: list[Calls] = [(senders.inserts, (dsn, tenant, chat, first)) for chat in bare_chats[:count]]
        over_http: list[Calls] = [
            (senders.posts, (deployment.api, f"bench:http-{n}", first)) for n in range(count)
        ]
        made = [senders.in_parallel(clients, calls, ROUND_SECONDS) for calls in (bare, over_http)]
        return [len(times) / ROUND_SECONDS for times in made]

    say("warming up")
    rates(max(CLIENTS))
    for count in CLIENTS:
        named = f"{count} client{'s' if count > 1 else ''}"
        say(f"single messages, {named}")
        rounds = [rates(count) for _ in range(ROUNDS)]
        alone, through = (median(column) for column in zip(*rounds, strict=True))
        yield Figure(f"bare insert and commit, {named}", alone, "messages/s")
        ratio = through / alone
        yield Figure(f"accepted over HTTP, {named}", through, "messages/s", ratio=ratio, least=AT_LEAST)


def _beside_worst(clients: ProcessPoolExecutor, to: To, say: Say) -> Figure:
    """Measure `/healthz` while the worst known questions and messages are sent."""
    next(senders.posts(to, WORST_CHAT, 0, 500))
    say("/healthz beside the worst messages and questions")
    sending = clients.submit(_send_worst, to)
    took = [0.0]
    while not sending.done():
        took.append(timed(_ask_health, to[0])[0])
        time.sleep(HEALTH_PAUSE)
    sending.result()
    return Figure(
        "/healthz beside the worst messages and questions, slowest", max(took), "ms", most=HEALTH_MS
    )


def _ask_health(port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=600)) as api:
        api.request("GET", "/healthz")
        api.getresponse().read()


def _send_worst(to: To) -> None:
    """Send each over a new connection, whatever the answer."""
    for path, body in worst.requests(WORST_CHAT):
        with closing(senders.Line(*to)) as line:
            line.post(path, body)
