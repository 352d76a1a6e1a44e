"""Which client serves which setting: makes the embedder and the summarizer that a process was told to use."""

from pipeline.clients import deterministic, sentence_transformers
from pipeline.clients.cross_encoder import CrossEncoderReranker
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.extractive import ExtractiveSummarizer
from pipeline.clients.protocols import Embedder, Reranker, Summarizer
from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder
from schemas.errors import SettingsError

EMBEDDING_PROVIDERS = ("deterministic", "sentence-transformers")
_LATER = ("ollama", "openai")


def default_provider() -> str:
    """The local model where it is installed, else `deterministic`; imports neither."""
    return sentence_transformers.PROVIDER if sentence_transformers.is_installed() else "deterministic"


def default_model(provider: str) -> str:
    """The model that a provider uses when none is named; empty for a provider that has none."""
    return {
        "deterministic": deterministic.MODEL,
        "sentence-transformers": sentence_transformers.BUNDLED_MODEL,
    }.get(provider, "")


def make_embedder(
    provider: str | None = None,
    model: str | None = None,
    *,
    timeout_seconds: float = 12.0,
    max_chars: int = 4000,
    batch_size: int = 32,
    threads: int | None = None,
) -> Embedder:
    """The embedder for these settings; a local model is loaded at its first use.

    Without a provider the best one here is taken, without a model the provider's own. `timeout_seconds`
    bounds a call over the network, so the local providers have no use for it. Raises `SettingsError`.
    """
    provider = provider or default_provider()
    model = model or default_model(provider)
    if provider == "deterministic":
        if model != deterministic.MODEL:
            raise SettingsError(
                f"BACKSCROLL_EMBEDDING_MODEL={model} does not belong to the provider deterministic: "
                f"leave it out or set it to {deterministic.MODEL}."
            )
        return DeterministicEmbedder(max_chars=max_chars)
    if provider == "sentence-transformers":
        return SentenceTransformersEmbedder(
            model, batch_size=batch_size, max_chars=max_chars, threads=threads
        )
    problem = "is not built in yet" if provider in _LATER else "is not known"
    raise SettingsError(
        f"BACKSCROLL_EMBEDDING_PROVIDER={provider} {problem}: set one of {', '.join(EMBEDDING_PROVIDERS)}."
    )


def make_reranker(model: str | None) -> Reranker | None:
    """The cross-encoder of this name or folder, loaded at its first use; None without a name.

    Raises `SettingsError`.
    """
    return CrossEncoderReranker(model) if model else None


def make_summarizer(model: str = ExtractiveSummarizer.model) -> Summarizer:
    """The summarizer of this name. Raises `SettingsError`."""
    if model == ExtractiveSummarizer.model:
        return ExtractiveSummarizer()
    raise SettingsError(
        f"BACKSCROLL_SESSION_SUMMARY_MODEL={model} is not built in yet: set {ExtractiveSummarizer.model}."
    )
