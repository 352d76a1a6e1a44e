"""Report what the settings send to other machines, and where: nothing, unless a setting names a model there."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from pipeline.clients import factory
from pipeline.clients.http_embedder import HttpEmbedder
from schemas.server_urls import is_local
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace

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
    for named in [factory.settings_for(space, settings) for space in spaces] or [settings]:
        embedder = factory.make_embedder(named)
        if isinstance(embedder, HttpEmbedder) and not is_local(embedder.url):
            sentences.append(
                "Texts of messages, sessions and memories, and questions, are sent to "
                f"{embedder.url}, where {factory.space_by_name(named, ()).model} embeds them"
            )
    if settings.reranker_url and not is_local(settings.reranker_url):
        # without what the URL may hold of a password
        at = urlsplit(settings.reranker_url).netloc.rpartition("@")[2]
        sentences.append(f"Questions, and the messages found for them, are sent to {at}, which reranks them")
    hyde = settings.hyde_model
    models = {
        "summarize": factory.make_summary_model(settings),
        "extract": factory.make_learning_model(settings),
        "hyde": hyde and factory.make_chat_model(settings, hyde, setting="HYDE_MODEL"),
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
