"""Embed what is owed: messages as they come, sessions when they are summarized, memories when they are written.

Text that was embedded before is not embedded again: its vector is copied. A provider that is away leaves the
rows owed; meanwhile search goes by keywords.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import hypot
from time import monotonic

from sqlalchemy import Connection, text

from pipeline import headers, ledger
from pipeline.clients.protocols import Embedder
from pipeline.ledger import Claim
from pipeline.store import chats, counters, messages, sessions, spaces, vectors
from pipeline.store.database import Database
from pipeline.summarize import stored_summary
from schemas.errors import ProviderRejected, SettingsError
from schemas.vectors import Vector

UNIT_TOLERANCE = 0.05
"""How far from 1 a vector's length may be: half-precision models are that exact."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text to embed, and the row whose vector it becomes."""

    # `message`, `session` or `memory`
    owner: str
    id: str
    text: str

    @property
    def hash(self) -> bytes:
        """Equal for equal texts (BLAKE2b, 16 bytes)."""
        return blake2b(self.text.encode(), digest_size=16).digest()


def embedder(database: Database, client: Embedder) -> ledger.Handler:
    """The handler of `embed` work: each claim is a message, a session or a memory.

    Raises `SettingsError` when the client's space is not one that vectors are written to.
    """
    with database.tenant("") as connection:
        known = [space for space in spaces.written(connection) if space.same_as(client.space)]
    if not known:
        raise SettingsError(
            f"the embedding space {client.space.name} is not in the database, or retired: run `backscroll db upgrade`"
        )
    space_id = known[0].id or 0

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        with database.tenant(tenant_id) as connection:
            documents = _load(connection, [claim.key for claim in claims])
            hashes = [document.hash for document in documents if document.owner == "message"]
            known = vectors.known_hashes(connection, space_id, hashes)
        started = monotonic()
        fresh = {d.hash: d for d in documents if d.owner != "message" or d.hash not in known}
        made = dict(zip(fresh, embed_all(client, [d.text for d in fresh.values()]), strict=True))
        seconds = monotonic() - started
        with database.tenant(tenant_id) as connection:
            _save(connection, tenant_id, space_id, documents, made)
            counters.add(
                connection,
                tenant_id,
                {
                    "embedding_writes": len(documents),
                    "embeddings_made": len(made),
                    "embedding_seconds": seconds,
                },
            )
            ledger.finish(connection, claims)
        return set()

    return handle


def embed_all(client: Embedder, texts: Sequence[str]) -> list[Vector]:
    """One vector for each text; a text that the model refuses does not take the others with it.

    A refused text is embedded as its first thousand characters; if that is refused too, `ProviderRejected`.
    Raises `ValueError` for an answer that is none.
    """
    if not texts:
        return []
    try:
        return _ask(client, texts)
    except ProviderRejected:
        if len(texts) == 1 and len(texts[0]) <= 1000:
            raise
        return [_ask(client, [one[:1000]])[0] for one in texts]


def _ask(client: Embedder, texts: Sequence[str]) -> list[Vector]:
    """The model's answer, if it is what was asked for.

    A vector without a length would be stored, and then found by nothing; NaN compares with nothing either.
    """
    vectors = client.embed_documents(texts)
    space = client.space
    if len(vectors) != len(texts):
        raise ValueError(f"{space.name} answered {len(vectors)} vectors for {len(texts)} texts")
    for vector in vectors:
        if len(vector) != space.dimensions or not abs(hypot(*vector) - 1) <= UNIT_TOLERANCE:
            raise ValueError(
                f"{space.name} answered a vector of {len(vector)} dimensions and length {hypot(*vector):.3g} "
                f"where {space.dimensions} and 1 are right"
            )
    return vectors


def _load(connection: Connection, keys: Sequence[str]) -> list[Document]:
    """The texts behind `owner:id` keys, with their headers; rows that are gone or have no text are left out."""
    ids: dict[str, list[str]] = {"message": [], "session": [], "memory": []}
    for key in keys:
        owner, _, identity = key.partition(":")
        ids[owner].append(identity)
    titles: dict[str, str] = {}

    def title(chat_id: str) -> str:
        if chat_id not in titles:
            chat = chats.get(connection, chat_id)
            titles[chat_id] = chat.title if chat else ""
        return titles[chat_id]

    documents = []
    for message in messages.by_id(connection, map(int, ids["message"])):
        if message.content:
            body = headers.message_document(message)
            documents.append(Document(owner="message", id=str(message.id), text=body))
    for identity in ids["session"]:
        row = sessions.find(connection, int(identity))
        summary = stored_summary(row) if row is not None and row.id == int(identity) else None
        if row is not None and summary is not None:
            body = headers.session_document(sessions.as_session(row), title(row.chat_id), summary)
            documents.append(Document(owner="session", id=identity, text=body))
    if ids["memory"]:
        rows = connection.execute(
            text("SELECT id, content FROM memories WHERE id = ANY(CAST(:ids AS uuid[]))"),
            {"ids": ids["memory"]},
        )
        documents += [Document(owner="memory", id=str(identity), text=content) for identity, content in rows]
    return documents


def _save(
    connection: Connection,
    tenant_id: str,
    space_id: int,
    documents: Sequence[Document],
    made: dict[bytes, Vector],
) -> None:
    """Write every document's vector; one that was not made now is copied from its twin."""
    for kind in vectors.KINDS:
        if rows := [(d.id, d.hash, made.get(d.hash)) for d in documents if d.owner == kind]:
            vectors.put(connection, tenant_id, kind, space_id, rows)
