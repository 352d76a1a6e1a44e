"""Accepting and contexts over HTTP: how many in a second, and how long each takes.

On a durable deployment of its own without workers, so that only accepting is measured; what is compared takes turns.

Askers are client processes that share no interpreter; the HTTP API is the shipped one, of two processes, on a database
filled with talk in English through the shipped path.
"""

import itertools
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from statistics import median

import psycopg

from ops.dev import shipped
from ops.dev.bench import senders, talk
from ops.dev.bench.senders import Calls, To
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import API_TENANT, Deployment
from ops.dev.figures import Figure, Say, spread, timed
from pipeline.clients.factory import make_embedder
from schemas.settings import Settings

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
    with deployments.running(only=("api",)) as deployment, senders.start_clients(max(CLIENTS)) as clients:
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
        made = [senders.in_parallel(clients, calls, ACCEPTING_SECONDS) for calls in (bare, over_http)]
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
    next(senders.posts(to, WORST_CHAT, 0, 500))
    for is_open, count in itertools.product((True, False), WORST_CLIENTS):
        sent = f"{count} x the worst of {'open routes' if is_open else 'routes with a key'}"
        say(f"beside {sent}")
        sending = clients.submit(senders.send, to, count, WORST_SECONDS, is_open=is_open)
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
        with senders.start_clients(ASKERS) as clients:
            for number, (count, of_all) in itertools.product(range(-1, CONTEXT_ROUNDS), took.items()):
                seeds = range(1000 * (number + 2), 1000 * (number + 2) + count)
                calls: list[Calls] = [(_contexts, (deployment.api, chats, seed)) for seed in seeds]
                times = senders.in_parallel(clients, calls, CONTEXT_SECONDS)
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
    return senders.asked(to, "/v1/context", queries)
