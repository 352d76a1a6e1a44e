"""Steps of the pipeline, done at once instead of by workers."""

from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.protocols import Embedder
from pipeline.enrich import embed
from pipeline.enrich.facts.kept_on_request import RequestExtractor
from pipeline.enrich.summaries import summarize
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.ingest.place import placer
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler, Policy
from pipeline.memories.learn import Learning, learner
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.conftest import POLICY, SESSION_POLICY, TENANT
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


def rows(database: Database, statement: str) -> list[tuple[object, ...]]:
    with database.tenant(TENANT) as connection:
        return [tuple(row) for row in connection.execute(text(statement))]
