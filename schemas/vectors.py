"""Embedding spaces: which model made a vector, and asked in which way; two spaces are never compared."""

from dataclasses import dataclass, replace
from typing import Literal

VectorSearch = Literal["exact", "hnsw", "off"]
"""How a query was compared: with every vector in scope, with those that the index leads to, with none."""

Vector = list[float]
"""One embedding: as many floats as its space has dimensions, of length 1."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingSpace:
    """Everything that decides whether two vectors may be compared."""

    # identity in the database, or None as long as it has not been stored
    id: int | None = None
    # `deterministic`, `sentence-transformers`, `ollama` or `openai`
    provider: str
    # the model as its provider calls it
    model: str
    # how many floats one vector has
    dimensions: int
    # put before the text of a query
    query_prefix: str = ""
    # put before the text of a document
    document_prefix: str = ""

    @property
    def name(self) -> str:
        """What people call it, unique among the spaces of one deployment.

        >>> EmbeddingSpace(provider="deterministic", model="deterministic-hash-v1", dimensions=256).name
        'deterministic/deterministic-hash-v1/256'
        """
        return f"{self.provider}/{self.model}/{self.dimensions}"

    def same_as(self, other: "EmbeddingSpace") -> bool:
        """Whether vectors of both may be compared, be they stored or not."""
        return replace(self, id=None) == replace(other, id=None)
