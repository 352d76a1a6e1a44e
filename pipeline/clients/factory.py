"""Make the models that the settings name, and say what these send to other machines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from pipeline.clients import deterministic, http_embedder, sentence_transformers
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.http_embedder import OLLAMA, OPENAI, HttpEmbedder
from pipeline.clients.known_models import known_model
from pipeline.clients.onnx import onnx, onnx_folder
from pipeline.clients.onnx.onnx import OnnxEmbedder
from pipeline.clients.openai_chat import OPENAI_URL, ModelServer, OpenAIChatModel, OpenAIEndpoint
from pipeline.clients.protocols import Embedder, Reranker
from pipeline.clients.rerankers import CrossEncoderReranker, HttpReranker
from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder
from schemas.errors import SettingsError
from schemas.facts import RULES
from schemas.server_urls import is_local, without_secrets
from schemas.sessions import EXTRACTIVE
from schemas.settings import PREFIX, Settings
from schemas.vectors import EmbeddingSpace

DEFAULT_MODELS: Mapping[str, Callable[[], str]] = {
    deterministic.PROVIDER: lambda: deterministic.MODEL,
    onnx.PROVIDER: lambda: onnx_folder.default_model().model,
    sentence_transformers.PROVIDER: lambda: onnx_folder.ENGLISH.model,
    OLLAMA: lambda: http_embedder.DEFAULT_MODELS[OLLAMA],
    OPENAI: lambda: http_embedder.DEFAULT_MODELS[OPENAI],
}
"""The providers, and the model of each when none is named."""
LOCAL = (onnx.PROVIDER, sentence_transformers.PROVIDER)
"""Providers whose models run in this process, and have one size."""


def default_provider() -> str:
    """Return the local model's provider if it is installed, else `deterministic`; imports neither."""
    return onnx.PROVIDER if onnx.is_installed() else deterministic.PROVIDER


def make_embedder(settings: Settings) -> Embedder:
    """Make the embedder that the settings name, or the best one installed, with the provider's default model.

    At its first use a local model is loaded, which takes seconds, and a server is first called. Raises `SettingsError`.
    """
    provider = settings.embedding_provider or default_provider()
    if provider not in DEFAULT_MODELS:
        raise SettingsError(
            f"there is no embedding provider {provider}: BACKSCROLL_EMBEDDING_PROVIDER may be "
            f"{', '.join(DEFAULT_MODELS)}"
        )
    model = settings.embedding_model or DEFAULT_MODELS[provider]()
    if settings.embedding_pooling is not None:
        if provider != sentence_transformers.PROVIDER:
            raise SettingsError(
                f"BACKSCROLL_EMBEDDING_POOLING is not for the provider {provider}, which pools as its model says: "
                "leave it out."
            )
        model = model.partition(sentence_transformers.POOLED)[0]
        model += sentence_transformers.POOLED + settings.embedding_pooling
    if provider == deterministic.PROVIDER:
        if model != deterministic.MODEL:
            raise SettingsError(
                f"BACKSCROLL_EMBEDDING_MODEL={model} does not belong to the provider deterministic: "
                f"leave it out or set it to {deterministic.MODEL}."
            )
        return DeterministicEmbedder(
            dimensions=settings.embedding_dimensions or deterministic.DIMENSIONS,
            max_chars=min(settings.embedding_max_chars, deterministic.MAX_CHARS),
            query_prefix=settings.embedding_query_prefix or "",
            document_prefix=settings.embedding_document_prefix or "",
        )
    if provider in LOCAL:
        if settings.embedding_dimensions is not None:
            raise SettingsError(
                f"BACKSCROLL_EMBEDDING_DIMENSIONS is not for the provider {provider}, whose models have one size: "
                "leave it out."
            )
        local = OnnxEmbedder if provider == onnx.PROVIDER else SentenceTransformersEmbedder
        return local(
            model,
            batch_size=settings.embedding_batch_size,
            max_chars=settings.embedding_max_chars,
            query_prefix=settings.embedding_query_prefix,
            document_prefix=settings.embedding_document_prefix,
        )
    return _make_http_embedder(settings, provider, model)


