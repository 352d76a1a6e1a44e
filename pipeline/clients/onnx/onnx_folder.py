"""Folders of models for the provider `onnx`: a graph, its weights, its tokenizer, and a description.

The tokenizer is `tokenizer.json`, for the package `tokenizers`, or `unigram.json`.
"""

import hashlib
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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


def is_whole(folder: Path) -> bool:
    """Tell whether a folder contains a complete, unchanged model."""
    try:
        about = About.read(folder)
        return _digest(folder) == about.sha256
    except (OSError, SettingsError):
        return False


def replace(folder: Path, make: Callable[[Path], None]) -> None:
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
