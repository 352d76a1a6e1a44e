"""Embed messages as they come, sessions when they are summarized, memories when they are written.

A text that is longer than the model reads has a vector for each of its chunks. Those of a message text that was
embedded before are copied. While a provider is away the jobs stay due, and search goes by keywords.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from time import monotonic

import structlog
from sqlalchemy import Connection

from pipeline.clients.protocols import Embedder
from pipeline.enrich import embedding_text
from pipeline.enrich.embed_texts import embed_all
from pipeline.enrich.embedding_text import OwnedText
from pipeline.jobs import runner
from pipeline.jobs.batches import batched
from pipeline.jobs.runner import Claim
from pipeline.store import counters, jobs, vectors
from pipeline.store.database import Database
from schemas.errors import LeaseLost, ProviderRejected, SettingsError
from schemas.vectors import Vector

log = structlog.get_logger(__name__)

PORTION = 128
"""Texts or chunks that the model is given at once; their vectors are saved before it is given the next."""
MAX_CHARS = 16_000
"""Characters of a text that are embedded, unless a setting says so."""
Made = Mapping[bytes, Sequence[Vector] | ProviderRejected]
"""The vectors of each chunk of a text, or why it has none, by the text's hash."""
TURN_SECONDS = 15.0
"""When claims that are not embedded yet are released: others wait for the model."""


def embedder(database: Database, client: Embedder, *, max_chars: int = MAX_CHARS) -> runner.Handler:
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
            texts = {text.key: text for text in embedding_text.load(connection, [c.key for c in claims])}
            hashes = [text.hash for text in texts.values() if text.owner == "message"]
            known = vectors.known_hashes(connection, space_id, hashes)
        unknown = {
            d.hash: d.chunks(max_tokens=client.max_tokens, count=client.count_tokens, max_chars=max_chars)
            for d in texts.values()
            if d.owner != "message" or d.hash not in known
        }
        urgent = {
            texts[claim.key].hash for claim in claims if claim.priority == jobs.LIVE and claim.key in texts
        }
        # Live messages first; then by length, so that little is padded, the longest first, as they take most memory.
        rest = sorted(unknown, key=lambda each: (each not in urgent, -sum(map(len, unknown[each]))))
        left = list(claims)
        while left:
            # what a server has answered is saved before it is asked again: a model's server may be slow, or go away
            size = min(getattr(client, "batch_size", PORTION), PORTION)
            portion = next(batched(rest, len(rest) + 1, size, lambda each: len(unknown[each])), [])
            rest = rest[len(portion) :]
            started = monotonic()
            made = _made(client, {each: unknown[each] for each in portion})
            seconds = monotonic() - started
            waiting = set(rest)
            later = {key for key, text in texts.items() if text.hash in waiting}
            done, left = [c for c in left if c.key not in later], [c for c in left if c.key in later]
            is_over = monotonic() > deadline
            given = {claim: texts.get(claim.key) for claim in done}
            _keep(database, space_id, given, made, seconds, left if is_over else ())
            if is_over and left:
                return {"embed"}
        return set()

    return handle


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
    space_id: int,
    done: Mapping[Claim, OwnedText | None],
    made: Made,
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
                _save(connection, space_id, {c: done[c] for c in claims if c in done}, made, seconds)
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
    space_id: int,
    done: Mapping[Claim, OwnedText | None],
    made: Made,
    seconds: float,
) -> None:
    """Finish one tenant's claims: write their texts' vectors, and give up those that have none.

    Vectors that were not made now are copied from an equal text's. Raises `LeaseLost`.
    """
    if not done:
        return
    tenant_id = next(iter(done)).tenant_id
    refused = {
        claim: error
        for claim, text in done.items()
        if text is not None and isinstance(error := made.get(text.hash), ProviderRejected)
    }
    kept = [text for claim, text in done.items() if text is not None and claim not in refused]
    vectors_of = {each: found for each, found in made.items() if not isinstance(found, ProviderRejected)}
    for kind in vectors.OWNERS:
        if rows := [(d.id, d.hash, vectors_of.get(d.hash)) for d in kept if d.owner == kind]:
            vectors.put(connection, tenant_id, kind, space_id, rows)
    counters.add(
        connection,
        tenant_id,
        {
            "embedding_writes": len(kept),
            "embeddings_made": sum(map(len, vectors_of.values())),
            "embedding_seconds": seconds,
            "embed_failures": len(refused),
        },
    )
    for claim, error in refused.items():
        runner.give_up(connection, claim, error)
    runner.finish(connection, [claim for claim in done if claim not in refused])
