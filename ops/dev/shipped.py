"""A database of its own, filled and asked through the shipped path: accept, place, summarize, embed, context."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import NullPool, create_engine

from ops.dev.observe import Say
from ops.local import migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.roles import DATABASE
from pipeline.clients.factory import make_embedder
from pipeline.erasure import edits
from pipeline.ingest import accept as ingest
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler
from pipeline.operations.doctor import collect, mend
from pipeline.recall import build_context
from schemas.context import Context
from schemas.messages import MAX_BATCH, ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from workers.resources import Resources

DERIVED = ("summarize", "extract", "embed")
"""Kinds of jobs that follow placing."""


class Shipped:
    """A Backscroll without queues: what the workers' handlers do, one after the other in this process."""

    def __init__(self, resources: Resources, server: EmbeddedPostgres) -> None:
        self.resources = resources
        self.server = server
        self.settings = resources.settings
        self.database = resources.database
        self.tenant = resources.settings.tenant
        # in the place of the resources' own, by kind
        self.handlers: dict[str, Handler] = {}

    def superuser(self) -> psycopg.Connection:
        """Connect as the role that sees every tenant; each statement commits."""
        return psycopg.connect(self.server.superuser_dsn(DATABASE), autocommit=True)

    def accept(self, chat: ChatIn, messages: Sequence[MessageIn]) -> None:
        """Hand messages of a chat over, as many at once as one request may hold."""
        for start in range(0, len(messages), MAX_BATCH):
            ingest.accept(self.database, self.tenant, chat, messages[start : start + MAX_BATCH])

    def run(self, kind: str) -> runner.Outcome:
        """Do one batch of a kind of jobs."""
        handler = self.handlers.get(kind) or self.resources.handler(kind)
        return runner.run(self.database, kind, handler, self.resources.policy(kind))

    def run_all(self, *kinds: str) -> None:
        """Do all work of these kinds, one kind after the other."""
        for kind in kinds:
            while self.run(kind).claimed:
                pass

    def fill(
        self, chat: ChatIn, messages: Sequence[MessageIn], progress: Say, *, derived: Sequence[str] = DERIVED
    ) -> None:
        """Bring a conversation in: place it, and do these kinds of jobs that follow."""
        self.accept(chat, messages)
        for kind in ("ingest", *derived):
            progress(f"{chat.chat_id}: {kind}")
            self.run_all(kind)

    def vacuum(self) -> None:
        """Do what autovacuum does within a minute: the planner's statistics, and pages marked as all visible."""
        with self.superuser() as connection:
            connection.execute("VACUUM ANALYZE")

    def index(self) -> None:
        """Build the index of vectors if a chat is large enough for it, as `backscroll doctor --fix` does."""
        found = collect.embedding(
            self.database, self.resources.embedder.space, [self.tenant], None, everybody=True
        )
        url = self.server.dsn("owner").replace("postgresql://", "postgresql+psycopg://")
        engine = create_engine(url, poolclass=NullPool)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for _ in mend.mend_indexes(connection, found.missing_indexes if found else (), ()):
                pass

    def ask(
        self, chat_id: str, question: str, budget: int, *, words_only: bool = False, **options: Any
    ) -> Context:
        """Build the context for a question, explained, by default one asked later than recent messages count.

        With `words_only` nothing embeds the question.
        """
        given = {"chat_id": chat_id, "query": question, "budget_tokens": budget}
        query = ContextQuery.model_validate({**given, "include_history": False, "explain": True, **options})
        embedder = None if words_only else self.resources.embedder
        return build_context(self.database, self.tenant, query, embedder=embedder, settings=self.settings)

    @contextmanager
    def put(self, chat: ChatIn, message: MessageIn, *, derived: Sequence[str] = DERIVED) -> Iterator[None]:
        """Hold a message in a chat while the body runs: a question that was just put to a bot.

        It is placed and embedded, its session is not yet summarized anew. Afterwards it is deleted. Of the jobs that
        follow, those in `derived` are done, except for learning: nothing was learned from it.
        """
        self.accept(chat, [message])
        self.run_all("ingest", *(kind for kind in derived if kind == "embed"))
        try:
            yield
        finally:
            rules = self.resources.rules
            edits.delete(self.database, self.tenant, chat.chat_id, message.external_id, rules)
            self.run_all("ingest", *(kind for kind in derived if kind != "extract"))


@contextmanager
def temporary(settings: Settings | None = None, *, durable: bool = False) -> Iterator[Shipped]:
    """Start an embedded Postgres in a temporary folder; it does not wait for the disk unless it is `durable`.

    The settings are by default the default ones, with an embedder that costs nothing.
    """
    settings = settings or Settings(_env_file=None, embedding_provider="deterministic")
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-dev-") as folder,
        EmbeddedPostgres(Path(folder), durable=durable) as server,
    ):
        migrate.upgrade(server.dsn("owner"), make_embedder(settings).space)
        ours = {
            "database_url": server.dsn("app"),
            "maintenance_database_url": server.dsn("maintenance"),
            "summarize_debounce_seconds": 0,
        }
        resources = Resources(Settings.model_validate({**settings.model_dump(by_alias=False), **ours}))
        try:
            yield Shipped(resources, server)
        finally:
            resources.database.close()
