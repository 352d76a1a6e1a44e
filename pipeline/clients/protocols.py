"""Protocols of models: texts to vectors, messages to a summary."""

from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Protocol

from schemas.sessions import Message, Summary
from schemas.vectors import EmbeddingSpace, Vector


class Embedder(Protocol):
    """Texts to vectors of one space.

    Both methods raise `ProviderUnavailable` (it does not answer, or has no memory: try again later),
    `ProviderFailed` (it answers that it failed, and the input may be why) or `ProviderRejected` (never for
    this input).
    A text longer than the embedder reads is cut at its end.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """Return the space of the vectors; its `id` is None."""
        ...

    @property
    def max_tokens(self) -> int:
        """Return how many tokens of a text are read, by `count_tokens`; chunks are cut to this."""
        ...

    def count_tokens(self, text: str) -> int:
        """Count the model's tokens in a text."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector for each text, in order; `len(texts)` lists of `space.dimensions` floats."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a question, with the space's query prefix."""
        ...


class Reranker(Protocol):
    """A question and texts, read together, to how well each answers."""

    @property
    def model(self) -> str:
        """Return its name for messages."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score from 0 to 1 for each text, in order.

        Raises `ProviderUnavailable` or `ProviderRejected`.
        """
        ...


class Summarizer(Protocol):
    """A session's messages to their summary."""

    @property
    def model(self) -> str:
        """Return the name that is stored with the summary, such as `extractive-v1`."""
        ...

    def summarize(
        self, messages: Sequence[Message], previous: Summary | None = None, *, time_zone: tzinfo = UTC
    ) -> Summary:
        """Summarize at least one message, in order of time.

        `previous` is the summary of what came before them in the same session, and is carried on.
        `time_zone` is the chat's: dates in the summary are those of its calendar.
        Raises `ProviderUnavailable` or `ProviderRejected`.
        """
        ...
