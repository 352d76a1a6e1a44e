"""Rerank with a cross-encoder in this process, loaded at its first use through `sentence-transformers`.

It reads every pair of question and message anew, so it is only for the best candidates (Nogueira and Cho, Passage
Re-ranking with BERT, 2019).
"""

import math
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.clients import processors
from schemas.errors import ProviderUnavailable, SettingsError

# Characters of a message that are read; models of this kind read some 512 word pieces.
MAX_CHARS = 2000


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
                predictions = [
                    float(value)
                    for value in self._loaded.predict(pairs, show_progress_bar=False, convert_to_numpy=True)
                ]
            except (OSError, RuntimeError, ValueError, TypeError, MemoryError) as error:
                raise ProviderUnavailable(f"The reranker {self.model} failed: {error}") from error
        # map logits to the scale from 0 to 1 that other models answer in
        if all(0 <= value <= 1 for value in predictions):
            return predictions
        return [1 / (1 + math.exp(-max(min(value, 50.0), -50.0))) for value in predictions]

    def _load(self) -> Any:
        processors.share()
        from sentence_transformers import CrossEncoder

        folder = Path(self.model).expanduser()
        return CrossEncoder(
            str(folder) if folder.is_dir() else self.model, device="cpu", local_files_only=folder.is_dir()
        )
