"""What a context costs one asker and eight, here and in another checkout, in turns: time, statements, throughput.

Each checkout has a process of its own (`asker`) with a database of its own, filled with the same talk in English
through the shipped path, and an HTTP API of two processes. One asker calls `build_context` in that process; askers over
HTTP are client processes that share no interpreter.
"""

import json
import multiprocessing
import os
import random
import secrets
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from subprocess import PIPE, Popen
from typing import Any, Self

from ops.dev.bench import english, senders
from ops.dev.bench.figures import Figure, spread
from ops.dev.bench.senders import Request
from ops.dev.bench.talk import EMBEDDED_UP_TO
from ops.dev.observe import Say, wait
from ops.local.embedded.ports import free_port
from schemas.errors import ApiUnavailable, InvalidInput

ROOT = Path(__file__).parents[3]
# The first questions warm caches and prepare statements.
WARM_UP = 12
MOST_STATEMENTS = 9
"""Of one context, beside BEGIN and COMMIT."""
LEAST_GAIN = 1.7
"""Contexts that many askers get in a second, beside one asker, on two cores."""
CORES = 2
ROUNDS, ROUND_SECONDS, LEAD_SECONDS = 3, 5.0, 0.5
_STARTS_WITHIN = 120.0

Costs = dict[str, list[dict[str, float]]]
"""By checkout what each context cost, as `asker` measures it."""
Rates = dict[str, dict[int, list[float]]]
"""By checkout and number of askers the seconds of each context over HTTP."""


class Checkout:
    """A process of `asker` in the environment of a checkout."""

    def __init__(self, name: str, root: Path, log: Path) -> None:
        self.name = name
        python = root / ".venv" / "bin" / "python"
        own = str(python) if root != ROOT and python.exists() else sys.executable
        command = [own, str(root / "ops" / "dev" / "bench" / "asker.py")]
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        self._log = log.open("wb")
        self._process = Popen(
            command, cwd=root, env=environment, stdin=PIPE, stdout=PIPE, stderr=self._log, text=True
        )
        self.port, self.key = free_port(), secrets.token_urlsafe(16)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # the end of its input is the end of its work
        try:
            self._process.communicate(timeout=60)
        finally:
            self._process.kill()
            self._log.close()

    def tell(self, do: str, **given: Any) -> None:
        """Say what to do, without waiting for it."""
        try:
            self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError as error:
            raise self._ended() from error

    def hear(self) -> Any:
        """Wait for the answer to what was told first. Raises `ApiUnavailable` if the process ended."""
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise self._ended()
        return json.loads(line)

    def do(self, do: str, **given: Any) -> Any:
        """Say what to do and wait for the answer."""
        self.tell(do, **given)
        return self.hear()

    def _ended(self) -> ApiUnavailable:
        tail = Path(str(self._log.name)).read_text(errors="replace").strip().splitlines()[-3:]
        return ApiUnavailable(f"{self.name}: the process ended: {' '.join(tail)}")


def checkouts(against: Path | None) -> dict[str, Path]:
    """Return the checkouts that are measured, by the names of their figures. Raises `InvalidInput`."""
    if against is None:
        return {"after": ROOT}
    root = against.resolve()
    if not (root / "ops/dev/bench/asker.py").is_file() or not (root / ".venv").is_dir():
        raise InvalidInput(
            f"--against {against}: there is no checkout of Backscroll with its environment `.venv`",
            field="against",
        )
    return {"before": root, "after": ROOT}


