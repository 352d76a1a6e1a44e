"""What a context costs one asker and eight: time, statements and throughput.

One asker calls `build_context` in this process, on a database filled with talk in English through the shipped path.
Askers over HTTP are client processes that share no interpreter; the HTTP API is the shipped one, of two processes.
"""

import gc
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from sqlalchemy import event
from sqlalchemy.engine import Engine

from ops.dev import shipped
from ops.dev.bench import senders, talk
from ops.dev.bench.senders import Request
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import API_TENANT
from ops.dev.figures import Figure, spread
from ops.dev.observe import Say, timed
from ops.dev.shipped import Shipped
from pipeline.clients.factory import make_embedder
from pipeline.store.connections import trips
from schemas.settings import Settings

BUDGET, USER = 2000, f"bench:{talk.ENGLISH_PEOPLE[0]}"
# The first questions warm caches and prepare statements.
WARM_UP = 12
MOST_STATEMENTS = 9
"""Of one context, beside BEGIN and COMMIT."""
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
        return [*figures, *_over_http((deployment.port, deployment.key), chats, askers)]


def p95_limit_ms(messages: int, chats: int) -> float:
    """Return the most that 95 of 100 contexts may take: 30 ms where a chat has up to 2,000 messages, else 150 ms."""
    return 30.0 if messages <= 2000 * chats else 150.0


def _one_asker(backscroll: Shipped, messages: int, chats: int, questions: int) -> list[Figure]:
    """Ask one question after the other; no answer can be cached."""
    rng = random.Random(1)  # noqa: S311
    ask = partial(backscroll.ask, explain=False, include_history=True, user_id=USER)
    times, cpu, counts = [], [], []
    with _counted() as statements:
        for _ in range(questions + WARM_UP):
            chat, question = f"bench:{rng.randrange(chats)}", talk.english_question(rng)
            before, began = statements(), time.process_time()
            times.append(timed(ask, chat, question, BUDGET)[0])
            cpu.append(1000 * (time.process_time() - began))
            counts.append(statements() - before)
    return [
        *spread("context", times[WARM_UP:], most=p95_limit_ms(messages, chats)),
        spread("its process's own time", cpu[WARM_UP:])[0],
        Figure("statements, most", max(counts[WARM_UP:]), most=MOST_STATEMENTS),
    ]


@contextmanager
def _counted() -> Iterator[Callable[[], int]]:
    """Count statements; yields what tells how many there were, of SQLAlchemy and of the trips that go past it."""
    seen = 0

    def note(statements: int = 1) -> None:
        nonlocal seen
        seen += statements

    def note_one(*_: object) -> None:
        note()

    def note_trip(send: Callable[..., object], *arguments: object) -> object:
        # the statements of a trip are its last argument
        note(len(arguments[-1]) if isinstance(arguments[-1], list) else 1)
        return send(*arguments)

    originals = {name: getattr(trips, name) for name in ("begin", "send") if hasattr(trips, name)}
    event.listen(Engine, "before_cursor_execute", note_one)
    vars(trips).update({name: partial(note_trip, send) for name, send in originals.items()})
    try:
        yield lambda: seen
    finally:
        event.remove(Engine, "before_cursor_execute", note_one)
        vars(trips).update(originals)


def _contexts(chats: int, seed: int) -> Iterator[Request]:
    """Yield ever new questions."""
    rng = random.Random(seed)  # noqa: S311
    while True:
        chat = f"bench:{rng.randrange(chats)}"
        query = {"chat_id": chat, "query": talk.english_question(rng), "budget_tokens": BUDGET}
        yield "POST", "/v1/context", json.dumps(query)


def _over_http(to: tuple[int, str], chats: int, askers: int) -> list[Figure]:
    """Ask over HTTP, one asker and then several, in turns."""
    took: dict[int, list[float]] = {1: [], askers: []}
    with senders.clients(askers) as clients:
        for number in range(-1, ROUNDS):
            for count, of_all in took.items():
                calls = [(_contexts, (chats, 1000 * (number + 2) + n)) for n in range(count)]
                times = senders.in_parallel(clients, to, calls, ROUND_SECONDS)
                # the first round warms up
                of_all += times if number >= 0 else []
    alone, many = took.values()
    seconds = ROUNDS * ROUND_SECONDS
    least = LEAST_GAIN if len(os.sched_getaffinity(0)) >= CORES else None
    gain = len(many) / max(len(alone), 1)
    return [
        Figure("one asker over HTTP", len(alone) / seconds, "contexts/s"),
        Figure(f"{askers} askers over HTTP", len(many) / seconds, "contexts/s", ratio=gain, least=least),
        *spread(f"{askers} askers over HTTP", [1000 * duration for duration in many]),
    ]
