"""Sessions and memories that were found for a question, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class SessionCard:
    """What is known of a session that was found."""

    id: int
    started_at: datetime
    ended_at: datetime
    summary: str | None
    topics: Sequence[str]
    entities: Sequence[str]
    session_key: str
    message_count: int


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """A memory that was found, with its final score."""

    id: str
    scope: str
    type: str
    content: str
    source: str
    document_id: str | None
    chunk_index: int | None
    score: float
    # what the score is the product of
    components: Mapping[str, float] = field(default_factory=dict)
    # to the question's vector; None while it has none
    cosine: float | None = None
