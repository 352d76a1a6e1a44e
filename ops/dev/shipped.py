"""A database of its own, filled and asked through the shipped path: accept, place, summarize, embed, context."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from ops.dev.figures import Say
from ops.local import migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.roles import DATABASE
from pipeline.clients.factory import make_embedder
from pipeline.clients.protocols import Embedder
from pipeline.erasure import edits
from pipeline.ingest import accept as ingest
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler
from pipeline.operations.doctor import collect
from pipeline.recall import build_context, refine
from pipeline.recall.gather import Ranked, gather_ranked
from pipeline.recall.request import Request, Stopwatch, for_context
from schemas.context import Context
from schemas.messages import MAX_BATCH, ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector
from workers.resources import Resources

DERIVED = ("summarize", "extract", "embed")
"""Kinds of jobs that follow placing."""
# The model would take most of an hour for more.
EMBEDDED_UP_TO = 10_000


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

    def fill(self, chat: ChatIn, messages: Sequence[MessageIn], progress: Say) -> None:
        """Bring a conversation in: place it, and do the jobs that follow."""
        self.accept(chat, messages)
        for kind in ("ingest", *DERIVED):
            progress(f"{chat.chat_id}: {kind}")
            self.run_all(kind)

    def fill_chats(
        self, talk: Callable[[int, int], Iterable[MessageIn]], messages: int, chats: int, progress: Say
    ) -> None:
        """Bring in chats of `talk(seed, messages)`; many messages as means of the model's vectors of their words."""
        model = self.resources.embedder
        if messages > EMBEDDED_UP_TO:
            self.resources.embedder = WordMeansEmbedder(model)
        for chat in range(chats):
            made = list(talk(chat, messages // chats))
            self.fill(ChatIn(chat_id=f"bench:{chat}", title=f"Bench {chat}"), made, progress)
        self.resources.embedder = model
        self.settle()

    def settle(self) -> None:
        """Do what autovacuum and `backscroll doctor --fix` do: pages, statistics, and the index of a large chat."""
        with self.superuser() as connection:
            # first, as the statistics say which chat is large
            connection.execute("VACUUM ANALYZE")
        facts = collect.embedding_spaces(
            self.database, self.resources.embedder.space, [self.tenant], None, everybody=True
        )
        engine = migrate.connected(self.server.dsn("owner"))
        with engine as owner, owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for _ in collect.mend_indexes(connection, facts.missing_indexes if facts else (), ()):
                pass

    def ask(self, chat_id: str, question: str, budget: int, **options: Any) -> Context:
        """Build the context for a question, explained, by default one asked later than recent messages count."""
        fields = {"chat_id": chat_id, "query": question, "budget_tokens": budget}
        return self.build(
            ContextQuery.model_validate({**fields, "include_history": False, "explain": True, **options})
        )

    def build(self, query: ContextQuery) -> Context:
        """Build the context of a query, as the HTTP API answers it."""
        embedder = self.resources.embedder
        return build_context(self.database, self.tenant, query, embedder=embedder, settings=self.settings)

    def rank(self, query: ContextQuery) -> tuple[Request, Ranked]:
        """Find and rank what may be shown for a query, as a context does."""
        with self.database.tenant(self.tenant) as connection:
            request = for_context(connection, query, self.settings)
        request = refine.embed(self.database, self.tenant, request, self.resources.embedder, Stopwatch())
        return request, gather_ranked(self.database, self.tenant, request, Stopwatch())

    @contextmanager
    def put(self, chat: ChatIn, message: MessageIn) -> Iterator[None]:
        """Hold a message in a chat while the body runs: a question that was just put to a bot.

        It is placed and embedded, but not summarized, and nothing is learned from it. Afterwards it is deleted.
        """
        self.accept(chat, [message])
        self.run_all("ingest", "embed")
        try:
            yield
        finally:
            rules = self.resources.rules
            edits.delete(self.database, self.tenant, chat.chat_id, message.external_id, rules)
            self.run_all("ingest", "summarize", "embed")


@contextmanager
def temporary(settings: Settings, *, durable: bool = False) -> Iterator[Shipped]:
    """Start an embedded Postgres in a temporary folder; it does not wait for the disk unless it is `durable`."""
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-dev-") as folder,
        EmbeddedPostgres(Path(folder), durable=durable) as server,
    ):
        migrate.upgrade(server.dsn("owner"), make_embedder(settings).space)
        with on(server, settings) as backscroll:
            yield backscroll


@contextmanager
def on(server: EmbeddedPostgres, settings: Settings) -> Iterator[Shipped]:
    """Open the database of a server that runs."""
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


class WrappedEmbedder:
    """The inner embedder, unchanged."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner

    @property
    def space(self) -> EmbeddingSpace:
        return self.inner.space

    @property
    def max_tokens(self) -> int:
        return self.inner.max_tokens

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return self.inner.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return self.inner.embed_query(text)


class WordMeansEmbedder(WrappedEmbedder):
    """Documents as the mean of a model's vectors of their words: a hundred times as fast as the model itself.

    The model embeds questions.
    """

    max_tokens = 1_000_000

    def __init__(self, inner: Embedder) -> None:
        super().__init__(inner)
        self._words: dict[str, Vector] = {}

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        split = [[word.strip(".,?!").lower() for word in text.split()] or ["-"] for text in texts]
        new = sorted({word for words in split for word in words} - self._words.keys())
        if new:
            self._words |= zip(new, self.inner.embed_documents(new), strict=True)
        means = (np.mean([self._words[word] for word in words], axis=0) for words in split)
        return [np.round(mean / np.linalg.norm(mean), 4).tolist() for mean in means]
