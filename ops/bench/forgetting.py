"""How long it takes to forget one of many users, verified, and what must then be summarized again."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from rich.table import Table
from sqlalchemy import text

from ops.bench.talk import START, VOCABULARY
from ops.eval import shipped
from ops.eval.shipped import Shipped
from pipeline.context import build_context, query_log
from pipeline.erasure import forget
from pipeline.ingest.policy import Rules
from pipeline.jobs import runner
from pipeline.memories.statements import remember
from pipeline.store.database import Database
from schemas.forgetting import Receipt, Subject
from schemas.memories import MemoryIn
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.querylog import AnswerIn
from schemas.settings import Settings

IN_SESSION = 5
"""People who talk in one session, of all who are in the chat."""
ROUNDS = 40
"""Contexts timed each way; the median counts."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a run found. Times in seconds, but for contexts."""

    messages: int
    users: int
    chats: int
    # contexts served, each third with an answer that became a memory
    queries: int
    # accepted, placed, summarized and embedded, by one process
    fill_seconds: float
    # what the receipt counts
    counts: dict[str, int]
    # from the command to the finished receipt, its verification included
    forget_seconds: float
    # summaries and vectors made again, and sessions whose summary is new
    again_seconds: float
    summarized_again: int
    # medians of contexts with and without the query log, in turns, milliseconds
    context_ms: float
    context_without_log_ms: float


def conversation(seed: int, messages: int, users: int) -> Iterator[MessageIn]:
    """Sessions of about twenty messages, a few of all the users in each."""
    rng = random.Random(seed)  # noqa: S311
    weights = [1 / rank for rank in range(1, len(VOCABULARY) + 1)]
    at, talking = START, rng.sample(range(users), min(IN_SESSION, users))
    for number in range(messages):
        at += timedelta(seconds=rng.uniform(5, 240))
        if rng.random() < 0.05:
            at += timedelta(hours=rng.uniform(1, 30))
            talking = rng.sample(range(users), min(IN_SESSION, users))
        words = rng.choices(VOCABULARY, weights, k=min(40, 3 + int(rng.expovariate(0.12))))
        user = rng.choice(talking)
        yield MessageIn(
            external_id=f"f{number}",
            sender_id=f"bench:{user}",
            sender_name=f"User{user}",
            content=" ".join(words),
            sent_at=at,
        )


