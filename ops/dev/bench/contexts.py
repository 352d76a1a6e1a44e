"""How many contexts one asker and eight get over HTTP, and how long each takes.

Askers are client processes that share no interpreter; the HTTP API is the shipped one, of two processes, on a database
filled with talk in English through the shipped path.
"""

import itertools
import os
import random
from collections.abc import Iterator

from ops.dev import shipped
from ops.dev.bench import senders, talk
from ops.dev.bench.senders import Calls, To
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import API_TENANT
from ops.dev.figures import Figure, spread
from ops.dev.observe import Say
from pipeline.clients.factory import make_embedder
from schemas.settings import Settings

BUDGET = 2000
ASKERS = 8
"""Beside one."""
LEAST_GAIN, CORES = 1.7, 2
"""Contexts that many askers get in a second, beside one asker, on two cores."""
ROUNDS, ROUND_SECONDS = 3, 5.0


def measure(settings: Settings, messages: int, chats: int, say: Say) -> list[Figure]:
    """Fill a database, and ask one asker and then several, in turns. To be called by the main thread."""
    say("starting Postgres and the HTTP API")
    space = make_embedder(settings).space
    took: dict[int, list[float]] = {1: [], ASKERS: []}
    with deployments.running(only=("api",), space=space, durable=False) as deployment:
        ours = settings.model_copy(update={"tenant": API_TENANT})
        with shipped.on(deployment.postgres, ours) as backscroll:
            backscroll.fill_chats(talk.english, messages, chats, say)
        say(f"one asker and {ASKERS}")
        with senders.clients(ASKERS) as clients:
            for number, (count, of_all) in itertools.product(range(-1, ROUNDS), took.items()):
                seeds = range(1000 * (number + 2), 1000 * (number + 2) + count)
                calls: list[Calls] = [(_contexts, (deployment.api, chats, seed)) for seed in seeds]
                times = senders.in_parallel(clients, calls, ROUND_SECONDS)
                # the first round warms up
                of_all += times if number >= 0 else []
    alone, many = took.values()
    least = LEAST_GAIN if len(os.sched_getaffinity(0)) >= CORES else None
    rates = [len(times) / ROUNDS / ROUND_SECONDS for times in (alone, many)]
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
