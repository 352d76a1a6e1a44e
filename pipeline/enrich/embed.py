"""Embed messages as they come, sessions when they are summarized, memories when they are written.

Text that was embedded before is not embedded again: its vector is copied. A provider that is away leaves the
rows owed; meanwhile search goes by keywords. A text that breaks the model is found and given up, and takes no
other with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import hypot
from time import monotonic

import structlog
from sqlalchemy import Connection

from pipeline.clients.protocols import Embedder
from pipeline.enrich import embedding_text
from pipeline.enrich.summarize import stored_summary
from pipeline.jobs import runner
from pipeline.jobs.runner import Claim
from pipeline.store import chats, counters, jobs, memories, messages, sessions, vectors
from pipeline.store.database import Database
from schemas.errors import LeaseLost, ProviderFailed, ProviderRejected, ProviderUnavailable, SettingsError
from schemas.vectors import Vector

log = structlog.get_logger(__name__)

UNIT_TOLERANCE = 0.05
"""How far from 1 a vector's length may be: half-precision models are that exact."""
PORTION = 128
"""Texts that the model is given at once; their vectors are saved before it is given the next."""
TURN_SECONDS = 15.0
"""A claim of more texts than the model embeds in so long is handed back in part: others wait for it."""
SHORTENED_CHARS = 1000
"""What is tried of a text that the model does not take."""
PROBE = "Hello"
"""A text that every model embeds; one that does not is out of order."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text to embed, and the row whose vector it becomes."""

    # `message`, `session` or `memory`
    owner: str
    id: str
    text: str

    @property
    def key(self) -> str:
        """Return its job's key."""
        return f"{self.owner}:{self.id}"

    @cached_property
    def hash(self) -> bytes:
        """Hash the text (BLAKE2b, 16 bytes)."""
        return blake2b(self.text.encode(), digest_size=16).digest()


def embedder(database: Database, client: Embedder) -> runner.Handler:
    """Make the handler of `embed` jobs: each claim is a message, a session or a memory.

    Raises `SettingsError` when the client's space is not one that vectors are written to.
    """
    with database.tenant("") as connection:
        known = [space for space in vectors.written_spaces(connection) if space.same_as(client.space)]
    if not known:
        raise SettingsError(
            f"the embedding space {client.space.name} is not in the database, or retired: run `backscroll db upgrade`"
        )
    space_id = known[0].id or 0

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        deadline = monotonic() + TURN_SECONDS
        with database.tenant(tenant_id) as connection:
            documents = {document.key: document for document in _load(connection, [c.key for c in claims])}
            hashes = [document.hash for document in documents.values() if document.owner == "message"]
            known = vectors.known_hashes(connection, space_id, hashes)
        unknown = {d.hash: d.text for d in documents.values() if d.owner != "message" or d.hash not in known}
        urgent = {
            documents[claim.key].hash
            for claim in claims
            if claim.priority == jobs.LIVE and claim.key in documents
        }
        # What is live first. Of that, texts of like length together, so that little is padded; the longest first, as
        # they take most memory.
        rest = sorted(unknown, key=lambda each: (each not in urgent, -len(unknown[each])))
        left = list(claims)
        while left:
            portion, rest = rest[:PORTION], rest[PORTION:]
            started = monotonic()
            made = dict(zip(portion, embed_all(client, [unknown[each] for each in portion]), strict=True))
            seconds = monotonic() - started
            waiting = set(rest)
            later = {key for key, document in documents.items() if document.hash in waiting}
            done, left = [c for c in left if c.key not in later], [c for c in left if c.key in later]
            is_over = monotonic() > deadline
            given = {claim: documents.get(claim.key) for claim in done}
            _keep(database, space_id, given, made, seconds, left if is_over else ())
            if is_over and left:
                return {"embed"}
        return set()

    return handle


def _keep(
    database: Database,
    space_id: int,
    done: Mapping[Claim, Document | None],
    made: Mapping[bytes, Vector | ProviderRejected],
    seconds: float,
    left: Sequence[Claim],
) -> None:
    """Save the vectors of one tenant's claims that are still held, and release those in `left`.

    One that is not was deleted, edited or merged while the model worked, or took longer than its lease: that takes no
    other with it, and is no failure.
    """
    claims = [*done, *left]
    while claims:
        try:
            with database.tenant(claims[0].tenant_id) as connection:
                _save(connection, space_id, {c: done[c] for c in claims if c in done}, made, seconds)
                runner.finish(connection, [c for c in claims if c not in done], again_in=0)
        except LeaseLost:
            rows = [(claim.tenant_id, claim.key, claim.token) for claim in claims]
            with database.tenant(claims[0].tenant_id) as connection:
                held = jobs.still_claimed(connection, claims[0].kind, rows)
            log.info("embed_overtaken", rows=len(claims) - len(held))
            claims = [claim for claim in claims if (claim.tenant_id, claim.key) in held]
        else:
            return


