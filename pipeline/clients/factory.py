"""Make the models that the settings name: embedder, reranker, language model."""

from collections.abc import Sequence
from ipaddress import ip_address

from pipeline.clients import deterministic, sentence_transformers
from pipeline.clients.cross_encoder import CrossEncoderReranker
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.openai_chat import OpenAIChatModel
from pipeline.clients.protocols import Embedder, Reranker
from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder
from schemas.errors import SettingsError
from schemas.sessions import EXTRACTIVE
from schemas.settings import PREFIX, Settings
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


def make_chat_model(settings: Settings, model: str, *, setting: str) -> OpenAIChatModel:
    """Make the client of a language model that the setting of this name asks for; it connects at its first call.

    Raises `SettingsError` where no endpoint is configured: a model's name alone sends nothing anywhere.
    """
    key = settings.openai_api_key
    if settings.openai_base_url is None and key is None:
        raise SettingsError(
            f"{PREFIX}{setting}={model} is a language model, and there is nowhere to ask it: set "
            f"{PREFIX}OPENAI_BASE_URL (such as http://127.0.0.1:11434/v1) or {PREFIX}OPENAI_API_KEY (for "
            "https://api.openai.com/v1)"
        )
    return OpenAIChatModel(
        model, base_url=settings.openai_base_url, api_key=key.get_secret_value() if key else None
    )


def make_summary_model(settings: Settings) -> OpenAIChatModel | None:
    """Make the language model that summarizes; None: summaries are extracted. Raises `SettingsError`."""
    if settings.session_summary_model == EXTRACTIVE:
        return None
    timeout, lease = settings.session_summary_timeout_seconds, settings.lease_seconds
    if timeout >= lease:
        raise SettingsError(
            f"{PREFIX}SESSION_SUMMARY_TIMEOUT_SECONDS={timeout:g} must be less than {PREFIX}LEASE_SECONDS={lease:g}: "
            "another worker would ask the model the same once the lease has ended"
        )
    return make_chat_model(settings, settings.session_summary_model, setting="SESSION_SUMMARY_MODEL")


def sent_elsewhere(settings: Settings) -> list[str]:
    """Say in a sentence each what these settings send to another machine, and where. Raises `SettingsError`."""
    model = make_summary_model(settings)
    if model is None or _is_this_machine(model.provider.rpartition(":")[0]):
        return []
    chats = settings.summary_canaries()
    of = f" of {', '.join(sorted(chats))}" if chats else ""
    return [
        f"Sessions{of} are sent to {model.provider}, where {model.model} summarizes them: every message with its "
        "time and its speaker's name"
    ]


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