def measure(
    settings: Settings,
    *,
    messages: int,
    users: int,
    chats: int,
    queries: int,
    progress: Callable[[str], None],
) -> Measured:
    """Fill a fresh database, ask it, forget one user. Bounded by its arguments; nothing is kept."""
    with shipped.temporary(settings) as backscroll:
        started = time.monotonic()
        for chat in range(chats):
            given = list(conversation(chat, messages // chats, users))
            backscroll.fill(ChatIn(chat_id=f"bench:{chat}", title=f"Bench {chat}"), given, progress)
        fill_seconds = time.monotonic() - started
        progress("asking")
        _ask(backscroll, users=users, chats=chats, queries=queries)
        backscroll.vacuum()
        logged, unlogged = _contexts(backscroll, chats)
        progress("forgetting")
        started = time.monotonic()
        receipt = _forget(backscroll)
        forget_seconds = time.monotonic() - started
        progress("summarizing again")
        started = time.monotonic()
        again = _again(backscroll)
        return Measured(
            messages=messages,
            users=users,
            chats=chats,
            queries=queries,
            fill_seconds=round(fill_seconds, 1),
            counts=receipt.counts,
            forget_seconds=round(forget_seconds, 2),
            again_seconds=round(time.monotonic() - started, 2),
            summarized_again=again,
            context_ms=logged,
            context_without_log_ms=unlogged,
        )


def _ask(backscroll: Shipped, *, users: int, chats: int, queries: int) -> None:
    """Let users ask what they may have said; each third answer becomes a memory."""
    rng = random.Random(2)  # noqa: S311
    database, tenant = backscroll.resources.database, backscroll.settings.tenant
    for user in range(users):
        known = MemoryIn(scope="user", user_id=f"bench:{user}", content=f"likes {VOCABULARY[user]}")
        remember(database, tenant, known)
    for number in range(queries):
        context_id = _context(backscroll, rng, chats, f"bench:{rng.randrange(users)}", backscroll.settings)
        if number % 3 == 0:
            said = AnswerIn(answer=" ".join(rng.sample(VOCABULARY, 12)), remember=True)
            query_log.report(database, tenant, context_id, said, backscroll.settings)


def _context(backscroll: Shipped, rng: random.Random, chats: int, user: str, settings: Settings) -> str:
    query = ContextQuery(
        chat_id=f"bench:{rng.randrange(chats)}",
        query=" ".join(rng.sample(VOCABULARY[30:1500], 5)) + "?",
        user_id=user,
    )
    database, embedder = backscroll.resources.database, backscroll.resources.embedder
    context = build_context(database, settings.tenant, query, embedder=embedder, settings=settings)
    return context.context_id


def _contexts(backscroll: Shipped, chats: int) -> tuple[float, float]:
    """Median times of contexts with the query log and without it, in milliseconds, taken in turns."""
    quiet = backscroll.settings.model_copy(update={"query_log_enabled": False})
    took: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * ROUNDS):
        logged = turn % 2 == 0
        # the same question with and without
        rng = random.Random(turn // 2)  # noqa: S311
        started = time.monotonic()
        _context(backscroll, rng, chats, "bench:0", backscroll.settings if logged else quiet)
        took[logged].append((time.monotonic() - started) * 1000)
    with_log, without = (sorted(took[each])[ROUNDS // 2] for each in (True, False))
    return round(with_log, 1), round(without, 1)


def _forget(backscroll: Shipped) -> Receipt:
    resources = backscroll.resources
    database, tenant = resources.database, backscroll.settings.tenant
    receipt = forget.start(database, tenant, Subject(kind="user", sender_id="bench:1"))
    handler = forget.forgetter(database, Rules.of(backscroll.settings))
    while receipt.finished_at is None:
        runner.run(database, "forget", handler, resources.policy("forget"))
        receipt = forget.get(database, tenant, receipt.id)
    return receipt


def _again(backscroll: Shipped) -> int:
    """Do what forgetting left owed; how many sessions have a new summary."""
    resources = backscroll.resources
    before = _clock(resources.database, backscroll.settings.tenant)
    for kind, handler in (("summarize", resources.summarizer), ("embed", resources.embed)):
        while runner.run(resources.database, kind, handler, resources.policy(kind)).claimed:
            pass
    with resources.database.tenant(backscroll.settings.tenant) as connection:
        return int(
            connection.execute(
                text("SELECT count(*) FROM conversation_sessions WHERE summary_created_at >= :before"),
                {"before": before},
            ).scalar_one()
        )


def _clock(database: Database, tenant: str) -> Any:
    with database.tenant(tenant) as connection:
        return connection.execute(text("SELECT now()")).scalar_one()


def as_dict(measured: Measured) -> dict[str, Any]:
    """For `--json`."""
    return asdict(measured)


def as_table(found: Measured) -> Table:
    """For people."""
    title = f"{found.messages:,} messages of {found.users} users, {found.chats} chats"
    table = Table(title=title, show_header=False)
    again = f"{found.summarized_again} sessions, {found.again_seconds} s"
    for name, value in {
        "forgotten, verified": f"{found.forget_seconds} s",
        **{f"  {what.replace('_', ' ')}": str(count) for what, count in found.counts.items()},
        "summarized and embedded again": again,
        "context with query log / without": f"{found.context_ms} / {found.context_without_log_ms} ms",
        "filled in": f"{found.fill_seconds} s",
    }.items():
        table.add_row(name, value)
    return table
