"""How long it takes to forget one of many users, verified, and what must then be summarized again."""

import random
import time
from collections.abc import Mapping
from typing import Any

from rich.table import Table
from sqlalchemy import text

from ops.dev import shipped
from ops.dev.bench.talk import VOCABULARY, conversation, question_words
from ops.dev.observe import Say, timed
from ops.dev.shipped import Shipped
from pipeline.context import query_log
from pipeline.erasure import forget
from pipeline.memories.statements import remember
from schemas.forgetting import Receipt, Subject
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.querylog import AnswerIn
from schemas.settings import Settings

IN_SESSION = 5
"""People who talk in one session, of all who are in the chat."""
ROUNDS = 40
"""Contexts timed each way; the median counts."""


def measure(
    settings: Settings, *, messages: int, users: int, chats: int, queries: int, progress: Say
) -> dict[str, Any]:
    """Fill a fresh database, ask it, forget one user; what `--json` prints. Bounded by its arguments."""
    people = [f"User{number}" for number in range(users)]
    with shipped.temporary(settings) as backscroll:
        started = time.monotonic()
        for chat in range(chats):
            given = list(conversation(chat, messages // chats, people, min(IN_SESSION, users)))
            backscroll.fill(ChatIn(chat_id=f"bench:{chat}", title=f"Bench {chat}"), given, progress)
        fill_seconds = time.monotonic() - started
        progress("asking")
        _ask(backscroll, people, chats=chats, queries=queries)
        backscroll.vacuum()
        logged, unlogged = _contexts(backscroll, people[0], chats)
        progress("forgetting")
        forget_ms, receipt = timed(_forget, backscroll, people[1])
        progress("summarizing again")
        again_ms, again = timed(_again, backscroll)
        return {
            "messages": messages,
            "users": users,
            "chats": chats,
            # contexts served, each third with an answer that became a memory
            "queries": queries,
            # accepted, placed, summarized and embedded, by one process
            "fill_seconds": round(fill_seconds, 1),
            # of the receipt
            "counts": receipt.counts,
            # until the receipt was finished, its verification included
            "forget_seconds": round(forget_ms / 1000, 2),
            # summaries and vectors made again, and sessions whose summary is new
            "again_seconds": round(again_ms / 1000, 2),
            "summarized_again": again,
            # medians, in turns
            "context_ms": logged,
            "context_without_log_ms": unlogged,
        }


def _ask(backscroll: Shipped, people: list[str], *, chats: int, queries: int) -> None:
    """Let users ask what they may have said; each third answer becomes a memory."""
    rng = random.Random(2)  # noqa: S311
    for number, user in enumerate(people):
        known = MemoryIn(scope="user", user_id=f"bench:{user}", content=f"likes {VOCABULARY[number]}")
        remember(backscroll.database, backscroll.tenant, known)
    for number in range(queries):
        context_id = _context(backscroll, rng, chats, rng.choice(people), backscroll.settings)
        if number % 3 == 0:
            said = AnswerIn(answer=" ".join(rng.sample(VOCABULARY, 12)), remember=True)
            query_log.report(backscroll.database, backscroll.tenant, context_id, said, backscroll.settings)


def _context(backscroll: Shipped, rng: random.Random, chats: int, user: str, settings: Settings) -> str:
    query = ContextQuery(
        chat_id=f"bench:{rng.randrange(chats)}", query=f"{question_words(rng)}?", user_id=f"bench:{user}"
    )
    return backscroll.context(query, settings).context_id


def _contexts(backscroll: Shipped, user: str, chats: int) -> tuple[float, float]:
    """Median times of contexts with the query log and without it, in milliseconds, taken in turns."""
    quiet = backscroll.settings.model_copy(update={"query_log_enabled": False})
    took: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * ROUNDS):
        logged = turn % 2 == 0
        # the same question with and without
        rng = random.Random(turn // 2)  # noqa: S311
        ms, _ = timed(_context, backscroll, rng, chats, user, backscroll.settings if logged else quiet)
        took[logged].append(ms)
    with_log, without = (sorted(took[each])[ROUNDS // 2] for each in (True, False))
    return round(with_log, 1), round(without, 1)


def _forget(backscroll: Shipped, user: str) -> Receipt:
    database, tenant = backscroll.database, backscroll.tenant
    receipt = forget.start(database, tenant, Subject(kind="user", sender_id=f"bench:{user}"))
    while receipt.finished_at is None:
        backscroll.run("forget")
        receipt = forget.get(database, tenant, receipt.id)
    return receipt


def _again(backscroll: Shipped) -> int:
    """Do what forgetting left to be done; how many sessions have a new summary."""
    with backscroll.database.tenant(backscroll.tenant) as connection:
        before = connection.execute(text("SELECT now()")).scalar_one()
    backscroll.run_all("summarize", "embed")
    statement = text("SELECT count(*) FROM conversation_sessions WHERE summary_created_at >= :before")
    with backscroll.database.tenant(backscroll.tenant) as connection:
        return int(connection.execute(statement, {"before": before}).scalar_one())


def as_table(found: Mapping[str, Any]) -> Table:
    """The figures for people."""
    title = f"{found['messages']:,} messages of {found['users']} users, {found['chats']} chats"
    table = Table(title=title, show_header=False)
    for name, value in {
        "forgotten, verified": f"{found['forget_seconds']} s",
        **{f"  {what.replace('_', ' ')}": str(count) for what, count in found["counts"].items()},
        "summarized and embedded again": f"{found['summarized_again']} sessions, {found['again_seconds']} s",
        "context with query log / without": f"{found['context_ms']} / {found['context_without_log_ms']} ms",
        "filled in": f"{found['fill_seconds']} s",
    }.items():
        table.add_row(name, value)
    return table
