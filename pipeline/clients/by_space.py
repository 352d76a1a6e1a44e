"""Hold the embedders of stored spaces: while one space replaces another, a process uses the models of both."""

import threading
from collections.abc import Callable, Collection

from pipeline.clients.protocols import Embedder
from schemas.errors import ProviderUnavailable, SettingsError
from schemas.vectors import EmbeddingSpace


class SpaceEmbedders:
    """An embedder for each space, made at its first use and shared by the threads of a process."""

    def __init__(self, make: Callable[[EmbeddingSpace], Embedder]) -> None:
        self._make = make
        self._made: dict[EmbeddingSpace, Embedder] = {}
        self._lock = threading.Lock()

    def of(self, space: EmbeddingSpace) -> Embedder:
        """Return the embedder of a stored space.

        Raises `SettingsError` if the settings permit none, `ProviderUnavailable` if it cannot be made now.
        """
        # without the lock: while a new model is loaded, questions still use the other
        if (embedder := self._made.get(space)) is not None:
            return embedder
        with self._lock:
            if space not in self._made:
                self._made[space] = self._make(space)
            return self._made[space]

    def keep(self, spaces: Collection[EmbeddingSpace]) -> None:
        """Release the models of all other spaces."""
        with self._lock:
            for space in self._made.keys() - set(spaces):
                del self._made[space]


Embedding = Embedder | SpaceEmbedders
"""The embedder of texts: one model, or one for each space."""


def embedder_of(embedding: Embedding | None, space: EmbeddingSpace) -> Embedder | None:
    """Return the embedder of a stored space, or None if `embedding` has none for it.

    It may load a model, or ask a server. Raises `ProviderUnavailable`, also if the settings do not permit it.
    """
    if isinstance(embedding, SpaceEmbedders):
        try:
            return embedding.of(space)
        except SettingsError as error:
            raise ProviderUnavailable(str(error)) from error
    return embedding if embedding is not None and space.same_as(embedding.space) else None
