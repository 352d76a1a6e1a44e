"""What answers a command's questions: the running Backscroll, or this process where none runs or is wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ops import client, connection
from ops.console import rendering
from ops.console.command import Call
from schemas.context import Context
from schemas.documents import DocumentIn, DocumentKept
from schemas.keys import KeyIn, KeyList, ListedKey, NewKey, Rotation
from schemas.listing import ChatList, ChatSummary, SessionPage, SessionSpan
from schemas.memories import MemoryQuery, MemoryResult
from schemas.payloads import ChatAddress, ContextQuery, parse_payload
from schemas.search import SearchQuery, SearchResult
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace

if TYPE_CHECKING:
    from pipeline.clients.by_space import SpaceEmbedders
    from pipeline.clients.protocols import Embedder
    from pipeline.store.connections.database import Database


@dataclass(frozen=True, kw_only=True)
class RemoteBackend:
    """The running Backscroll, over HTTP."""

    api: client.Api
    call: Call
    # its database cannot be reached from here
    elsewhere: bool

    def chat(self, chat_id: str | None) -> ChatSummary:
        """Find the chat of this id; without one, the only chat there is."""
        if chat_id is not None:
            return self.api.get(f"/v1/chats/{client.quoted(_checked(chat_id))}", ChatSummary)
        page = self.api.get("/v1/chats", ChatList, limit=10)
        if page.total == 1:
            return page.chats[0]
        from pipeline.operations import lookup

        # raises, with the chats to choose from
        return self.chat(lookup.only_chat([chat.chat_id for chat in page.chats], page.total))

    def sessions(self, chat_id: str, limit: int) -> list[SessionSpan]:
        """List when the latest sessions of a chat were."""
        path = f"/v1/chats/{client.quoted(chat_id)}/sessions"
        return self.api.get(path, SessionPage, limit=limit).sessions

    def context(self, query: ContextQuery) -> Context:
        """Build the context for a question."""
        return self.api.post("/v1/context", query, Context)

    def search(self, query: SearchQuery) -> SearchResult:
        """Search a chat."""
        return self.api.post("/v1/search", query, SearchResult)

    def search_memories(self, query: MemoryQuery) -> MemoryResult:
        """Search memories."""
        return self.api.post("/v1/memories/search", query, MemoryResult)

    def require_user(self, any_id: str) -> None:
        """Raise `NotFound`, which names the nearest ids, for a sender or user who was never seen."""
        from pipeline.operations import lookup

        if self.elsewhere:
            return
        with self.call.opened() as (settings, database):
            lookup.require_user(database, settings.tenant, any_id)

    def keep(self, document: DocumentIn) -> DocumentKept:
        """Cut a document into chunks that the embedding model reads whole, and keep it."""
        return self.api.post("/v1/documents", document, DocumentKept)

    def create_key(self, given: KeyIn) -> NewKey:
        """Make an API key of the tenant."""
        return self.api.post("/v1/keys", given, NewKey)

    def keys(self) -> list[ListedKey]:
        """List the API keys of the tenant."""
        return self.api.get("/v1/keys", KeyList).keys

    def rotate_key(self, key_id: int, given: Rotation) -> NewKey:
        """Give a key a new secret."""
        return self.api.post(f"/v1/keys/{key_id}/rotate", given, NewKey)

    def revoke_key(self, key_id: int) -> ListedKey:
        """Revoke a key."""
        return self.api.delete(f"/v1/keys/{key_id}", ListedKey)


@dataclass(frozen=True, kw_only=True)
class LocalBackend:
    """This process, with a database and a model of its own."""

    database: "Database"
    settings: Settings
    # by --local
    requested: bool

    def chat(self, chat_id: str | None) -> ChatSummary:
        from pipeline.operations import lookup

        with self.database.tenant(self.settings.tenant) as opened:
            return lookup.summary(lookup.find_chat(opened, None if chat_id is None else _checked(chat_id)))

    def sessions(self, chat_id: str, limit: int) -> list[SessionSpan]:
        from pipeline.operations import lookup

        return lookup.session_spans(self.database, self.settings.tenant, chat_id, limit)

    def context(self, query: ContextQuery) -> Context:
        from pipeline.clients.factory import make_reranker
        from pipeline.recall import build_context
        from pipeline.recall.hyde import make_gateway

        return build_context(
            self.database,
            self.settings.tenant,
            query,
            embedder=self._embedders(),
            settings=self.settings,
            reranker=make_reranker(self.settings.reranker_model),
            gateway=make_gateway(self.settings, self.database) if query.hyde else None,
        )

    def search(self, query: SearchQuery) -> SearchResult:
        from pipeline.recall import search
        from pipeline.recall.hyde import make_gateway

        # exact search needs no model
        embedder = None if query.mode == "exact" else self._embedders()
        return search(
            self.database,
            self.settings.tenant,
            query,
            embedder=embedder,
            settings=self.settings,
            gateway=make_gateway(self.settings, self.database) if query.hyde else None,
        )

    def search_memories(self, query: MemoryQuery) -> MemoryResult:
        from pipeline.recall.memory_query import search_memories

        return search_memories(self.database, self.settings.tenant, query, embedder=self._embedders())

    def require_user(self, any_id: str) -> None:
        from pipeline.operations import lookup

        lookup.require_user(self.database, self.settings.tenant, any_id)

    def keep(self, document: DocumentIn) -> DocumentKept:
        from pipeline.memories import documents

        model = documents.model(self.database, self.settings.tenant, self._embedders())
        chunks = documents.cut(document.content, model)
        kept = documents.keep(self.database, self.settings.tenant, document, chunks)
        if kept.written:
            connection.wake(self.settings, "embed")
        return DocumentKept(outcome=kept.outcome, chunks=kept.chunks, written=kept.written)

    def create_key(self, given: KeyIn) -> NewKey:
        from pipeline.people import api_keys

        return api_keys.create(self.database, self.settings.tenant, given)

    def keys(self) -> list[ListedKey]:
        from pipeline.people import api_keys

        return api_keys.listing(self.database, self.settings.tenant)

    def rotate_key(self, key_id: int, given: Rotation) -> NewKey:
        from pipeline.people import api_keys

        return api_keys.rotate(self.database, self.settings.tenant, key_id, given)

    def revoke_key(self, key_id: int) -> ListedKey:
        from pipeline.people import api_keys

        return api_keys.revoke(self.database, self.settings.tenant, key_id)

    def _embedders(self) -> "SpaceEmbedders":
        from pipeline.clients.by_space import SpaceEmbedders

        return SpaceEmbedders(self._embedder_for)

    def _embedder_for(self, space: EmbeddingSpace) -> "Embedder":
        from pipeline.clients.factory import make_embedder_for

        if space.provider == "sentence-transformers":
            loads = "Loading the embedding model in this process, which takes 5 to 30 s"
            rendering.warn(
                f"{loads}."
                if self.requested
                else f"{loads}: no running Backscroll is known to ask. `backscroll up` is found by its data folder, "
                "an API elsewhere by BACKSCROLL_URL; either answers in about a second.",
                style="dim",
            )
        return make_embedder_for(space, self.settings)


# Both raise `NotFound`, `InvalidInput` and `Retryable` alike.
Backend = RemoteBackend | LocalBackend


@contextmanager
def backend(call: Call, *, local: bool) -> Iterator[Backend]:
    """Open the running Backscroll, or this process for `--local`. Raises as `ops.connection` does."""
    settings = connection.configured(call.data_dir, call.tenant)
    api = None if local else connection.running_api(settings, call.data_dir, call.tenant)
    if api is not None:
        yield RemoteBackend(api=api, call=call, elsewhere=settings.url is not None and call.data_dir is None)
        return
    with call.opened() as (complete, database):
        yield LocalBackend(database=database, settings=complete, requested=local)


def _checked(chat_id: str) -> str:
    """Check an id. Raises `InvalidInput`."""
    return parse_payload(ChatAddress, {"chat_id": chat_id}).chat_id
