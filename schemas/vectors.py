"""Embedding spaces: the model of a vector and its settings; vectors of two spaces are never compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

VectorSearch = Literal["exact", "hnsw", "off"]
"""How a query was compared: with all vectors in scope, with those that the index finds, or with none."""

Vector = Sequence[float]
"""One embedding: as many floats as its space has dimensions, of length 1; a list, or an array of 4-byte floats."""


SpaceStatus = Literal["building", "active", "standby", "retired"]
"""Of an embedding space: being filled, searched, written still so that one may go back to it, or given up.

All but a retired one get the vectors of whatever is new.
"""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What brings a space's cosines to the scale on which limits of similarity are written.

    It is that of all-MiniLM-L6-v2; see `pipeline.clients.by_space`.
    """

    # `height + slope * cosine`
    slope: float
    height: float


@dataclass(frozen=True, kw_only=True)
class EmbeddingSpace:
    """All that decides whether two vectors may be compared."""

    # in the database; None: not stored
    id: int | None = None
    # `deterministic`, `onnx`, `sentence-transformers`, `ollama` or `openai`
    provider: str
    # the provider's name of the model
    model: str
    # floats in a vector
    dimensions: int
    # put before the text of a query
    query_prefix: str = ""
    # put before the text of a document
    document_prefix: str = ""
    # of questions and documents, and of documents among themselves; none: not measured, cosines stay as they are
    questions: Calibration | None = None
    documents: Calibration | None = None

    @property
    def name(self) -> str:
        """Its name, unique in a deployment.

        >>> EmbeddingSpace(provider="deterministic", model="deterministic-hash-v1", dimensions=256).name
        'deterministic/deterministic-hash-v1/256'
        """
        return f"{self.provider}/{self.model}/{self.dimensions}"

    def same_as(self, other: "EmbeddingSpace") -> bool:
        """Return whether vectors of both may be compared, stored or not."""
        left, right = (replace(space, id=None, questions=None, documents=None) for space in (self, other))
        return left == right


@dataclass(frozen=True, kw_only=True)
class StoredSpace:
    """A space in the database."""

    space: EmbeddingSpace
    status: SpaceStatus
    # when searches began to compare in it, the last time; None: never
    activated_at: datetime | None
