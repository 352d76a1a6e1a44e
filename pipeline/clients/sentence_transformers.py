"""Embed with a model in this process, on the CPU, through the `sentence-transformers` package.

Importing the package takes seconds and a model some hundred megabytes, so both happen at first use. A process makes one
embedder, after any fork, and keeps it.
"""

from __future__ import annotations

import gc
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.clients import processors
from pipeline.clients.known_models import known_model
from pipeline.clients.onnx.onnx_folder import ENGLISH, ENGLISH_FILES
from schemas.errors import ProviderFailed, ProviderUnavailable, SettingsError
from schemas.vectors import EmbeddingSpace, Vector

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PROVIDER = "sentence-transformers"
POOLED = "#"
"""Separates a model's name from a pooling other than its own, which makes vectors of another space."""

# Exceptions of torch and the tokenizers; not `Exception`, as a task's time limit is raised into them.
_FAILURES = (RuntimeError, MemoryError, ValueError, TypeError, LookupError, ArithmeticError)


def is_installed() -> bool:
    """Tell whether the package and the weights of the English model are installed; imports neither."""
    return find_spec("sentence_transformers") is not None and ENGLISH.source() is not None


class SentenceTransformersEmbedder:
    """A local model by its short name, its hub name or its folder; threads that share it take turns.

    A name that ends in `#` and a pooling, such as `#cls`, means the model with that pooling instead of its own.
    """

    def __init__(
        self,
        model: str = ENGLISH.model,
        *,
        batch_size: int = 32,
        max_chars: int = 4000,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
    ) -> None:
        """Set up without loading the model; prefixes are by default its own.

        Raises `SettingsError` if the package is not installed.
        """
        if find_spec("sentence_transformers") is None:
            raise SettingsError(
                f"The embedding provider {PROVIDER} is not installed. Install the extra of its name (pip install "
                "'backscroll[sentence-transformers]') or set BACKSCROLL_EMBEDDING_PROVIDER=onnx."
            )
        model, _, self._pooling = model.partition(POOLED)
        self._model_name = _short_name(model)
        self._batch_size = batch_size
        self._max_chars = max_chars
        known = known_model(self._model_name)
        self._query_prefix = known.query_prefix if query_prefix is None else query_prefix
        self._document_prefix = known.document_prefix if document_prefix is None else document_prefix
        self._turn = threading.RLock()  # two threads cannot use a tokenizer at once
        self._model: SentenceTransformer | None = None

    @property
    def space(self) -> EmbeddingSpace:
        """Return the model's space; loads the model if its name is not known."""
        named = self.space_by_name
        return named if named.dimensions else replace(named, dimensions=self._measured_dimensions)

    @property
    def space_by_name(self) -> EmbeddingSpace:
        """Return the space without loading the model; it has 0 dimensions if they are not known."""
        return EmbeddingSpace(
            provider=PROVIDER,
            model=f"{self._model_name}{POOLED}{self._pooling}" if self._pooling else self._model_name,
            dimensions=known_model(self._model_name).dimensions or 0,
            query_prefix=self._query_prefix,
            document_prefix=self._document_prefix,
        )

    @cached_property
    def _measured_dimensions(self) -> int:
        return len(self.embed_documents(["."])[0])

    @property
    def max_tokens(self) -> int:
        """Return the limit in word pieces, without the prefix and the two marks of a text's beginning and end."""
        return int(self._loaded().max_seq_length) - 2 - self._prefix_tokens

    @cached_property
    def _prefix_tokens(self) -> int:
        return self.count_tokens(self._document_prefix) if self._document_prefix else 0

    def count_tokens(self, text: str) -> int:
        model = self._loaded()
        with self._turn:
            pieces = model.tokenizer.encode(text, add_special_tokens=False, truncation=False, verbose=False)
        return len(pieces)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        model = self._loaded()
        with self._turn:
            return self._encode(model, [self._document_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        model = self._loaded()
        text = self._query_prefix + text
        # one short text is no faster on several threads, which only wait for each other
        with self._turn, _on_one_thread():
            return self._encode(model, [text])[0]

    def load(self) -> SentenceTransformer:
        """Load the model now rather than at the first text."""
        return self._loaded()

    def _encode(self, model: SentenceTransformer, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        try:
            # The package sorts by length before it makes batches, so there is little padding.
            vectors = model.encode(
                [text[: self._max_chars] for text in texts],
                batch_size=self._batch_size,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        except _FAILURES as error:
            raise self._failure(error) from error
        return [array("f", vector.astype("f4").tobytes()) for vector in vectors]

    def _failure(self, error: Exception) -> ProviderUnavailable | ProviderFailed:
        """Return the exception for a model's error: out of memory it is unavailable, else the text may be to blame."""
        message = f"The embedding model {self._model_name} failed: {error}"
        # torch raises it as a RuntimeError
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return ProviderUnavailable(message)
        return ProviderFailed(message)

    def _loaded(self) -> SentenceTransformer:
        with self._turn:
            if self._model is None:
                self._model = _load(self._model_name)
                if self._pooling:
                    _pool(self._model, self._pooling)
            return self._model


@contextmanager
def _on_one_thread() -> Iterator[None]:
    """Let torch use one thread, which is faster for a question when processors are busy."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _pool(model: SentenceTransformer, mode: str) -> None:
    """Replace the pooling of a model. Raises `SettingsError` for one that does not pool."""
    from sentence_transformers.models import Pooling

    for name, module in model.named_children():
        if isinstance(module, Pooling):
            model[int(name)] = Pooling(module.get_config_dict()["embedding_dimension"], pooling_mode=mode)
            return
    raise SettingsError("BACKSCROLL_EMBEDDING_POOLING is not for a model without pooling: leave it out.")


def _load(name: str) -> SentenceTransformer:
    processors.share()
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = _folder(name)
    owner = known_model(name).owner if "/" not in name else ""
    try:
        model = SentenceTransformer(
            str(folder) if folder else f"{owner}/{name}" if owner else name,
            device="cpu",
            local_files_only=folder is not None,
        )
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"BACKSCROLL_EMBEDDING_MODEL={name} cannot be loaded: {error}. "
            f"Name {ENGLISH.model}, a model on the hub, or a folder that holds a model."
        ) from error
    # The packages keep half a million objects: the garbage collector would take a third of a second for them while a
    # question waits.
    gc.freeze()
    return model


def _short_name(model: str) -> str:
    """Return one name for one model, so that no space is made twice."""
    owner, _, short = model.rpartition("/")
    return short if owner and owner == known_model(short).owner else model


def _folder(model: str) -> Path | None:
    """Return the folder of the model's files, or None if the hub or its cache must be asked."""
    if model == ENGLISH.model and (package := ENGLISH.source()):
        return package / ENGLISH_FILES
    path = Path(model).expanduser()
    return path if path.is_dir() else None
