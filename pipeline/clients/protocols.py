"""Protocols of models: texts to vectors, a question and texts to scores, a prompt to an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.vectors import EmbeddingSpace, Vector


class Embedder(Protocol):
    """A model that embeds texts into one space; it truncates longer texts than it reads, so callers split them.

    Both methods raise `ProviderUnavailable` (no answer, or out of memory: retry later), `ProviderFailed` (it failed,
    and the input may be to blame) or `ProviderRejected` (never for this input).
    """

    @property
    def space(self) -> EmbeddingSpace:
        """Return the space of the vectors; its `id` is None."""

    @property
    def max_tokens(self) -> int:
        """Return how many tokens of a text are read, by `count_tokens`; chunks are cut to this."""

    def count_tokens(self, text: str) -> int:
        """Count the model's tokens in a text."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector for each text, in order, of `space.dimensions` floats."""

    def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a question, with the space's query prefix."""


class Reranker(Protocol):
    """A model that scores how well texts answer a question, by reading both together."""

    @property
    def model(self) -> str:
        """Return its name for messages."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score from 0 to 1 for each text, in order. Raises `ProviderUnavailable` or `ProviderRejected`."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The input of a language model."""

    # the instructions
    system: str
    # the data; then, after an unusable answer, that answer and what is wrong with it
    turns: tuple[str, ...]
    # JSON schema of the answer; None: plain text
    schema: Mapping[str, Any] | None = None
    # most tokens of the answer
    max_tokens: int = 800


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The answer of a language model."""

    text: str
    # whether it was cut off at `max_tokens`
    truncated: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    # the provider's id of the request, if it said one
    request_id: str | None = None


class ChatModel(Protocol):
    """A language model that answers prompts."""

    @property
    def model(self) -> str:
        """Return the provider's name of the model."""

    @property
    def provider(self) -> str:
        """Return the base URL's host and port, whose models share limits."""

    def complete(self, prompt: Prompt, *, timeout_seconds: float) -> Completion:
        """Answer a prompt, within `timeout_seconds` in all.

        Raises `ProviderUnavailable` (no answer, 429 or 5xx: with `retry_after` seconds if it said so),
        `ProviderFailed` (an answer that cannot be read) or `ProviderRejected` (4xx: never for this input).
        """
