"""Answers a command's questions: by the Backscroll that runs, or in this process where none does or is wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from ops import client, connection
from ops.commands import rendering
from ops.commands.hints import opened_hints
from ops.commands.opening import find_chat, opened
from ops.connection import running_api
from schemas.context import Context
from schemas.documents import DocumentIn, DocumentKept
from schemas.overview import ChatPage, ChatSummary, SessionPage, SessionSpan
from schemas.payloads import ChatAddress, ContextQuery, parse_payload
from schemas.search import SearchQuery, SearchResult
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.clients.protocols import Embedder
    from pipeline.store.database import Database

LocalOption = Annotated[
    bool,
    typer.Option(
        "--local", help="In this process, which loads a model, instead of by the running Backscroll."
    ),
]


class Answering(Protocol):
    """What answers questions about chats. All raise `NotFound`, `InvalidInput` and `Retryable` alike."""

    def chat(self, chat_id: str | None) -> ChatSummary:
        """The chat of this id; without one, the only chat there is."""

    def sessions(self, chat_id: str, limit: int) -> list[SessionSpan]:
        """When the latest sessions of a chat were."""

    def context(self, query: ContextQuery) -> Context:
        """The context for a question."""

    def search(self, query: SearchQuery) -> SearchResult:
        """What a chat's memory finds."""

    def require_user(self, any_id: str) -> None:
        """Raise `NotFound`, which names the nearest ids, for a sender or user who was never seen."""

    def keep(self, document: DocumentIn) -> DocumentKept:
        """Cut a document into what the model reads whole, and keep it."""


@contextmanager
def answering(data_dir: Path | None, tenant: str | None, *, local: bool) -> Iterator[Answering]:
    """The running Backscroll, or this process. Raises as `ops.connection` does."""
    settings = connection.configured(data_dir, tenant)
    api = None if local else running_api(settings, data_dir, tenant)
    if api is not None:
        elsewhere = settings.url is not None and data_dir is None
        yield _There(api=api, data_dir=data_dir, tenant=tenant, elsewhere=elsewhere)
        return
    with opened(data_dir, tenant) as (complete, database):
        yield _Here(database=database, settings=complete, chosen=local)


@dataclass(frozen=True, kw_only=True)
class _There:
    """The running Backscroll, over HTTP."""

    api: client.Api
    data_dir: Path | None
    tenant: str | None
    # its database is not known here
    elsewhere: bool

    def chat(self, chat_id: str | None) -> ChatSummary:
        if chat_id is not None:
            return self.api.get(f"/v1/chats/{client.quoted(_checked(chat_id))}", ChatSummary)
        page = self.api.get("/v1/chats", ChatPage, limit=10)
        if page.total == 1:
            return page.chats[0]
        from pipeline.operations import lookup

        # there is none, or one of several must be chosen: it says so
        return self.chat(lookup.only_chat([chat.chat_id for chat in page.chats], page.total))

    def sessions(self, chat_id: str, limit: int) -> list[SessionSpan]:
        path = f"/v1/chats/{client.quoted(chat_id)}/sessions"
        return self.api.get(path, SessionPage, limit=limit).sessions

    def context(self, query: ContextQuery) -> Context:
        return self.api.post("/v1/context", query, Context)

    def search(self, query: SearchQuery) -> SearchResult:
        return self.api.post("/v1/search", query, SearchResult)

    def require_user(self, any_id: str) -> None:
        from pipeline.operations import lookup

        if self.elsewhere:
            return
        with opened(self.data_dir, self.tenant) as (settings, database):
            lookup.require_user(database, settings.tenant, any_id)

    def keep(self, document: DocumentIn) -> DocumentKept:
        return self.api.post("/v1/documents", document, DocumentKept)


@dataclass(frozen=True, kw_only=True)
class _Here:
    """This process, with a database and a model of its own."""

    database: "Database"
    settings: Settings
    # it was asked for
    chosen: bool

    def chat(self, chat_id: str | None) -> ChatSummary:
        from pipeline.operations import lookup

        with self.database.tenant(self.settings.tenant) as connection:
            return lookup.summary(find_chat(connection, None if chat_id is None else _checked(chat_id)))

    def sessions(self, chat_id: str, limit: int) -> list[SessionSpan]:
        from pipeline.operations import lookup

        return lookup.session_spans(self.database, self.settings.tenant, chat_id, limit)

    def context(self, query: ContextQuery) -> Context:
        from pipeline.clients.factory import make_reranker
        from pipeline.context import build_context

        return build_context(
            self.database,
            self.settings.tenant,
            query,
            embedder=self._embedder(),
            settings=self.settings,
            reranker=make_reranker(self.settings.reranker_model),
        )

    def search(self, query: SearchQuery) -> SearchResult:
        from pipeline.context import search

        # the very characters need no model
        embedder = None if query.mode == "exact" else self._embedder()
        return search(self.database, self.settings.tenant, query, embedder=embedder, settings=self.settings)

    def require_user(self, any_id: str) -> None:
        from pipeline.operations import lookup

        lookup.require_user(self.database, self.settings.tenant, any_id)

    def keep(self, document: DocumentIn) -> DocumentKept:
        from pipeline.memories import documents

        chunks = documents.cut(document.content, self._embedder())
        kept = documents.keep(self.database, self.settings.tenant, document, chunks)
        if kept.written:
            with opened_hints(self.settings, rendering.err()) as hints:
                hints.send("embed")
        return DocumentKept(outcome=kept.outcome, chunks=kept.chunks, written=kept.written)

    def _embedder(self) -> "Embedder":
        from pipeline.clients.factory import default_provider, make_embedder

        if (self.settings.embedding_provider or default_provider()) == "sentence-transformers":
            rendering.err().print(_why_slow(chosen=self.chosen), style="dim", markup=False)
        return make_embedder(self.settings)


def _checked(chat_id: str) -> str:
    """The id, if it can be one. Raises `InvalidInput`."""
    return parse_payload(ChatAddress, {"chat_id": chat_id}).chat_id


def _why_slow(*, chosen: bool) -> str:
    """What to say before a model is loaded."""
    loads = "Loading the embedding model in this process, which takes 5 to 30 s"
    if chosen:
        return f"{loads}."
    return (
        f"{loads}: no running Backscroll is known to ask. `backscroll up` is found by its data folder, an API "
        "elsewhere by BACKSCROLL_URL; either answers in about a second."
    )
