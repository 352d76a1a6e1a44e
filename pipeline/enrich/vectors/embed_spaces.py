"""Embed texts into each written space: find those it lacks, cut them into chunks for its model, make the vectors."""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from urllib.parse import urlsplit

import structlog
from sqlalchemy import Connection

from pipeline.clients import calibration, deterministic
from pipeline.clients.by_space import Embedding, embedder_of
from pipeline.clients.http_embedder import HttpEmbedder
from pipeline.clients.protocols import Embedder
from pipeline.enrich.vectors.embed_texts import embed_all
from pipeline.enrich.vectors.embedding_text import OwnedText
from pipeline.jobs import failures
from pipeline.llm.ledger import EmbeddingCall
from pipeline.store.connections.database import Database
from pipeline.store.vectors import spaces, vectors
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.vectors import EmbeddingSpace, Vector

log = structlog.get_logger(__name__)

Made = Mapping[bytes, Sequence[Vector] | ProviderRejected]
"""The vectors of each chunk of a text, or why it has none, by the text's hash."""


@dataclass(kw_only=True)
class SpaceWriting:
    """The state of embedding one tenant's claims into one space."""

    space: EmbeddingSpace
    client: Embedder | None
    # texts without a vector in it, by hash
    unknown: Mapping[bytes, OwnedText]
    # keys of jobs whose vector is up to date
    current: frozenset[str]
    # the chunks of `unknown` texts, which its model reads whole; empty while the model is down
    chunks: Mapping[bytes, Sequence[str]] = field(default_factory=dict)
    # the results of the current portion
    made: Made = field(default_factory=dict)
    # why its model cannot be used now
    away: ProviderUnavailable | None = None

    def vectors(self) -> dict[bytes, Sequence[Vector]]:
        """Return the vectors made for the current portion."""
        return {hash_: made for hash_, made in self.made.items() if not isinstance(made, ProviderRejected)}

    def refused(self, text: OwnedText | None) -> ProviderRejected | None:
        """Return why the model refused a text, if it did."""
        result = None if text is None else self.made.get(text.hash)
        return result if isinstance(result, ProviderRejected) else None

    def waits(self, text: OwnedText | None) -> bool:
        """Tell whether a text has to wait for the model."""
        return self.away is not None and text is not None and text.hash in self.unknown


def client_of(
    embedding: Embedding, space: EmbeddingSpace
) -> tuple[Embedder | None, ProviderUnavailable | None]:
    """Return the embedder of a space, or why there is none now."""
    try:
        client = embedder_of(embedding, space)
    except ProviderUnavailable as error:
        return None, error
    if client is None:
        return None, ProviderUnavailable(f"nothing here embeds into the space {space.name}")
    return client, None


def calibrate(database: Database, tenant_id: str, writing: SpaceWriting) -> bool:
    """Calibrate a space that is not yet, by its model, which has just answered; False: try again later."""
    space, client = writing.space, writing.client
    if client is None or space.questions is not None or space.provider == deterministic.PROVIDER:
        return True
    try:
        measured = calibration.calibrate(client)
    except (ProviderUnavailable, ProviderFailed, ProviderRejected) as error:
        log.warning("space_not_calibrated", space=space.name, error=str(error))
        return False
    if measured is not None:
        with database.tenant(tenant_id) as connection:
            spaces.calibrate(connection, space, *measured)
    return True


def prepare(
    connection: Connection,
    space: EmbeddingSpace,
    client: Embedder | None,
    away: ProviderUnavailable | None,
    texts: Sequence[OwnedText],
) -> SpaceWriting:
    """Return a space's state, with those of these texts that it has no vector of."""
    space_id = space.id or 0
    current = set[str]()
    for kind in ("session", "memory"):
        hashes = {text.id: text.hash for text in texts if text.owner == kind}
        if hashes:
            current |= {f"{kind}:{id_}" for id_ in vectors.current(connection, kind, space_id, hashes)}
    known_hashes = vectors.known_hashes(
        connection, space_id, [text.hash for text in texts if text.owner == "message"]
    )
    unknown = {
        text.hash: text
        for text in texts
        if text.key not in current and (text.owner != "message" or text.hash not in known_hashes)
    }
    return SpaceWriting(space=space, client=client, unknown=unknown, current=frozenset(current), away=away)


def why_resting(
    writing: SpaceWriting, resting: Mapping[int | None, tuple[float, ProviderUnavailable]]
) -> ProviderUnavailable | None:
    """Return why a space's model is not asked now, so that one that is down does not delay the others."""
    until, error = resting.get(writing.space.id, (0.0, None))
    return error if monotonic() < until else None


def cut(
    writing: SpaceWriting,
    max_chars: int,
    resting: MutableMapping[int | None, tuple[float, ProviderUnavailable]],
) -> None:
    """Cut the texts that a space lacks into chunks for its model; this may load the model, or ask a server."""
    client = writing.client
    if client is None or writing.away is not None:
        return
    try:
        writing.chunks = {
            hash_: text.chunks(max_tokens=client.max_tokens, count=client.count_tokens, max_chars=max_chars)
            for hash_, text in writing.unknown.items()
        }
    except ProviderUnavailable as error:
        writing.away = error
        resting[writing.space.id] = (monotonic() + failures.OUTAGE_SECONDS, error)


def embed(
    writing: SpaceWriting,
    portion: Sequence[bytes],
    resting: MutableMapping[int | None, tuple[float, ProviderUnavailable]],
) -> EmbeddingCall | None:
    """Embed the texts of a portion that a space lacks; return the call to a server, if one was made."""
    writing.made = {}
    lacking = {hash_: writing.chunks[hash_] for hash_ in portion if hash_ in writing.chunks}
    client, started = writing.client, monotonic()
    if client is None or writing.away is not None or not lacking:
        return None
    try:
        writing.made = _made(client, lacking)
    except ProviderUnavailable as error:
        writing.away = error
        resting[writing.space.id] = (monotonic() + failures.OUTAGE_SECONDS, error)
    if not isinstance(client, HttpEmbedder):
        return None
    usage = client.take_usage()
    return EmbeddingCall(
        model=writing.space.model,
        provider=urlsplit(client.url).netloc,
        tokens=usage.tokens
        or sum(client.count_tokens(chunk) for chunks in lacking.values() for chunk in chunks),
        seconds=monotonic() - started,
        answered=writing.away is None,
        request_id=usage.request_id,
    )


def _made(client: Embedder, texts: Mapping[bytes, Sequence[str]]) -> Made:
    """Embed the chunks of texts; a text is refused only if the model refuses all of its chunks."""
    answers = iter(embed_all(client, [chunk for chunks in texts.values() for chunk in chunks]))
    made: dict[bytes, Sequence[Vector] | ProviderRejected] = {}
    for hash_, chunks in texts.items():
        answered = list(islice(answers, len(chunks)))
        embedded = [answer for answer in answered if not isinstance(answer, ProviderRejected)]
        refused = [answer for answer in answered if isinstance(answer, ProviderRejected)]
        if refused and embedded:
            log.warning("chunks_without_vector", chunks=len(refused), error=str(refused[0]))
        made[hash_] = embedded or refused[0]
    return made
