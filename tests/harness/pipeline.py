"""Steps of the pipeline, done at once instead of by workers."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.protocols import Embedder
from pipeline.enrich import embed
from pipeline.enrich.facts.kept_on_request import RequestExtractor
from pipeline.enrich.summaries import summarize
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.erasure import forget
from pipeline.ingest import accept
from pipeline.ingest.place import placer
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler, Policy
from pipeline.memories.learn import Learning, learner
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.vectors import Vector
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.waiting import rounds

CHAT = ChatIn(chat_id="test:1", title="One")


def run(database: Database, kind: str, handler: Handler, policy: Policy = POLICY) -> int:
    """Do everything of a kind that is due; how many rows."""
    done = 0
    for _ in rounds(f"no {kind} is due"):
        outcome = runner.run(database, kind, handler, policy)
        if not outcome.claimed:
            break
        done += outcome.finished
    return done


def place(database: Database, rules: SessionPolicy = SESSION_POLICY, policy: Policy = POLICY) -> None:
    run(database, "ingest", placer(database, rules), policy)


def summarizer(database: Database, version: int = 1, client: object = None) -> Handler:
    policy = SummaryPolicy(min_messages=4, version=version)
    return summarize.summarizer(database, client or ExtractiveSummarizer(), policy)  # type: ignore[arg-type]


def embed_all(database: Database, client: Embedder | None = None, policy: Policy = POLICY) -> int:
    return run(database, "embed", embed.embedder(database, client or DeterministicEmbedder()), policy)


def learns(database: Database) -> Handler:
    rules = RequestExtractor()
    return learner(database, Learning(extractor=rules, rules=rules))


def forget_all(database: Database) -> None:
    """Do what was asked to be forgotten, and moved."""
    run(database, "forget", forget.forgetter(database, SESSION_POLICY))


def rows(database: Database, statement: str, **values: object) -> list[tuple[Any, ...]]:
    """What a statement returns, if anything."""
    with database.tenant(TENANT) as connection:
        result = connection.execute(text(statement), values)
        return [tuple(row) for row in result] if result.returns_rows else []


def work(database: Database) -> None:
    place(database)
    run(database, "summarize", summarizer(database))
    # what is learned is embedded, and then compared with what is known
    for _ in range(2):
        run(database, "extract", learns(database))
        embed_all(database)


def current(rules: SessionPolicy, version: int = 1) -> Current:
    return Current(rules=rules, summary_version=version, min_messages=4)


def look(database: Database, now: Current, policy: Policy) -> int:
    """Let a worker look at a backfill once; how many it claimed."""
    with database.maintenance() as connection:
        connection.execute(
            text("UPDATE jobs SET due_at = now() WHERE due_at IS NOT NULL AND claimed IS NULL")
        )
    return runner.run(database, "backfill", backfill.backfiller(database, now), policy).claimed


class Meanwhile(DeterministicEmbedder):
    """Lets something happen while it works, once."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.act = act

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        act, self.act = self.act, lambda: None
        act()
        return super().embed_documents(texts)


def speaks(database: Database, tenant: str, chat: ChatIn, sender: str, content: str, minute: int = 0) -> int:
    said = message(minute, content, id=f"{sender}-{minute}", sender_id=sender, sender_name="Ann Ambler")
    return accept.accept(database, tenant, chat, [said]).new


def say(database: Database, *contents: str) -> None:
    """Messages of these contents that are placed and owed their vectors."""
    said = [message(n / 10, content, id=f"m{n}") for n, content in enumerate(contents)]
    accept.accept(database, TENANT, CHAT, said)
    place(database)
