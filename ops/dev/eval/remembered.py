"""Embeddings that are remembered, also from one run to the next: made-up talk often says the same."""

import sqlite3
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path

import numpy as np

from ops.dev.embedders import WrappedEmbedder
from pipeline.clients.protocols import Embedder
from schemas.vectors import Vector

# Embedded and stored at once, so that little is lost when a run is stopped.
AT_ONCE = 256
_TABLE = (
    "CREATE TABLE IF NOT EXISTS vectors (space TEXT, digest BLOB, vector BLOB, PRIMARY KEY (space, digest))"
)
_FIND = "SELECT vector FROM vectors WHERE space = ? AND digest = ?"
_ADD = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)"


class Remembering(WrappedEmbedder):
    """An embedder that embeds no document twice; in a file its vectors outlive the run. It holds digests, no texts."""

    def __init__(self, inner: Embedder, file: Path | None = None) -> None:
        super().__init__(inner)
        self._stored = sqlite3.connect(":memory:" if file is None else file, check_same_thread=False)
        self._stored.execute(_TABLE)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        some = (texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE))
        return list(chain.from_iterable(map(self._some, some)))

    def _some(self, texts: Sequence[str]) -> Iterator[Vector]:
        space = f"{self.space.name} {self.space.document_prefix}"
        digests = {text: sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts}
        known = {
            text: row[0]
            for text, digest in digests.items()
            if (row := self._stored.execute(_FIND, (space, digest)).fetchone())
        }
        new = [text for text in digests if text not in known]
        if new:
            made = self.inner.embed_documents(new)
            known |= {
                text: np.asarray(vector, np.float32).tobytes() for text, vector in zip(new, made, strict=True)
            }
            self._stored.executemany(_ADD, [(space, digests[text], known[text]) for text in new])
            self._stored.commit()
        return (np.frombuffer(known[text], np.float32).tolist() for text in texts)