def embed_all(client: Embedder, texts: Sequence[str]) -> list[Vector | ProviderRejected]:
    """Return a vector for each text, or why it has none; a text that breaks the model affects no other.

    When the model fails it is asked for a short text that it has always known. If that fails, too, the model is out
    of order: `ProviderUnavailable`. Else the texts are halved until those that break it stand alone, which takes
    about log2 n calls for each. Such a text is embedded as its first thousand characters, if the model takes these.
    """
    if not texts:
        return []
    try:
        return [*_ask(client, texts)]
    except ProviderRejected as error:
        return _halved(client, texts, error)
    except ProviderFailed as error:
        _require_working(client, error)
        return _halved(client, texts, error)


def _halved(
    client: Embedder, texts: Sequence[str], error: ProviderFailed | ProviderRejected
) -> list[Vector | ProviderRejected]:
    """Embed, in halves, texts that the model has just failed at together."""
    if len(texts) == 1:
        return [_shortened(client, texts[0], error)]
    found: list[Vector | ProviderRejected] = []
    for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
        try:
            found += _ask(client, half)
        except (ProviderFailed, ProviderRejected) as failure:
            found += _halved(client, half, failure)
    return found


def _shortened(
    client: Embedder, given: str, error: ProviderFailed | ProviderRejected
) -> Vector | ProviderRejected:
    """Embed, shortened, a text that the model has just failed at on its own."""
    if isinstance(error, ProviderRejected) and len(given) <= SHORTENED_CHARS:
        return error
    try:
        return _ask(client, [given[:SHORTENED_CHARS]])[0]
    except ProviderRejected as rejected:
        return rejected
    except ProviderFailed as failure:
        # it may have got out of order since it was last asked
        _require_working(client, failure)
        return ProviderRejected(f"{failure}; it embeds other texts")


def _require_working(client: Embedder, error: ProviderFailed) -> None:
    """Raise `ProviderUnavailable` if the model does not embed the probe either."""
    try:
        _ask(client, [PROBE])
    except (ProviderFailed, ProviderRejected):
        raise ProviderUnavailable(f"{error}; nor does it embed “{PROBE}”") from error


def _ask(client: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return the model's answer; `ProviderFailed` if it is not what was asked for.

    A vector without a length would be stored, and then found by nothing; NaN compares with nothing either.
    """
    vectors = client.embed_documents(texts)
    space = client.space
    if len(vectors) != len(texts):
        raise ProviderFailed(f"{space.name} answered {len(vectors)} vectors for {len(texts)} texts")
    for vector in vectors:
        if len(vector) != space.dimensions or not abs(hypot(*vector) - 1) <= UNIT_TOLERANCE:
            raise ProviderFailed(
                f"{space.name} answered a vector of {len(vector)} dimensions and length {hypot(*vector):.3g} "
                f"where {space.dimensions} and 1 are right"
            )
    return vectors


def _load(connection: Connection, keys: Sequence[str]) -> list[Document]:
    """Load the texts behind `owner:id` keys, with their headers; skips rows that are gone or have no text."""
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
            body = embedding_text.message_document(message)
            documents.append(Document(owner="message", id=str(message.id), text=body))
    for identity in ids["session"]:
        row = sessions.find(connection, int(identity))
        summary = stored_summary(row) if row is not None and row.id == int(identity) else None
        if row is not None and summary is not None:
            body = embedding_text.session_document(sessions.as_session(row), title(row.chat_id), summary)
            documents.append(Document(owner="session", id=identity, text=body))
    if ids["memory"]:
        rows = memories.contents(connection, ids["memory"])
        documents += [Document(owner="memory", id=str(identity), text=content) for identity, content in rows]
    return documents


def _save(
    connection: Connection,
    space_id: int,
    done: Mapping[Claim, Document | None],
    made: Mapping[bytes, Vector | ProviderRejected],
    seconds: float,
) -> None:
    """Finish one tenant's claims: write their documents' vectors, and give up those that have none.

    A vector that was not made now is copied from its twin. A claim without a document has nothing to save. Raises
    `LeaseLost`.
    """
    if not done:
        return
    tenant_id = next(iter(done)).tenant_id
    refused = {
        claim: error
        for claim, document in done.items()
        if document is not None and isinstance(error := made.get(document.hash), ProviderRejected)
    }
    kept = [document for claim, document in done.items() if document is not None and claim not in refused]
    vector_of = {each: vector for each, vector in made.items() if not isinstance(vector, ProviderRejected)}
    for kind in vectors.OWNERS:
        if rows := [(d.id, d.hash, vector_of.get(d.hash)) for d in kept if d.owner == kind]:
            vectors.put(connection, tenant_id, kind, space_id, rows)
    counters.add(
        connection,
        tenant_id,
        {
            "embedding_writes": len(kept),
            "embeddings_made": len(vector_of),
            "embedding_seconds": seconds,
            "embed_failures": len(refused),
        },
    )
    for claim, error in refused.items():
        runner.give_up(connection, claim, error)
    runner.finish(connection, [claim for claim in done if claim not in refused])
