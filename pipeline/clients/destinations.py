"""Report what the settings send to other machines, and where: nothing, unless a setting names a model there."""

from pipeline.clients.factory import (
    make_chat_model,
    make_embedder,
    make_learning_model,
    make_summary_model,
    space_by_name,
)
from pipeline.clients.http_embedder import HttpEmbedder
from schemas.server_urls import is_local
from schemas.settings import Settings


def sent_elsewhere(settings: Settings) -> list[str]:
    """Return a sentence for each kind of data sent to another machine, saying where. Raises `SettingsError`."""
    sentences = []
    embedder = make_embedder(settings)
    if isinstance(embedder, HttpEmbedder) and not is_local(embedder.url):
        space = space_by_name(settings, ())
        sentences.append(
            "Texts of messages, sessions and memories, and questions, are sent to "
            f"{embedder.url}, where {space.model} embeds them"
        )
    summaries = make_summary_model(settings)
    if summaries is not None and not is_local(f"http://{summaries.provider}"):
        sentences.append(
            f"Sessions{_of_chats(settings)} are sent to {summaries.provider}, where {summaries.model} summarizes them: "
            "every message with its time and its speaker's name"
        )
    learning = make_learning_model(settings)
    if learning is not None and not is_local(f"http://{learning.provider}"):
        sentences.append(
            f"Sessions{_of_chats(settings)} are sent to {learning.provider}, where {learning.model} learns facts from "
            "them, with what was learned of those who speak"
        )
    if settings.hyde_model is not None:
        answers = make_chat_model(settings, settings.hyde_model, setting="HYDE_MODEL")
        if not is_local(f"http://{answers.provider}"):
            sentences.append(
                f"Questions asked with `hyde` are sent to {answers.provider}, where {answers.model} makes up answers"
            )
    return sentences


def _of_chats(settings: Settings) -> str:
    """Name the chats whose sessions a language model reads, if these are restricted."""
    chats = settings.summary_canaries()
    return f" of {', '.join(sorted(chats))}" if chats else ""