def _make_http_embedder(settings: Settings, provider: str, model: str) -> HttpEmbedder:
    known, dimensions = known_model(model), settings.embedding_dimensions
    if dimensions is not None and known.dimensions and dimensions != known.dimensions and not known.shortens:
        raise SettingsError(
            f"BACKSCROLL_EMBEDDING_DIMENSIONS={dimensions} is not for the model {model}, whose vectors have "
            f"{known.dimensions}: leave it out."
        )
    _require_shorter_than_lease(settings, "EMBEDDING_TIMEOUT_SECONDS")
    named = f"{PREFIX}EMBEDDING_MODEL and "
    if provider == OLLAMA:
        url, key, address = f"{settings.ollama_url.rstrip('/')}/v1", None, f"{PREFIX}OLLAMA_URL"
        texts = {"login": f"{address} to one with a login that it takes", "settings": named + address}
    else:
        url, address = settings.openai_base_url or OPENAI_URL, ModelServer.address
        key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
        texts = {"settings": named + ModelServer.settings}
        if settings.openai_base_url is None and not key:
            raise SettingsError(
                f"{PREFIX}EMBEDDING_PROVIDER={OPENAI} wants {PREFIX}OPENAI_API_KEY, or for another server {address}."
            )
    name = f"{provider} ({model}) at {without_secrets(url)}"
    server = ModelServer(name=name, address=address, tries_others=True, **texts)
    return HttpEmbedder(OpenAIEndpoint(url, key, model, server), provider, known, settings)


def settings_for(space: EmbeddingSpace, settings: Settings) -> Settings:
    """Return settings that name the model of a stored space, with its prefixes and dimensions."""
    native = (
        known_model(space.model).dimensions
        if space.provider != deterministic.PROVIDER
        else deterministic.DIMENSIONS
    )
    named = (settings.embedding_provider, settings.embedding_model) == (space.provider, space.model)
    # of an unknown model, a server is asked for certain dimensions only if a setting says so
    dimensions = settings.embedding_dimensions if named else None
    if dimensions is None and native is not None and native != space.dimensions:
        dimensions = space.dimensions
    return settings.model_copy(
        update={
            "embedding_provider": space.provider,
            "embedding_model": space.model,
            "embedding_query_prefix": space.query_prefix,
            "embedding_document_prefix": space.document_prefix,
            "embedding_dimensions": None if space.provider in LOCAL else dimensions,
            # of the model's name, where it is not its own
            "embedding_pooling": None,
        }
    )


def make_embedder_for(space: EmbeddingSpace, settings: Settings) -> Embedder:
    """Make the embedder of a stored space; addresses and keys are those of the settings.

    Raises `SettingsError`, also if the model of this name now makes vectors of another space.
    """
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
    if not isinstance(embedder, SentenceTransformersEmbedder | HttpEmbedder):
        return embedder.space
    named = embedder.space_by_name
    if named.dimensions:
        return named
    matching = (s for s in stored if s.same_as(replace(named, dimensions=s.dimensions)))
    return next(matching, named)


def make_reranker(settings: Settings) -> Reranker | None:
    """Make the reranker behind a URL, or the cross-encoder in this process; None if none is named.

    Raises `SettingsError`.
    """
    model, key = settings.reranker_model, settings.reranker_api_key
    if settings.reranker_url:
        return HttpReranker(settings.reranker_url, model, key.get_secret_value() if key else None)
    return CrossEncoderReranker(model) if model else None


