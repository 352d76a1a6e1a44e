"""Embed messages as they come, sessions when they are summarized, memories when they are written.

Each is embedded into every space that is written: the active one, one that is being built, one that stands by; its
vectors of all of them appear at once. A text that is longer than a model reads has a vector for each of its chunks.
Those of a message text that was embedded before are copied. While a provider is away the jobs stay due for its space
only, and search goes by keywords if that is the active one.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic

import structlog
from sqlalchemy import Connection

from pipeline.clients.by_space import Embedding, embedder_of
from pipeline.clients.protocols import Embedder
from pipeline.enrich import embedding_text
from pipeline.enrich.embed_texts import embed_all
from pipeline.enrich.embedding_text import OwnedText
from pipeline.jobs import runner
from pipeline.jobs.batches import batched
from pipeline.jobs.runner import Claim
from pipeline.store import counters, jobs, vectors
from pipeline.store.database import Database
from schemas.errors import LeaseLost, ProviderRejected, ProviderUnavailable
from schemas.vectors import EmbeddingSpace, Vector

log = structlog.get_logger(__name__)

PORTION = 256
"""Texts or chunks that a model is given at once; their vectors are saved before it is given the next."""
MAX_CHARS = 16_000
"""Characters of a text that are embedded, unless a setting says so."""
Made = Mapping[bytes, Sequence[Vector] | ProviderRejected]
"""The vectors of each chunk of a text, or why it has none, by the text's hash."""
TURN_SECONDS = 15.0
"""When claims that are not embedded yet are released: others wait for the model."""


@dataclass(kw_only=True)
class _Writing:
    """What is embedded into one space, for one tenant's claims."""

    space: EmbeddingSpace
    client: Embedder | None
    # by hash, the texts that it has no vector of
    unknown: Mapping[bytes, OwnedText]
    # keys of the jobs whose vector it has
    current: frozenset[str]
    # of these, what its model reads whole; none while it is away
    chunks: Mapping[bytes, Sequence[str]] = field(default_factory=dict)
    # of the portion that is being done
    made: Made = field(default_factory=dict)
    # why it gets nothing now
    away: ProviderUnavailable | None = None

    def vectors(self) -> dict[bytes, Sequence[Vector]]:
        """Return the vectors that were made now."""
        return {each: found for each, found in self.made.items() if not isinstance(found, ProviderRejected)}

    def refused(self, text: OwnedText | None) -> ProviderRejected | None:
        """Return why a text has no vector, if the model refused it."""
        found = None if text is None else self.made.get(text.hash)
        return found if isinstance(found, ProviderRejected) else None

    def waits(self, text: OwnedText | None) -> bool:
        """Tell whether a text has to wait for the model."""
        return self.away is not None and text is not None and text.hash in self.unknown


