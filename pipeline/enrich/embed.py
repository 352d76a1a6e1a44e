"""Embed messages as they come, sessions when they are summarized, memories when they are written.

The vector of a message text that was embedded before is copied. While a provider is away the jobs stay due, and search
goes by keywords.
"""

from collections.abc import Mapping, Sequence
from time import monotonic

import structlog
from sqlalchemy import Connection

from pipeline.clients.protocols import Embedder
from pipeline.enrich import embedding_text
from pipeline.enrich.embed_texts import embed_all
from pipeline.enrich.embedding_text import OwnedText
from pipeline.jobs import runner
from pipeline.jobs.runner import Claim
from pipeline.store import counters, jobs, vectors
from pipeline.store.database import Database
from schemas.errors import LeaseLost, ProviderRejected, SettingsError
from schemas.vectors import Vector

log = structlog.get_logger(__name__)

PORTION = 128
"""Texts that the model is given at once; their vectors are saved before it is given the next."""
TURN_SECONDS = 15.0
"""When claims that are not embedded yet are released: others wait for the model."""


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
            texts = {text.key: text for text in embedding_text.load(connection, [c.key for c in claims])}
            hashes = [text.hash for text in texts.values() if text.owner == "message"]
            known = vectors.known_hashes(connection, space_id, hashes)
        unknown = {d.hash: d.text for d in texts.values() if d.owner != "message" or d.hash not in known}
        urgent = {
            texts[claim.key].hash for claim in claims if claim.priority == jobs.LIVE and claim.key in texts
        }
        # Live messages first; then by length, so that little is padded, the longest first, as they take most memory.
        rest = sorted(unknown, key=lambda each: (each not in urgent, -len(unknown[each])))
        left = list(claims)
        while left:
            # what a server has answered is saved before it is asked again: a model's server may be slow, or go away
            size = min(getattr(client, "batch_size", PORTION), PORTION)
            portion, rest = rest[:size], rest[size:]
            started = monotonic()
            made = dict(zip(portion, embed_all(client, [unknown[each] for each in portion]), strict=True))
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


def _keep(
    database: Database,
    space_id: int,
    done: Mapping[Claim, OwnedText | None],
    made: Mapping[bytes, Vector | ProviderRejected],
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
    made: Mapping[bytes, Vector | ProviderRejected],
    seconds: float,
) -> None:
    """Finish one tenant's claims: write their texts' vectors, and give up those that have none.

    A vector that was not made now is copied from an equal text's. Raises `LeaseLost`.
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