def make_chat_model(settings: Settings, model: str, *, setting: str) -> OpenAIChatModel:
    """Make the client of the language model that `setting` names; it connects at its first call.

    Raises `SettingsError` if no endpoint is configured: a model's name alone sends nothing anywhere.
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
    """Make the language model for summaries, or None if they are extractive. Raises `SettingsError`."""
    if settings.session_summary_model == EXTRACTIVE:
        return None
    _require_time_and_room(settings)
    return make_chat_model(settings, settings.session_summary_model, setting="SESSION_SUMMARY_MODEL")


def make_learning_model(settings: Settings) -> OpenAIChatModel | None:
    """Make the language model that extracts facts, or None if rules do. Raises `SettingsError`."""
    model = settings.learning_model()
    if model == RULES or not settings.memory_learning_enabled:
        return None
    _require_time_and_room(settings)
    named = "MEMORY_MODEL" if settings.memory_model is not None else "SESSION_SUMMARY_MODEL"
    return make_chat_model(settings, model, setting=named)


def _require_shorter_than_lease(settings: Settings, name: str) -> None:
    if (timeout := getattr(settings, name.lower())) >= settings.lease_seconds:
        raise SettingsError(
            f"{PREFIX}{name}={timeout:g} must be less than {PREFIX}LEASE_SECONDS={settings.lease_seconds:g}: another "
            "worker would ask the model the same once the lease has ended"
        )


def _require_time_and_room(settings: Settings) -> None:
    _require_shorter_than_lease(settings, "SESSION_SUMMARY_TIMEOUT_SECONDS")
    if 4 * settings.llm_answer_tokens > settings.session_summary_context_tokens:
        raise SettingsError(
            f"{PREFIX}LLM_ANSWER_TOKENS={settings.llm_answer_tokens} must be at most a quarter of "
            f"{PREFIX}SESSION_SUMMARY_CONTEXT_TOKENS={settings.session_summary_context_tokens}, which also holds the "
            "transcript: lower the one, or raise the other to what the model reads"
        )


_SENTENCES = {
    "summarize": "Sessions{chats} are sent to {at}, where {model} summarizes them: every message with its time and its "
    "speaker's name",
    "extract": "Sessions{chats} are sent to {at}, where {model} learns facts from them, with what was learned of those "
    "who speak",
    "hyde": "Questions asked with `hyde` are sent to {at}, where {model} makes up answers",
}


def sent_elsewhere(settings: Settings, spaces: Sequence[EmbeddingSpace] = ()) -> list[str]:
    """Return a sentence for each kind of data sent to another machine, saying where. Raises `SettingsError`.

    Whatever embedder the settings name, texts are embedded into the stored `spaces`, if there are any.
    """
    sentences = []
    for named in [settings_for(space, settings) for space in spaces] or [settings]:
        embedder = make_embedder(named)
        if isinstance(embedder, HttpEmbedder) and not is_local(embedder.url):
            sentences.append(
                "Texts of messages, sessions and memories, and questions, are sent to "
                f"{embedder.url}, where {space_by_name(named, ()).model} embeds them"
            )
    if settings.reranker_url and not is_local(settings.reranker_url):
        # without what the URL may hold of a password
        at = urlsplit(settings.reranker_url).netloc.rpartition("@")[2]
        sentences.append(f"Questions, and the messages found for them, are sent to {at}, which reranks them")
    if hosts := [host for host in settings.webhook_hosts() if not is_local(f"http://{host}")]:
        sentences.append(
            f"Digests of chats are sent to {', '.join(hosts)}, where `backscroll digests` names them"
        )
    hyde = settings.hyde_model
    models = {
        "summarize": make_summary_model(settings),
        "extract": make_learning_model(settings),
        "hyde": hyde and make_chat_model(settings, hyde, setting="HYDE_MODEL"),
    }
    chats = len(settings.summary_canaries())
    for kind, model in models.items():
        if model and not settings.switched_off(kind) and not is_local(f"http://{model.provider}"):
            values = {
                "at": model.provider,
                "model": model.model,
                "chats": f" of {chats} chats" if chats else "",
            }
            sentences.append(_SENTENCES[kind].format(**values))
    return sentences
