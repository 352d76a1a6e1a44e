"""Embed by a server that speaks OpenAI's protocol: OpenAI, Ollama, vLLM, llama.cpp's and others.

Of Ollama's own protocol nothing is lost: it has the same arguments, and truncates texts that are too long by default.
"""

import base64
import sys
import threading
from array import array
from collections.abc import Sequence
from functools import partial
from math import hypot, isfinite
from time import monotonic
from typing import Any, NamedTuple

import structlog

from pipeline.clients.known_models import KnownModel
from pipeline.clients.openai_chat import LEARNED, OpenAIEndpoint, Request
from pipeline.text import tokens
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable, SettingsError
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector

log = structlog.get_logger(__name__)

OPENAI, OLLAMA = "openai", "ollama"
DEFAULT_MODELS = {OLLAMA: "nomic-embed-text", OPENAI: "text-embedding-3-small"}
"""The providers whose models are behind a server, and the model of each when none is named."""
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


class Usage(NamedTuple):
    """What requests took, as their server says."""

    tokens: int = 0
    # of the last one
    request_id: str | None = None


class HttpEmbedder:
    """A model behind a server; threads that share it ask at the same time."""

    def __init__(
        self, endpoint: OpenAIEndpoint, provider: str, known: KnownModel, settings: Settings
    ) -> None:
        self._endpoint = endpoint
        self._provider = provider
        self._model = endpoint.model
        self._name = endpoint.server.name
        self._settings = settings
        query, document = settings.embedding_query_prefix, settings.embedding_document_prefix
        self._query_prefix = known.query_prefix if query is None else query
        self._document_prefix = known.document_prefix if document is None else document
        self._dimensions = settings.embedding_dimensions or known.dimensions
        # that surely are read
        self.max_tokens = int(known.max_tokens * _READ_SHARE)
        # where texts are sent
        self.url = endpoint.url
        # texts in a request: as set, or fewer after the server was too slow
        self.batch_size = settings.embedding_batch_size
        # of each thread
        self._usage = threading.local()
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
            provider=self._provider,
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
        self._endpoint.prepare()
        while len(vectors) < len(texts):
            batch = texts[len(vectors) : len(vectors) + self.batch_size]
            began = monotonic()
            try:
                cut = [self._document_prefix + text[: self._settings.embedding_max_chars] for text in batch]
                vectors += self._checked(cut, self._settings.embedding_timeout_seconds)
            except TimeoutError:
                # the batch was too large for this server, or it hangs: one more call tells which
                if slow or len(batch) == 1:
                    raise self._too_slow(self._settings.embedding_timeout_seconds) from None
                log.warning(
                    "embedding_server_slow",
                    server=self._name,
                    texts=len(batch),
                    seconds=monotonic() - began,
                )
                slow, self.batch_size = True, 1
            else:
                self._fit(len(batch), monotonic() - began)
        return vectors

    def embed_query(self, text: str) -> Vector:
        return self._of_question(self._query_prefix + text[: self._settings.embedding_max_chars])

    def close(self) -> None:
        """Close the connections, while no call is running; a process that keeps its embedder need not."""
        self._endpoint.close()

    def take_usage(self) -> Usage:
        """Return what this thread's calls took since it last asked."""
        usage, self._usage.so_far = getattr(self._usage, "so_far", Usage()), Usage()
        return usage

    def _add_usage(self, tokens: int, request_id: str | None) -> None:
        before = getattr(self._usage, "so_far", Usage())
        self._usage.so_far = Usage(before.tokens + tokens, request_id)

    def _of_question(self, text: str) -> Vector:
        """Embed a text without a prefix, within the time of a question."""
        self._require_answering()
        seconds = min(QUESTION_SECONDS, self._settings.embedding_timeout_seconds)
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
        answer = self._endpoint.ask(
            lambda client: client.embeddings.with_raw_response.create,
            partial(self._request, texts),
            seconds=seconds,
        )
        try:
            used = answer.body.get("usage") or {}
            self._add_usage(int(used.get("prompt_tokens") or 0), answer.request_id)
            vectors = [self._unit(item["embedding"]) for item in self._in_order(answer.body["data"])]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ProviderFailed(
                f"{self._name} answered what cannot be read: {type(error).__name__}"
            ) from error
        if len(vectors) != len(texts):
            raise ProviderFailed(f"{self._name} answered {len(vectors)} vectors for {len(texts)} texts")
        if self._dimensions is None:
            require_storable(len(vectors[0]), self._model)
            self._dimensions = len(vectors[0])
        for vector in vectors:
            if len(vector) != self._dimensions:
                raise ProviderFailed(
                    f"{self._name} answered a vector of {len(vector)} dimensions where {self._dimensions} are right"
                )
        return vectors

    def _request(self, texts: Sequence[str], without: frozenset[str]) -> Request:
        request: Request = {"model": self._model, "input": list(texts)}
        if self._settings.embedding_dimensions is not None:
            request["dimensions"] = self._settings.embedding_dimensions
        if "encoding_format" in without or self._provider == OLLAMA:
            # the SDK would name one
            from openai import omit

            request["extra_body"] = {"encoding_format": omit}
            if self._provider == OLLAMA:
                # it has no keys, and a login in its URL is sent instead
                request["extra_headers"] = {"Authorization": omit}
        else:
            request["encoding_format"] = "float" if "base64" in without else "base64"
        return request

    def _in_order(self, data: list[Any]) -> list[Any]:
        """Return an answer's vectors in the order of the texts; vectors without an index keep their place."""
        # a missing index means 0: Gemini omits that of its first vector
        places = [item.get("index") or 0 for item in data]
        if len(set(places)) == len(places):
            return [item for _, item in sorted(zip(places, data, strict=True), key=lambda pair: pair[0])]
        if any(places):
            raise ProviderFailed(f"{self._name} numbers its vectors {places[:10]}: whose are they?")
        LEARNED.record(self.url, self._model, ["index"])
        return data

    def _unit(self, vector: Any) -> Vector:
        """Return an answered vector, numbers or their four bytes each in base64, scaled to length 1."""
        if isinstance(vector, str):
            numbers = array("f", base64.b64decode(vector, validate=True))
            if sys.byteorder == "big":
                numbers.byteswap()
            vector = numbers
        length = hypot(*vector)
        if not isfinite(length) or not length:
            raise ProviderFailed(f"{self._name} answered a vector of length {length}")
        return [value / length for value in vector]

    def _fit(self, texts: int, seconds: float) -> None:
        """Size batches to take half the time limit, but no larger than set."""
        fits = int(_SHARE_OF_TIMEOUT * self._settings.embedding_timeout_seconds * texts / max(seconds, 1e-6))
        self.batch_size = max(1, min(self._settings.embedding_batch_size, fits))

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


def require_storable(dimensions: int, model: str) -> None:
    """Raise `SettingsError` for vectors that the tables cannot store."""
    if dimensions > MAX_DIMENSIONS:
        raise SettingsError(
            f"BACKSCROLL_EMBEDDING_MODEL={model} makes vectors of {dimensions:,} dimensions, and at most "
            f"{MAX_DIMENSIONS:,} can be stored: set BACKSCROLL_EMBEDDING_DIMENSIONS if the model can make "
            "shorter ones, or name another."
        )
