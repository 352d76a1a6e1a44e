"""An embedder around another one, for tools that change or note a part of what it does."""

from collections.abc import Sequence

from pipeline.clients.protocols import Embedder
from schemas.vectors import EmbeddingSpace, Vector


class WrappedEmbedder:
    """The inner embedder, unchanged."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner

    @property
    def space(self) -> EmbeddingSpace:
        return self.inner.space

    @property
    def max_tokens(self) -> int:
        return self.inner.max_tokens

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return self.inner.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return self.inner.embed_query(text)
