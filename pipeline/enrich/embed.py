"""Embed messages as they arrive, sessions when they are summarized, memories when they are written; into each space.

Each is embedded into every written space (active, building or standby), and its vectors appear in all of them at once.
A text longer than a model reads has a vector for each of its chunks. Vectors of a message text that was embedded before
are copied. While a provider is down, jobs stay due for its space only; if that is the active one, search uses keywords.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from urllib.parse import urlsplit

import structlog
from sqlalchemy import Connection

from pipeline.clients import by_space, deterministic
from pipeline.clients.by_space import Embedding, embedder_of
from pipeline.clients.http_embedder import HttpEmbedder
from pipeline.clients.protocols import Embedder
from pipeline.enrich import embed_texts
from pipeline.enrich.embed_texts import OwnedText, embed_all
from pipeline.jobs import failures, runner
from pipeline.llm import ledger
from pipeline.llm.ledger import EmbeddingCall, Prices, load_prices
from pipeline.store import vector_spaces, vectors
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import batched
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.memories import learned
from pipeline.store.operations import counters
from schemas.errors import LeaseLost, ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.vectors import EmbeddingSpace, Vector

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
        measured = by_space.calibrate(client)
    except (ProviderUnavailable, ProviderFailed, ProviderRejected) as error:
        log.warning("space_not_calibrated", space=space.name, error=str(error))
        return False
    if measured is not None:
        with database.tenant(tenant_id) as connection:
            vector_spaces.calibrate(connection, space, *measured)
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


def embed_in_spaces(
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


log = structlog.get_logger(__name__)

PORTION, PORTION_CHARS = 128, 8_000
"""Chunks and characters passed to a model at once; their vectors are saved before the next portion.

Small enough that a machine under tenfold load saves them within a task's time limit.
"""
MAX_CHARS = 16_000
"""Default limit of a text's characters that are embedded."""
TURN_SECONDS = 15.0
"""When claims that are not embedded yet are released, as others wait for the model."""


def embedder(
    database: Database, embedding: Embedding, *, max_chars: int = MAX_CHARS, prices: Prices | None = None
) -> runner.Handler:
    """Make the handler of `embed` jobs: each claim is a message, a session or a memory.

    Calls to a server are recorded with their cost, by default at the built-in prices.
    """
    prices = prices or load_prices()
    # by id, spaces whose models are down: until when they are not asked again, and why
    resting: dict[int | None, tuple[float, ProviderUnavailable]] = {}
    # spaces that are calibrated, or cannot be
    measured: set[int | None] = set()

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        deadline = monotonic() + TURN_SECONDS
        with database.tenant(tenant_id) as connection:
            written = vectors.written_spaces(connection)
        clients = [(space, *client_of(embedding, space)) for space in written]
        with database.tenant(tenant_id) as connection:
            texts = {text.key: text for text in embed_texts.load_texts(connection, [c.key for c in claims])}
            spaces = [
                prepare(connection, space, client, away, list(texts.values()))
                for space, client, away in clients
            ]
        if not spaces:
            raise ProviderUnavailable("there is no embedding space: run `backscroll db upgrade`")
        for writing in spaces:
            if writing.away is None and len(spaces) > 1:
                writing.away = why_resting(writing, resting)
            cut(writing, max_chars, resting)
        urgent = {
            texts[claim.key].hash for claim in claims if claim.priority == jobs.LIVE and claim.key in texts
        }
        # each text's largest number of chunks in any space
        sizes: dict[bytes, int] = {}
        for writing in spaces:
            for hash_ in writing.unknown:
                sizes[hash_] = max(sizes.get(hash_, 1), len(writing.chunks.get(hash_, ())))
        length = {hash_: len(text.text) for writing in spaces for hash_, text in writing.unknown.items()}
        # a server's answer is saved before it is asked again: it may be slow, or go down
        size = min([PORTION, *(getattr(writing.client, "batch_size", PORTION) for writing in spaces)])
        # Live messages first; then by length, for little padding, the longest first, as they take most memory.
        rest = sorted(sizes, key=lambda hash_: (hash_ not in urgent, -min(length[hash_], max_chars)))
        left = list(claims)
        while left:
            portion = _portion(rest, sizes, length, size)
            rest = rest[len(portion) :]
            started = monotonic()
            for writing in spaces:
                if (call := embed_in_spaces(writing, portion, resting)) is not None:
                    ledger.record_embedding(database, tenant_id, call, prices)
            if portion and not any(writing.away is None for writing in spaces):
                raise next(writing.away for writing in spaces if writing.away is not None)
            seconds = monotonic() - started
            waiting = set(rest)
            later = {key for key, text in texts.items() if text.hash in waiting}
            done, left = [c for c in left if c.key not in later], [c for c in left if c.key in later]
            is_over = monotonic() > deadline
            done_texts = {claim: texts.get(claim.key) for claim in done}
            _keep(database, spaces, done_texts, seconds, left if is_over else ())
            for writing in spaces:
                if (
                    writing.made
                    and writing.space.id not in measured
                    and calibrate(database, tenant_id, writing)
                ):
                    measured.add(writing.space.id)
            if is_over and left:
                return {"embed"}
        return set()

    return handle


