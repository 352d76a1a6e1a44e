"""Make the embedder and the reranker that the settings name."""

from collections.abc import Sequence

from pipeline.clients import deterministic, onnx, onnx_bundled, sentence_transformers
from pipeline.clients.cross_encoder import CrossEncoderReranker
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.onnx import OnnxEmbedder
from pipeline.clients.protocols import Embedder, Reranker
from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder
from schemas.errors import SettingsError
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace

DEFAULT_MODELS = {
    "deterministic": deterministic.MODEL,
    onnx.PROVIDER: onnx_bundled.MODEL,
    sentence_transformers.PROVIDER: onnx_bundled.MODEL,
}
"""The providers, and the model of each when none is named."""


def default_provider() -> str:
    """Return the local model's provider if it is installed, else `deterministic`; imports neither."""
    return onnx.PROVIDER if onnx.is_installed() else "deterministic"


def make_embedder(settings: Settings) -> Embedder:
    """Make the embedder that the settings name, or the best one installed, with the provider's default model.

    A local model is loaded at its first use, which takes seconds. Raises `SettingsError`.
    """
    provider = settings.embedding_provider or default_provider()
    model = settings.embedding_model or DEFAULT_MODELS.get(provider, "")
    if provider == "deterministic":
        if model != deterministic.MODEL:
            raise SettingsError(
                f"BACKSCROLL_EMBEDDING_MODEL={model} does not belong to the provider deterministic: "
                f"leave it out or set it to {deterministic.MODEL}."
            )
        return DeterministicEmbedder(max_chars=settings.embedding_max_chars)
    if provider == onnx.PROVIDER:
        return OnnxEmbedder(
            model, batch_size=settings.embedding_batch_size, max_chars=settings.embedding_max_chars
        )
    if provider == sentence_transformers.PROVIDER:
        return SentenceTransformersEmbedder(
            model, batch_size=settings.embedding_batch_size, max_chars=settings.embedding_max_chars
        )
    raise SettingsError(
        f"BACKSCROLL_EMBEDDING_PROVIDER={provider} is not built in yet: "
        f"set one of {', '.join(DEFAULT_MODELS)}."
    )


def space_by_name(settings: Settings, stored: Sequence[EmbeddingSpace]) -> EmbeddingSpace:
    """Return the space of the settings' embedder without loading a model or calling a network. Raises `SettingsError`.

    An unknown model has the dimensions of its stored space, or 0 without one.
    """
    embedder = make_embedder(settings)
    if not isinstance(embedder, SentenceTransformersEmbedder):
        return embedder.space
    unknown = EmbeddingSpace(provider=sentence_transformers.PROVIDER, model=embedder.model_name, dimensions=0)
    same = (s for s in stored if (s.provider, s.model) == (unknown.provider, unknown.model))
    return embedder.space_by_name or next(same, unknown)


def make_reranker(model: str | None) -> Reranker | None:
    """Make the cross-encoder of this name or folder; None without a name. Raises `SettingsError`."""
    return CrossEncoderReranker(model) if model else None
