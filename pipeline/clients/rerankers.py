"""Rerank by a server that speaks Cohere's, Jina's, vLLM's or text-embeddings-inference's `/rerank`, or here.

With a model's name it is asked as the former are (`documents`, answered by `relevance_score`), without one as the
latter is (`texts`, answered by `score`).

A cross-encoder reads every pair of question and message anew, so it is only for the best candidates (Nogueira and Cho,
Passage Re-ranking with BERT, 2019).
"""

import math
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline.clients import processors
from pipeline.clients.http_calls import http_client, run_within
from schemas.errors import ProviderRejected, ProviderUnavailable, SettingsError

MAX_CHARS = 2000
"""Characters of a message that are sent; models of this kind read some 512 word pieces."""
SECONDS = 0.3
"""For an answer: a context is ranked without it after that."""


class HttpReranker:
    """A reranker behind a server; threads that share it ask at the same time."""

    def __init__(self, url: str, model: str | None, api_key: str | None) -> None:
        """`url` is that of the route itself, such as `http://127.0.0.1:8080/rerank`."""
        self.url, self._named, self._key = url, model, api_key
        self._client: Any = None
        self._making = threading.Lock()

    @property
    def model(self) -> str:
        """Its name for messages."""
        return f"{self._named or 'reranker'} of {urlsplit(self.url).netloc.rpartition('@')[2]}"

    def close(self) -> None:
        """Close the connections, while no call is running; a process that keeps its reranker need not."""
        if self._client is not None:
            run_within(SECONDS, self._client.aclose)
            self._client = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the question, from 0 to 1.

        Raises `ProviderUnavailable` if the server does not answer, `ProviderRejected` if it refuses, or answers
        something else.
        """
        import httpx2

        read = [text[:MAX_CHARS] for text in texts]
        if not read:
            return []
        body = (
            {"model": self._named, "query": query, "documents": read, "return_documents": False}
            if self._named
            else {"query": query, "texts": read}
        )
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        with self._making:
            self._client = self._client or http_client(self.url)
        try:
            answer = run_within(SECONDS, lambda: self._client.post(self.url, json=body, headers=headers))
        except TimeoutError:
            raise ProviderUnavailable(f"{self.model} did not answer within {SECONDS:g} s") from None
        except httpx2.HTTPError as error:
            raise ProviderUnavailable(f"{self.model} does not answer: {type(error).__name__}") from None
        if answer.status_code >= 500 or answer.status_code == 429:
            raise ProviderUnavailable(f"{self.model} answered {answer.status_code}")
        if answer.status_code != 200:
            raise ProviderRejected(f"{self.model} refused: {answer.status_code}")
        try:
            found = answer.json()
            rows = found["results"] if isinstance(found, dict) else found
            by_place = {row["index"]: float(row.get("relevance_score", row.get("score"))) for row in rows}
            return _shares([by_place[place] for place in range(len(read))])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProviderRejected(f"{self.model} answered without a score for every text") from error


def _shares(scores: list[float]) -> list[float]:
    """Return scores as they are if they are from 0 to 1, and otherwise as logarithms of odds."""
    if not all(map(math.isfinite, scores)):
        raise ValueError("a score is no number")
    if all(0 <= score <= 1 for score in scores):
        return scores
    return [1 / (1 + math.exp(-max(min(score, 50.0), -50.0))) for score in scores]


class CrossEncoderReranker:
    """A cross-encoder by its hub name or folder; threads that share it take turns."""

    def __init__(self, model: str) -> None:
        """Set up without loading the model. Raises `SettingsError` if the package is not installed."""
        if find_spec("sentence_transformers") is None:
            raise SettingsError(
                "BACKSCROLL_RERANKER_MODEL takes the extra `sentence-transformers`: pip install "
                "'backscroll[sentence-transformers]', or leave it out."
            )
        self.model = model
        self._turn = threading.Lock()
        self._loaded: Any = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the question, from 0 to 1. Raises `ProviderUnavailable`."""
        if not texts:
            return []
        with self._turn:
            try:
                if self._loaded is None:
                    self._loaded = self._load()
                pairs = [(query, text[:MAX_CHARS]) for text in texts]
                values = self._loaded.predict(pairs, show_progress_bar=False, convert_to_numpy=True)
                return _shares([float(value) for value in values])
            except (OSError, RuntimeError, ValueError, TypeError, MemoryError) as error:
                raise ProviderUnavailable(f"The reranker {self.model} failed: {error}") from error

    def _load(self) -> Any:
        processors.share()
        from sentence_transformers import CrossEncoder

        folder = Path(self.model).expanduser()
        return CrossEncoder(
            str(folder) if folder.is_dir() else self.model, device="cpu", local_files_only=folder.is_dir()
        )
