"""What the pipeline asks of a model, whoever serves it: turn text into vectors, messages into a summary."""

from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Protocol

from schemas.sessions import Message
from schemas.summaries import Summary
from schemas.vectors import EmbeddingSpace, Vector


class Embedder(Protocol):
    """Text to vectors of one space.

    Both methods raise `ProviderUnavailable` (it does not answer, or has no memory: try again later),
    `ProviderFailed` (it answers that it failed, and the input may be why) or `ProviderRejected` (never for
    this input).
    A text longer than the embedder reads is cut at its end.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """Which space the vectors are of; its `id` is None."""
        ...

    @property
    def max_tokens(self) -> int:
        """How many tokens of one text are read, as `count_tokens` counts them; chunks are cut to this."""
        ...

    def count_tokens(self, text: str) -> int:
        """How many tokens this text is for the model."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector for each text, in order; `len(texts)` lists of `space.dimensions` floats."""
        ...

    def embed_query(self, text: str) -> Vector:
        """The unit vector of a question, with what the space puts before one."""
        ...


class Reranker(Protocol):
    """A question and texts, read together, to how well each answers."""

    @property
    def model(self) -> str:
        """Its name, as a message may tell it."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """One share from 0 to 1 for each text, in order.

        Raises `ProviderUnavailable` or `ProviderRejected`.
        """
        ...


class Summarizer(Protocol):
    """A session's messages to what they were about."""

    @property
    def model(self) -> str:
        """The name that is stored with the summary, such as `extractive-v1`."""
        ...

    def summarize(
        self, messages: Sequence[Message], previous: Summary | None = None, *, time_zone: tzinfo = UTC
    ) -> Summary:
        """The summary of these messages, in order of time; at least one.

        `previous` is the summary of what came before them in the same session, and is carried on.
        `time_zone` is the chat's: dates in the summary are those of its calendar.
        Raises `ProviderUnavailable` or `ProviderRejected`.
        """
        ...
