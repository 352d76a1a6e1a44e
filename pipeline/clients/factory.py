"""Make the embedder and the reranker that the settings name."""

from collections.abc import Sequence

from pipeline.clients import deterministic, sentence_transformers
from pipeline.clients.cross_encoder import CrossEncoderReranker
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.protocols import Embedder, Reranker
from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder
from schemas.errors import SettingsError
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace

DEFAULT_MODELS = {
    "deterministic": deterministic.MODEL,
    sentence_transformers.PROVIDER: sentence_transformers.BUNDLED_MODEL,
}
"""The providers, and the model of each when none is named."""


def default_provider() -> str:
    """Return the local model's provider if it is installed, else `deterministic`; imports neither."""
    return sentence_transformers.PROVIDER if sentence_transformers.is_installed() else "deterministic"


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
    if provider == sentence_transformers.PROVIDER:
        return SentenceTransformersEmbedder(
            model, batch_size=settings.embedding_batch_size, max_chars=settings.embedding_max_chars
        )
    raise SettingsError(
        f"BACKSCROLL_EMBEDDING_PROVIDER={provider} is not built in yet: "
        f"set one of {', '.join(DEFAULT_MODELS)}."
    )


def settings_for(space: EmbeddingSpace, settings: Settings) -> Settings:
    """Return settings that name the model of a stored space."""
    return settings.model_copy(update={"embedding_provider": space.provider, "embedding_model": space.model})


def make_embedder_for(space: EmbeddingSpace, settings: Settings) -> Embedder:
    """Make the embedder of a stored space; addresses and keys are those of the settings.

    Raises `SettingsError`, also where the model of this name makes vectors of another space now.
    """
    if (space.provider, space.model) == ("deterministic", deterministic.MODEL):
        return DeterministicEmbedder(dimensions=space.dimensions, max_chars=settings.embedding_max_chars)
    embedder = make_embedder(settings_for(space, settings))
    if not space.same_as(embedder.space):
        raise SettingsError(
            f"the model of the embedding space {space.name} makes vectors of {embedder.space.name} here, with other "
            "dimensions or prefixes"
        )
    return embedder


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
