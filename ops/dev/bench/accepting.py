"""Accepting over HTTP: beside the bare insert and commit, and while the worst is sent.

On a durable deployment of its own without workers, so that only accepting is measured; what is compared takes turns.
"""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from http import HTTPStatus
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
ROUNDS, ROUND_SECONDS = 1, 2.0
BESIDE = ("/healthz", "/v1/chats?limit=1")
WORST_CLIENTS, WORST_SECONDS, WORST_MS = (4, 16), 25.0, 100.0
PAUSE = 0.01
AT_LEAST = 0.4
"""Of the bare insert and commit: what an HTTP API may cost."""
WORST_CHAT = "bench:worst"


def measure(say: Say) -> Iterator[Figure]:
    """Measure all of it, in five minutes. To be called by the main thread."""
    say("starting Postgres, Redis and the HTTP API")
    with deployments.running(only=("api",)) as deployment, senders.clients(max(CLIENTS)) as clients:
        yield from _beside_bare(deployment, clients, say)
        yield from _beside_worst(clients, deployment.api, say)


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


def _beside_worst(clients: ProcessPoolExecutor, to: To, say: Say) -> Iterator[Figure]:
    """Measure `/healthz` and a route with a key while clients send the worst of all routes."""
    next(senders.posts(to, WORST_CHAT, 0, 500))
    for is_open, count in itertools.product((True, False), WORST_CLIENTS):
        sent = f"{count} x the worst of {'open routes' if is_open else 'routes with a key'}"
        say(f"beside {sent}")
        sending = clients.submit(worst.send, to, count, WORST_SECONDS, is_open=is_open)
        took: dict[str, list[float]] = {path: [0.0] for path in BESIDE}
        while not sending.done():
            for path in BESIDE:
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