def measure(
    *, messages: int, chats: int, questions: int, askers: int, against: Path | None, say: Say
) -> list[Figure]:
    """Fill and ask every checkout; nothing is kept. To be called by the main thread."""
    found = checkouts(against)
    context = multiprocessing.get_context("spawn")
    with (
        ExitStack() as stack,
        tempfile.TemporaryDirectory(prefix="backscroll-askers-") as folder,
        ProcessPoolExecutor(askers, mp_context=context) as clients,
    ):
        running = [
            stack.enter_context(Checkout(name, root, Path(folder) / f"{name}.log"))
            for name, root in found.items()
        ]
        for chat in range(chats):
            say(f"filling chat {chat + 1} of {chats}")
            talk = [message.model_dump(mode="json") for message in english.talk(chat, messages // chats)]
            for each in running:
                each.tell("fill", chat=f"bench:{chat}", messages=talk, by_words=messages > EMBEDDED_UP_TO)
            for each in running:
                each.hear()
        for each in running:
            each.do("ready")
        say("one asker")
        asked = _one_asker(running, chats, questions)
        say(f"one asker and {askers} over HTTP")
        rates = _over_http(running, clients, chats, askers)
    return figures(messages, chats, asked, rates, askers)


def _one_asker(running: Sequence[Checkout], chats: int, questions: int) -> Costs:
    """Ask each question of every checkout, one after the other, the first one in turns."""
    rng = random.Random(1)  # noqa: S311
    asked: Costs = defaultdict(list)
    for number in range(questions + WARM_UP):
        given = {"chat": f"bench:{rng.randrange(chats)}", "query": english.question(rng)}
        for each in running if number % 2 else reversed(running):
            cost = each.do("ask", **given)
            if number >= WARM_UP:
                asked[each.name].append(cost)
    return asked


def contexts(chats: int, seed: int) -> Iterator[Request]:
    """Ever new questions."""
    rng = random.Random(seed)  # noqa: S311
    while True:
        chat = f"bench:{rng.randrange(chats)}"
        given = {"chat_id": chat, "query": english.question(rng), "budget_tokens": 2000}
        yield "POST", "/v1/context", json.dumps(given)


def _over_http(running: Sequence[Checkout], clients: ProcessPoolExecutor, chats: int, askers: int) -> Rates:
    """Ask over HTTP, one asker and then several, in turns."""
    rates: Rates = {each.name: {1: [], askers: []} for each in running}
    for each in running:
        each.do("serve", port=each.port, key=each.key)
        if wait(lambda each=each: _answers(each.port), _STARTS_WITHIN, pause=0.5) is None:  # type: ignore[misc]
            raise ApiUnavailable(f"{each.name}: the HTTP API does not answer")

    def ask(each: Checkout, count: int, seed: int) -> list[float]:
        when = (time.time() + LEAD_SECONDS, ROUND_SECONDS)
        asking = [
            clients.submit(senders.send_for, each.port, each.key, contexts, (chats, seed + n), *when)
            for n in range(count)
        ]
        return [seconds for one in asking for seconds in one.result()]

    for number in range(-1, ROUNDS):
        for each in running:
            for count in (askers, 1):
                took = ask(each, count, 1000 * (number + 2))
                # the first round warms up
                if number >= 0:
                    rates[each.name][count] += took
    return rates


def _answers(port: int) -> bool:
    try:
        senders.send_all(port, "", [("GET", "/healthz", None)])
    except OSError:
        return False
    return True


def p95_limit_ms(messages: int, chats: int) -> float:
    """Return the most that 95 of 100 contexts may take: 30 ms where a chat has up to 2,000 messages, else 150 ms."""
    return 30.0 if messages <= 2000 * chats else 150.0


def figures(messages: int, chats: int, asked: Costs, rates: Rates, askers: int) -> list[Figure]:
    """Return what was measured; only this checkout, `after`, is judged."""
    found: list[Figure] = []
    for name, costs in asked.items():
        judged = name == "after"
        limit, most = (p95_limit_ms(messages, chats), MOST_STATEMENTS) if judged else (None, None)
        statements = [cost["statements"] for cost in costs]
        one, many = rates[name][1], rates[name][askers]
        enough = judged and len(os.sched_getaffinity(0)) >= CORES
        gain = {"ratio": len(many) / max(len(one), 1), "least": LEAST_GAIN if enough else None}
        seconds = ROUNDS * ROUND_SECONDS
        found += [
            *spread(f"{name}: context", [cost["ms"] for cost in costs], most=limit),
            Figure(f"{name}: its process's own time", median(cost["cpu_ms"] for cost in costs), "ms"),
            Figure(f"{name}: statements, median", median(statements), most=most),
            Figure(f"{name}: statements, most", max(statements), most=most),
            Figure(f"{name}: one asker over HTTP", len(one) / seconds, "contexts/s"),
            Figure(f"{name}: {askers} askers over HTTP", len(many) / seconds, "contexts/s", **gain),
            *spread(f"{name}: {askers} askers over HTTP", [1000 * each for each in many]),
        ]
    return found
