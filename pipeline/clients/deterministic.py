"""Embed without a model: words hashed into dimensions, the same on every machine and in every language.

It finds shared words, not shared meaning: for tests, small installations, and as a baseline for models.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

from pipeline.text.caches import cached
from schemas.vectors import EmbeddingSpace, Vector

PROVIDER = "deterministic"
MODEL = "deterministic-hash-v1"
DIMENSIONS = 256
MAX_CHARS = 4000
"""Characters of a text that are read: a vector of too many words resembles none of them."""

_TOKEN = re.compile(r"[a-z0-9']+")
_SHORTEST = 2
_LONGEST = 12  # characters beyond add no weight
_BIGRAM_WEIGHT = 0.5


def fnv1a_utf16(text: str) -> int:
    """Return the 32-bit FNV-1a hash over UTF-16 code units, as JavaScript clients compute it.

    >>> hex(fnv1a_utf16("a"))
    '0xe40c292c'
    """
    value = 0x811C9DC5
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    for unit in units:
        value = ((value ^ unit) * 0x01000193) & 0xFFFFFFFF
    return value


@cached
def _hash_of(token: str) -> int:
    return fnv1a_utf16(token)


class DeterministicEmbedder:
    """Hashed words and word pairs: `deterministic-hash-v1`.

    A lower-cased token `[a-z0-9']+` of at least 2 characters adds ±(1 + min(length, 12) / 12), a pair of neighbours
    `a_b` ±0.5, at dimension hash mod d, with plus if the hash is even; the sum is scaled to length 1. A text without
    tokens is 1 at hash(text) mod d.
    """

    def __init__(
        self,
        *,
        dimensions: int = DIMENSIONS,
        max_chars: int = MAX_CHARS,
        query_prefix: str = "",
        document_prefix: str = "",
    ) -> None:
        self._max_chars = max_chars
        self._space = EmbeddingSpace(
            provider=PROVIDER,
            model=MODEL,
            dimensions=dimensions,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
        )

    @property
    def space(self) -> EmbeddingSpace:
        return self._space

    @property
    def max_tokens(self) -> int:
        return self._max_chars

    def count_tokens(self, text: str) -> int:
        # Its limit is `max_chars`, so its tokens are characters.
        return len(text)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [self._embed(self._space.document_prefix + text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        return self._embed(self._space.query_prefix + text)

    def _embed(self, text: str) -> Vector:
        text = text[: self._max_chars]
        dimensions = self._space.dimensions
        vector = [0.0] * dimensions
        tokens = [token for token in _TOKEN.findall(text.lower()) if len(token) >= _SHORTEST]
        for token in tokens:
            value = _hash_of(token)
            weight = 1 + min(len(token), _LONGEST) / _LONGEST
            vector[value % dimensions] += weight if value % 2 == 0 else -weight
        for first, second in pairwise(tokens):
            value = _hash_of(f"{first}_{second}")
            vector[value % dimensions] += _BIGRAM_WEIGHT if value % 2 == 0 else -_BIGRAM_WEIGHT
        length = sqrt(sum(x * x for x in vector))
        if not length:
            # No tokens; or, with an odd number of dimensions, tokens that cancel out.
            vector[fnv1a_utf16(text) % dimensions] = 1.0
            return vector
        return [x / length for x in vector]