def embedder(database: Database, embedding: Embedding, *, max_chars: int = MAX_CHARS) -> runner.Handler:
    """Make the handler of `embed` jobs: each claim is a message, a session or a memory."""
    # spaces by id whose models are away, and until when they are not asked again
    resting: dict[int | None, tuple[float, ProviderUnavailable]] = {}

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        deadline = monotonic() + TURN_SECONDS
        with database.tenant(tenant_id) as connection:
            written = vectors.written_spaces(connection)
        clients = [(space, *_client(embedding, space)) for space in written]
        with database.tenant(tenant_id) as connection:
            texts = {text.key: text for text in embedding_text.load(connection, [c.key for c in claims])}
            spaces = [
                _writing(connection, space, client, away, list(texts.values()))
                for space, client, away in clients
            ]
        if not spaces:
            raise ProviderUnavailable("there is no embedding space: run `backscroll db upgrade`")
        for each in spaces:
            each.away = each.away or _resting(each, resting if len(spaces) > 1 else {})
            _cut(each, max_chars, resting)
        urgent = {
            texts[claim.key].hash for claim in claims if claim.priority == jobs.LIVE and claim.key in texts
        }
        # the most chunks that a text has in any space
        sizes: dict[bytes, int] = {}
        for each in spaces:
            for hash_ in each.unknown:
                sizes[hash_] = max(sizes.get(hash_, 1), len(each.chunks.get(hash_, ())))
        length = {hash_: len(text.text) for each in spaces for hash_, text in each.unknown.items()}
        # what a server has answered is saved before it is asked again: a model's server may be slow, or go away
        size = min([PORTION, *(getattr(each.client, "batch_size", PORTION) for each in spaces)])
        # Live messages first; then by length, so that little is padded, the longest first, as they take most memory.
        rest = sorted(sizes, key=lambda each: (each not in urgent, -min(length[each], max_chars)))
        left = list(claims)
        while left:
            portion = next(batched(rest, len(rest) + 1, size, sizes.__getitem__), [])
            rest = rest[len(portion) :]
            started = monotonic()
            for each in spaces:
                _embed(each, portion, resting)
            if portion and not any(each.away is None for each in spaces):
                raise next(each.away for each in spaces if each.away is not None)
            seconds = monotonic() - started
            waiting = set(rest)
            later = {key for key, text in texts.items() if text.hash in waiting}
            done, left = [c for c in left if c.key not in later], [c for c in left if c.key in later]
            is_over = monotonic() > deadline
            given = {claim: texts.get(claim.key) for claim in done}
            _keep(database, spaces, given, seconds, left if is_over else ())
            if is_over and left:
                return {"embed"}
        return set()

    return handle


def _client(
    embedding: Embedding, space: EmbeddingSpace
) -> tuple[Embedder | None, ProviderUnavailable | None]:
    """Return what embeds into a space, or why nothing does now."""
    try:
        client = embedder_of(embedding, space)
    except ProviderUnavailable as error:
        return None, error
    if client is None:
        return None, ProviderUnavailable(f"nothing here embeds into the space {space.name}")
    return client, None


def _writing(
    connection: Connection,
    space: EmbeddingSpace,
    client: Embedder | None,
    away: ProviderUnavailable | None,
    texts: Sequence[OwnedText],
) -> _Writing:
    """Find out which of these texts a space has a vector of."""
    space_id = space.id or 0
    current = set[str]()
    for kind in ("session", "memory"):
        hashes = {text.id: text.hash for text in texts if text.owner == kind}
        if hashes:
            current |= {f"{kind}:{each}" for each in vectors.current(connection, kind, space_id, hashes)}
    known = vectors.known_hashes(
        connection, space_id, [text.hash for text in texts if text.owner == "message"]
    )
    unknown = {
        text.hash: text
        for text in texts
        if text.key not in current and (text.owner != "message" or text.hash not in known)
    }
    return _Writing(space=space, client=client, unknown=unknown, current=frozenset(current), away=away)


def _resting(
    writing: _Writing, resting: Mapping[int | None, tuple[float, ProviderUnavailable]]
) -> ProviderUnavailable | None:
    """Return why a space's model is not asked now, so that one which is away does not keep the others waiting."""
    until, error = resting.get(writing.space.id, (0.0, None))
    return error if monotonic() < until else None


def _cut(
    writing: _Writing,
    max_chars: int,
    resting: MutableMapping[int | None, tuple[float, ProviderUnavailable]],
) -> None:
    """Cut the texts that a space lacks into what its model reads; this may load the model, or ask a server."""
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
        resting[writing.space.id] = (monotonic() + runner.OUTAGE_SECONDS, error)


def _embed(
    writing: _Writing,
    portion: Sequence[bytes],
    resting: MutableMapping[int | None, tuple[float, ProviderUnavailable]],
) -> None:
    """Embed what a space lacks of a portion."""
    writing.made = {}
    lacking = {each: writing.chunks[each] for each in portion if each in writing.chunks}
    if writing.client is None or writing.away is not None or not lacking:
        return
    try:
        writing.made = _made(writing.client, lacking)
    except ProviderUnavailable as error:
        writing.away = error
        resting[writing.space.id] = (monotonic() + runner.OUTAGE_SECONDS, error)


