"""Embed queries into a tenant's active space."""

from pipeline.clients.by_space import Embedding, embedder_of
from pipeline.clients.model_languages import reads
from pipeline.clients.protocols import Embedder
from pipeline.recall.ask.request import Stopwatch
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.vectors import EmbeddingSpace, Vector


class QueryEmbedder:
    """Embeds queries until it fails; from then on only keywords are searched, and `degraded` says why."""

    def __init__(
        self,
        space: EmbeddingSpace | None,
        embedding: Embedding | None,
        stopwatch: Stopwatch,
        *,
        language: str | None = None,
    ) -> None:
        """Find the embedder of the space; with a `language`, give up if its model cannot read that."""
        self.degraded: list[str] = []
        self._stopwatch = stopwatch
        self._into: tuple[EmbeddingSpace, Embedder] | None = None
        if space is None:
            self._give_up("this Postgres has no pgvector, or no space is active")
            return
        try:
            embedder = embedder_of(embedding, space)
        except ProviderUnavailable as error:
            self._give_up(str(error))
            return
        if embedder is None:
            self._give_up(f"nothing here embeds into the active space {space.name}")
        elif language is not None and not reads(space.model, language):
            # its hits would be random, and would rank above keyword hits
            self._give_up(f"{space.model} does not know {language}")
        else:
            self._into = space, embedder

    def embedded(self, text: str) -> tuple[EmbeddingSpace, Vector] | None:
        """Return the space and a text's vector in it, or None once embedding has failed."""
        if self._into is None:
            return None
        space, embedder = self._into
        try:
            with self._stopwatch.timed("embed"):
                return space, embedder.embed_query(text)
        except (ProviderUnavailable, ProviderFailed, ProviderRejected) as error:
            self._give_up(str(error))
            return None

    def _give_up(self, reason: str) -> None:
        self._into = None
        self.degraded.append(f"vectors: {reason}: only keywords are searched")
