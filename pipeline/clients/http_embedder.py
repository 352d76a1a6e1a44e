"""Embed by a server of any protocol: batches, prefixes, time limits and checks."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, isfinite
from time import monotonic
from typing import Any, Protocol

import structlog

from pipeline.clients.http_calls import Calls
from pipeline.clients.known_models import KnownModel
from pipeline.text import tokens
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable, SettingsError
from schemas.vectors import EmbeddingSpace, Vector

log = structlog.get_logger(__name__)

MAX_DIMENSIONS = 16_000
"""Most dimensions that the column type `halfvec` stores."""
QUESTION_SECONDS = 3.0
"""How long a question waits for its vector; without a vector it is answered by keywords."""
AWAY_SECONDS = 10.0
"""How long questions go without vectors after a server failed on one, unless it asks for longer …"""
MAX_AWAY_SECONDS = 60.0
"""… but at most this long."""
# Servers count tokens by their own vocabularies; ours is an estimate, so leave a margin.
_READ_SHARE = 0.75
# A batch that was too slow is shrunk to take this share of the time limit.
_SHARE_OF_TIMEOUT = 0.5


class EmbeddingServer(Protocol):
    """A server's protocol and address."""

    @property
    def provider(self) -> str:
        """Return the provider's name in settings and spaces."""

    @property
    def url(self) -> str:
        """Return its address, for messages."""

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        """Return its vectors for the texts, unchecked. Raises as `Embedder` does."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """Options of calls to a server."""

    timeout_seconds: float = 12.0
    batch_size: int = 32
    max_chars: int = 16_000
    # None: the model's own
    query_prefix: str | None = None
    document_prefix: str | None = None
    dimensions: int | None = None


class HttpEmbedder:
    """A model behind a server; threads that share it ask at the same time."""

    def __init__(self, server: EmbeddingServer, model: str, known: KnownModel, options: HttpOptions) -> None:
        self._server = server
        self._model = model
        self._options = options
        self._query_prefix = known.query_prefix if options.query_prefix is None else options.query_prefix
        self._document_prefix = (
            known.document_prefix if options.document_prefix is None else options.document_prefix
        )
        self._dimensions = options.dimensions or known.dimensions
        # that surely are read
        self.max_tokens = int(known.max_tokens * _READ_SHARE)
        # where texts are sent
        self.url = server.url
        # texts in a request: as set, or fewer after the server was too slow
        self.batch_size = options.batch_size
        self._calls = Calls()
        self._lock = threading.Lock()
        # questions wait for nothing before then
        self._away_until = 0.0
        self._why_away = ""

    @property
    def space(self) -> EmbeddingSpace:
        """Return the model's space; asks the server if its dimensions are not known."""
        if self._dimensions is None:
            self._measure()
        return self.space_by_name

    @property
    def space_by_name(self) -> EmbeddingSpace:
        """Return the space without asking; it has 0 dimensions if they are not known."""
        return EmbeddingSpace(
            provider=self._server.provider,
            model=self._model,
            dimensions=self._dimensions or 0,
            query_prefix=self._query_prefix,
            document_prefix=self._document_prefix,
        )

    def count_tokens(self, text: str) -> int:
        return tokens.estimate(text)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        slow = False
        while len(vectors) < len(texts):
            batch = texts[len(vectors) : len(vectors) + self.batch_size]
            began = monotonic()
            try:
                vectors += self._checked(self._prepared(batch), self._options.timeout_seconds)
            except TimeoutError:
                # the batch was too large for this server, or it hangs: one more call tells which
                if slow or len(batch) == 1:
                    raise self._too_slow(self._options.timeout_seconds) from None
                log.warning(
                    "embedding_server_slow", server=self._name, texts=len(batch), seconds=monotonic() - began
                )
                slow, self.batch_size = True, 1
            else:
                self._fit(len(batch), monotonic() - began)
        return vectors

    def embed_query(self, text: str) -> Vector:
        return self._of_question(self._query_prefix + text[: self._options.max_chars])

    def close(self) -> None:
        """Close the connections, while no call is running; a process that keeps its embedder need not."""
        self._calls.run(self._server.close, QUESTION_SECONDS)
        self._calls.close()

    def _prepared(self, texts: Sequence[str]) -> list[str]:
        return [self._document_prefix + text[: self._options.max_chars] for text in texts]

    def _of_question(self, text: str) -> Vector:
        """Embed a text without a prefix, within the time of a question."""
        self._require_answering()
        seconds = min(QUESTION_SECONDS, self._options.timeout_seconds)
        try:
            (vector,) = self._checked([text], seconds)
        except TimeoutError:
            error = self._too_slow(seconds)
            self._rest(error)
            raise error from None
        except (ProviderUnavailable, ProviderFailed) as error:
            self._rest(error)
            raise
        self._away_until = 0.0
        return vector

    def _measure(self) -> None:
        try:
            self._of_question(".")
        except (ProviderFailed, ProviderRejected) as error:
            # whatever is wrong, no text is to blame
            raise ProviderUnavailable(str(error)) from error

    def _checked(self, texts: Sequence[str], seconds: float) -> list[Vector]:
        """Return the unit vectors of texts without a prefix. Raises as `Embedder` does, and `TimeoutError`."""
        answer = self._calls.run(lambda: self._server.embed(texts), seconds)
        if len(answer) != len(texts):
            raise ProviderFailed(f"{self._name} answered {len(answer)} vectors for {len(texts)} texts")
        vectors = [self._unit(vector) for vector in answer]
        if self._dimensions is None:
            require_storable(len(vectors[0]), self._model)
            self._dimensions = len(vectors[0])
        for vector in vectors:
            if len(vector) != self._dimensions:
                raise ProviderFailed(
                    f"{self._name} answered a vector of {len(vector)} dimensions where {self._dimensions} are right"
                )
        return vectors

    def _unit(self, vector: Any) -> Vector:
        """Return an answered vector, scaled to length 1. Raises `ProviderFailed`."""
        try:
            length = hypot(*vector)
        except TypeError:
            raise ProviderFailed(f"{self._name} answered something that is no vector") from None
        if not isfinite(length) or not length:
            raise ProviderFailed(f"{self._name} answered a vector of length {length}")
        return [value / length for value in vector]

    def _fit(self, texts: int, seconds: float) -> None:
        """Size batches to take half the time limit, but no larger than set."""
        fits = int(_SHARE_OF_TIMEOUT * self._options.timeout_seconds * texts / max(seconds, 1e-6))
        self.batch_size = max(1, min(self._options.batch_size, fits))

    def _require_answering(self) -> None:
        """Raise `ProviderUnavailable` for a while after the server failed on a question; then let one try again."""
        with self._lock:
            if monotonic() < self._away_until:
                raise ProviderUnavailable(self._why_away)
            if self._away_until:
                # other questions do not wait for this try
                self._away_until = monotonic() + QUESTION_SECONDS

    def _rest(self, error: ProviderUnavailable | ProviderFailed) -> None:
        retry_after = getattr(error, "retry_after", None) or 0.0
        with self._lock:
            self._away_until = monotonic() + min(max(AWAY_SECONDS, retry_after), MAX_AWAY_SECONDS)
            self._why_away = str(error)

    def _too_slow(self, seconds: float) -> ProviderUnavailable:
        return ProviderUnavailable(f"{self._name} did not answer within {seconds:g} s")

    @property
    def _name(self) -> str:
        return f"{self._server.provider} ({self._model}) at {self.url}"


def require_storable(dimensions: int, model: str) -> None:
    """Raise `SettingsError` for vectors that the tables cannot store."""
    if dimensions > MAX_DIMENSIONS:
        raise SettingsError(
            f"BACKSCROLL_EMBEDDING_MODEL={model} makes vectors of {dimensions:,} dimensions, and at most "
            f"{MAX_DIMENSIONS:,} can be stored: set BACKSCROLL_EMBEDDING_DIMENSIONS if the model can make "
            "shorter ones, or name another."
        )