def _made(client: Embedder, texts: Mapping[bytes, Sequence[str]]) -> Made:
    """Embed the chunks of texts; a text has those vectors that the model makes, and is refused if there is none."""
    answers = iter(embed_all(client, [chunk for chunks in texts.values() for chunk in chunks]))
    made: dict[bytes, Sequence[Vector] | ProviderRejected] = {}
    for hash_, chunks in texts.items():
        answered = list(islice(answers, len(chunks)))
        found = [each for each in answered if not isinstance(each, ProviderRejected)]
        refused = [each for each in answered if isinstance(each, ProviderRejected)]
        if refused and found:
            log.warning("chunks_without_vector", chunks=len(refused), error=str(refused[0]))
        made[hash_] = found or refused[0]
    return made


def _keep(
    database: Database,
    spaces: Sequence[_Writing],
    done: Mapping[Claim, OwnedText | None],
    seconds: float,
    left: Sequence[Claim],
) -> None:
    """Save the vectors of one tenant's claims that are still held, and release those in `left`.

    One that was deleted, edited or merged while the model worked, or took longer than its lease, is no failure.
    """
    claims = [*done, *left]
    while claims:
        try:
            with database.tenant(claims[0].tenant_id) as connection:
                _save(connection, spaces, {c: done[c] for c in claims if c in done}, seconds)
                runner.finish(connection, [c for c in claims if c not in done], again_in=0)
        except LeaseLost:
            with database.tenant(claims[0].tenant_id) as connection:
                held = runner.still_held(connection, claims)
            log.info("embed_overtaken", rows=len(claims) - len(held))
            claims = held
        else:
            return


def _save(
    connection: Connection,
    spaces: Sequence[_Writing],
    done: Mapping[Claim, OwnedText | None],
    seconds: float,
) -> None:
    """Finish one tenant's claims: write their texts' vectors, and give up those that have none.

    Vectors that were not made now are copied from an equal text's. A claim whose text waits for the model of some space
    keeps its job. Raises `LeaseLost`.
    """
    if not done:
        return
    tenant_id = next(iter(done)).tenant_id
    waiting = [claim for claim, text in done.items() if any(each.waits(text) for each in spaces)]
    refused = {
        claim: error
        for claim, text in done.items()
        if claim not in waiting
        and (error := next(filter(None, (each.refused(text) for each in spaces)), None))
    }
    written, open_ids = 0, {space.id for space in vectors.written_spaces(connection)}
    for each in spaces:
        if each.space.id not in open_ids:
            # retired meanwhile
            continue
        vectors_of = each.vectors()
        kept = [
            text
            for text in done.values()
            if text is not None
            and not each.waits(text)
            and not each.refused(text)
            and text.key not in each.current
        ]
        for kind in vectors.OWNERS:
            if rows := [(d.id, d.hash, vectors_of.get(d.hash)) for d in kept if d.owner == kind]:
                vectors.put(connection, tenant_id, kind, each.space.id or 0, rows)
        written += len(kept)
    counters.add(
        connection,
        tenant_id,
        {
            "embedding_writes": written,
            "embeddings_made": sum(len(found) for each in spaces for found in each.vectors().values()),
            "embedding_seconds": seconds,
            "embed_failures": len(refused),
        },
    )
    for claim, error in refused.items():
        runner.give_up(connection, claim, error)
    runner.finish(connection, [claim for claim in done if claim not in refused and claim not in waiting])
    if waiting:
        away = "; ".join(f"{each.space.name}: {each.away}" for each in spaces if each.away is not None)
        log.warning("space_waits", rows=len(waiting), error=away)
        runner.finish(connection, waiting, again_in=runner.OUTAGE_SECONDS)
