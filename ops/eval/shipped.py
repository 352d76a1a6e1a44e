"""A database of its own, filled and asked through the shipped path: accept, place, summarize, embed, context."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import NullPool, create_engine, text

from ops import migrate
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.roles import DATABASE
from pipeline.clients.factory import make_embedder
from pipeline.context import build_context
from pipeline.ingest import accept
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler
from pipeline.operations.doctor import collect
from schemas.context import Context
from schemas.messages import MAX_BATCH, ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from workers.resources import Resources

Progress = Callable[[str], None]


class Shipped:
    """A Backscroll without queues: what the workers' handlers do, one after the other in this process."""

    def __init__(self, resources: Resources, superuser_url: str, owner_url: str) -> None:
        self.resources = resources
        self._superuser_url = superuser_url
        self._owner_url = owner_url
        self.settings = resources.settings

    def fill(
        self, chat: ChatIn, messages: Sequence[MessageIn], progress: Progress, *, only_place: bool = False
    ) -> None:
        """Bring a conversation in and let everything that follows be done, or placing alone."""
        for start in range(0, len(messages), MAX_BATCH):
            batch = messages[start : start + MAX_BATCH]
            accept.accept(self.resources.database, self.settings.tenant, chat, batch)
        work: list[tuple[str, Handler]] = [
            ("ingest", self.resources.placer),
            ("summarize", self.resources.summarizer),
            ("embed", self.resources.embed),
        ]
        for kind, handler in work[:1] if only_place else work:
            progress(f"{chat.chat_id}: {kind}")
            while runner.run(self.resources.database, kind, handler, self.resources.policy(kind)).claimed:
                pass

    def vacuum(self) -> None:
        """What autovacuum does within a minute: the planner's statistics, and pages known to be all visible."""
        with psycopg.connect(self._superuser_url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")

    def index(self) -> None:
        """Build the index of vectors if a chat is large enough for it, as `backscroll doctor --fix` does."""
        space, tenants = self.resources.embedder.space, [self.settings.tenant]
        found = collect.embedding(self.resources.database, space, tenants, None, everybody=True)
        engine = create_engine(
            self._owner_url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool
        )
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for _ in collect.mend_indexes(connection, found.missing_indexes if found else (), ()):
                pass

    def ask(
        self,
        chat_id: str,
        question: str,
        budget: int,
        *,
        explain: bool = True,
        include_history: bool = False,
    ) -> Context:
        """The context for a question; by default one that is asked later, so that recent messages play no part."""
        query = ContextQuery(
            chat_id=chat_id,
            query=question,
            budget_tokens=budget,
            include_history=include_history,
            explain=explain,
        )
        return build_context(
            self.resources.database,
            self.settings.tenant,
            query,
            embedder=self.resources.embedder,
            settings=self.settings,
        )

    def sessions_of(self, chat_id: str) -> dict[str, int]:
        """The session that each message lies in, by the message's external id."""
        with self.resources.database.tenant(self.settings.tenant) as connection:
            rows = connection.execute(
                text("""
                    SELECT m.external_id, s.id FROM conversation_sessions s JOIN messages m
                        ON m.tenant_id = s.tenant_id AND m.chat_id = s.chat_id AND m.session_key = s.session_key
                        AND m.sent_at BETWEEN s.started_at AND s.ended_at
                    WHERE s.chat_id = :chat AND s.status <> 'merged'
                """),
                {"chat": chat_id},
            )
            return {row[0]: row[1] for row in rows}


@contextmanager
def temporary(settings: Settings) -> Iterator[Shipped]:
    """A fresh embedded Postgres in a temporary folder, gone afterwards; the rest by the settings."""
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-eval-") as folder,
        EmbeddedPostgres(Path(folder), durable=False) as server,
    ):
        migrate.upgrade(server.dsn("owner"), make_embedder(settings).space)
        ours = {
            "database_url": server.dsn("app"),
            "maintenance_database_url": server.dsn("maintenance"),
            "summarize_debounce_seconds": 0,
        }
        resources = Resources(Settings.model_validate({**settings.model_dump(by_alias=False), **ours}))
        try:
            yield Shipped(resources, server.superuser_dsn(DATABASE), server.dsn("owner"))
        finally:
            resources.database.close()