def _portion(
    rest: Sequence[bytes], sizes: Mapping[bytes, int], length: Mapping[bytes, int], size: int
) -> list[bytes]:
    """Return the first remaining texts, up to `size` chunks and `PORTION_CHARS`, but at least one."""
    by_chunks = next(batched(rest, len(rest) + 1, size, sizes.__getitem__), [])
    return next(batched(by_chunks, len(by_chunks) + 1, PORTION_CHARS, length.__getitem__), [])


def _keep(
    database: Database,
    spaces: Sequence[SpaceWriting],
    done: Mapping[Claim, OwnedText | None],
    seconds: float,
    left: Sequence[Claim],
) -> None:
    """Save the vectors of one tenant's claims that are still held, and release those in `left`.

    A claim that was overtaken (deleted, edited or merged meanwhile, or its lease expired) is no failure.
    """
    claims = [*done, *left]
    while claims:
        try:
            with database.tenant(claims[0].tenant_id) as connection:
                _save(connection, spaces, {c: done[c] for c in claims if c in done}, seconds)
                if untried := [c for c in claims if c not in done]:
                    jobs.release(connection, untried, delay_seconds=0, error=None)
                    for claim in untried:
                        runner.pass_over(claim)
        except LeaseLost:
            with database.tenant(claims[0].tenant_id) as connection:
                held = jobs.still_held(connection, claims)
            log.info("embed_overtaken", rows=len(claims) - len(held))
            for claim in claims:
                if claim not in held:
                    runner.pass_over(claim)
            claims = held
        else:
            return


def _save(
    connection: Connection,
    spaces: Sequence[SpaceWriting],
    done: Mapping[Claim, OwnedText | None],
    seconds: float,
) -> None:
    """Finish one tenant's claims: write their texts' vectors, and give up those that the model refused.

    Vectors that were not made now are copied from an equal text's. A claim whose text waits for a space's model stays
    due. Raises `LeaseLost`.
    """
    if not done:
        return
    tenant_id = next(iter(done)).tenant_id
    waiting = [claim for claim, text in done.items() if any(writing.waits(text) for writing in spaces)]
    refused = {
        claim: error
        for claim, text in done.items()
        if claim not in waiting
        and (error := next(filter(None, (writing.refused(text) for writing in spaces)), None))
    }
    written: dict[str, int] = {}
    open_ids = {space.id for space in vectors.written_spaces(connection)}
    for writing in spaces:
        if writing.space.id not in open_ids:
            # retired meanwhile
            continue
        vectors_of = writing.vectors()
        embedded = [
            text
            for text in done.values()
            if text is not None
            and not writing.waits(text)
            and not writing.refused(text)
            and text.key not in writing.current
        ]
        for kind in vectors.OWNERS:
            if rows := [(d.id, d.hash, vectors_of.get(d.hash)) for d in embedded if d.owner == kind]:
                vectors.put(connection, tenant_id, kind, writing.space.id or 0, rows)
        written[writing.space.name] = len(embedded)
    counters.add(
        connection,
        tenant_id,
        {
            "embedding_writes": sum(written.values()),
            "embeddings_made": sum(len(made) for writing in spaces for made in writing.vectors().values()),
            "embedding_seconds": seconds,
            **{counters.IN_SPACE + name: count for name, count in written.items()},
        },
    )
    for claim, error in refused.items():
        runner.give_up(connection, claim, error)
    vectored = [d.id for d in done.values() if d is not None and d.owner == "memory"]
    if memory_ids := learned.learned(connection, vectored):
        # with vectors, memories that say the same can be found
        jobs.enqueue(connection, tenant_id, "extract", [f"memory:{id_}" for id_ in memory_ids])
    jobs.finish(connection, [claim for claim in done if claim not in refused and claim not in waiting])
    for claim, text in done.items():
        if text is None:
            # deleted or forgotten, or without words
            runner.pass_over(claim)
    if waiting:
        away = [writing for writing in spaces if writing.away is not None]
        reasons = "; ".join(f"{writing.space.name}: {writing.away}" for writing in away)
        log.warning("space_waits", rows=len(waiting), error=reasons)
        for claim in waiting:
            runner.fail(claim, away[0].away or ProviderUnavailable(reasons))
        message = reasons[: failures.MAX_ERROR_CHARS]
        jobs.finish(connection, waiting, again_in=failures.OUTAGE_SECONDS, error=message)
