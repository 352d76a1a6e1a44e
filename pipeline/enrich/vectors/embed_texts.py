"""Embed texts with a model that may fail on some of them, or be out of order."""

from collections.abc import Sequence
from math import hypot

import structlog

from pipeline.clients.protocols import Embedder
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.vectors import Vector

log = structlog.get_logger(__name__)

UNIT_TOLERANCE = 0.05
"""How far from 1 a vector's length may be: half-precision models are only so exact."""
SHORTENED_CHARS = 1000
"""Characters tried of a text that the model refuses."""
PROBE = "Hello"
"""A text that every working model embeds."""


def embed_all(client: Embedder, texts: Sequence[str]) -> list[Vector | ProviderRejected]:
    """Return a vector for each text, or why it has none; a text that breaks the model affects no other.

    A model that fails on a short probe, too, is out of order: raises `ProviderUnavailable`. Otherwise the texts are
    halved until those that break it are isolated, in about log2 n calls each. Of such a text the first
    `SHORTENED_CHARS` characters are embedded, if the model takes these.
    """
    if not texts:
        return []
    try:
        return [*_ask(client, texts)]
    except (ProviderFailed, ProviderRejected) as error:
        if isinstance(error, ProviderFailed):
            _require_working(client, error)
        # texts that are sent again may cost money again
        log.warning("embedding_batch_halved", space=client.space.name, texts=len(texts), error=str(error))
        return _halved(client, texts, error)


def _halved(
    client: Embedder, texts: Sequence[str], error: ProviderFailed | ProviderRejected
) -> list[Vector | ProviderRejected]:
    """Embed texts in halves after the model failed on them together."""
    if len(texts) == 1:
        return [_shortened(client, texts[0], error)]
    answers: list[Vector | ProviderRejected] = []
    for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
        try:
            answers += _ask(client, half)
        except (ProviderFailed, ProviderRejected) as failure:
            answers += _halved(client, half, failure)
    return answers


def _shortened(
    client: Embedder, text: str, error: ProviderFailed | ProviderRejected
) -> Vector | ProviderRejected:
    """Embed a text shortened after the model failed on it alone."""
    if isinstance(error, ProviderRejected) and len(text) <= SHORTENED_CHARS:
        return error
    try:
        return _ask(client, [text[:SHORTENED_CHARS]])[0]
    except ProviderRejected as rejected:
        return rejected
    except ProviderFailed as failure:
        # it may have broken down since the last call
        _require_working(client, failure)
        return ProviderRejected(f"{failure}; it embeds other texts")


def _require_working(client: Embedder, error: ProviderFailed) -> None:
    """Raise `ProviderUnavailable` if the model does not embed the probe either."""
    try:
        _ask(client, [PROBE])
    except (ProviderFailed, ProviderRejected):
        raise ProviderUnavailable(f"{error}; nor does it embed “{PROBE}”") from error


def _ask(client: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return the model's vectors; raise `ProviderFailed` for a wrong number, size or length of vectors.

    A vector of zeros or NaN would be stored, but no query would find it.
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
