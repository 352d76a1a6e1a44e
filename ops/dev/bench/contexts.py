"""What a context costs one asker and eight: time and throughput.

One asker calls `build_context` in this process, on a database filled with talk in English through the shipped path.
Askers over HTTP are client processes that share no interpreter; the HTTP API is the shipped one, of two processes.
"""

import gc
import itertools
import json
import os
import random
from collections.abc import Iterator

from ops.dev import shipped
from ops.dev.bench import senders, talk
from ops.dev.bench.senders import Call, Request, To
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import API_TENANT
from ops.dev.figures import Figure, spread
from ops.dev.observe import Say, timed
from ops.dev.shipped import Shipped
from pipeline.clients.factory import make_embedder
from schemas.settings import Settings

BUDGET, USER = 2000, f"bench:{talk.ENGLISH_PEOPLE[0]}"
# The first questions warm caches and prepare statements.
WARM_UP = 12
SMALL_CHAT = 2000
"""Messages of a chat up to which the limit is the lower one."""
LEAST_GAIN, CORES = 1.7, 2
"""Contexts that many askers get in a second, beside one asker, on two cores."""
ROUNDS, ROUND_SECONDS = 3, 5.0


def measure(
    settings: Settings, *, messages: int, chats: int, questions: int, askers: int, say: Say
) -> list[Figure]:
    """Fill a database and ask it, alone and over HTTP. To be called by the main thread."""
    say("starting Postgres and the HTTP API")
    space = make_embedder(settings).space
    with (
        deployments.running(only=("api",), space=space, durable=False) as deployment,
        shipped.on(deployment.postgres, settings.model_copy(update={"tenant": API_TENANT})) as backscroll,
    ):
        backscroll.fill_chats(talk.english, messages, chats, say)
        # what filling left in this process is in no process that serves contexts: to walk it takes 0.1 s
        gc.collect()
        gc.freeze()
        say("one asker")
        figures = _one_asker(backscroll, messages, chats, questions)
        say(f"one asker and {askers} over HTTP")
        return [*figures, *_over_http(deployment.api, chats, askers)]


def _one_asker(backscroll: Shipped, messages: int, chats: int, questions: int) -> list[Figure]:
    """Ask one question after the other; no answer can be cached."""
    rng = random.Random(1)  # noqa: S311
    times = []
    for _ in range(questions + WARM_UP):
        chat, question = f"bench:{rng.randrange(chats)}", talk.english_question(rng)
        asked = {"explain": False, "include_history": True, "user_id": USER}
        times.append(timed(backscroll.ask, chat, question, BUDGET, **asked)[0])
    return spread("context", times[WARM_UP:], most=30 if messages <= SMALL_CHAT * chats else 150)


def _contexts(chats: int, seed: int) -> Iterator[Request]:
    """Yield ever new questions."""
    rng = random.Random(seed)  # noqa: S311
    while True:
        chat = f"bench:{rng.randrange(chats)}"
        query = {"chat_id": chat, "query": talk.english_question(rng), "budget_tokens": BUDGET}
        yield "POST", "/v1/context", json.dumps(query)


def _over_http(to: To, chats: int, askers: int) -> list[Figure]:
    """Ask over HTTP, one asker and then several, in turns."""
    took: dict[int, list[float]] = {1: [], askers: []}
    with senders.clients(askers) as clients:
        for number in range(-1, ROUNDS):
            for count, of_all in took.items():
                calls: list[Call] = [(_contexts, (chats, 1000 * (number + 2) + n)) for n in range(count)]
                times = senders.in_parallel(clients, to, calls, ROUND_SECONDS)
                # the first round warms up
                of_all += itertools.chain.from_iterable(times) if number >= 0 else ()
    alone, many = took.values()
    seconds = ROUNDS * ROUND_SECONDS
    least = LEAST_GAIN if len(os.sched_getaffinity(0)) >= CORES else None
    gain = len(many) / max(len(alone), 1)
    return [
        Figure("one asker over HTTP", len(alone) / seconds, "contexts/s"),
        Figure(f"{askers} askers over HTTP", len(many) / seconds, "contexts/s", ratio=gain, least=least),
        *spread(f"{askers} askers over HTTP", [1000 * duration for duration in many]),
    ]
