"""A query on its way: read what it asks for, by which parameters, and embed it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

from pipeline.clients.protocols import Embedder
from pipeline.question import followup as brief
from pipeline.question import parse as question
from pipeline.question import temporal_anchor, thesaurus
from pipeline.question.parse import Question
from pipeline.question.temporal_anchor import Mention
from pipeline.ranking.asides import Questions
from pipeline.ranking.model import Weights
from pipeline.retrieval import event_dating
from pipeline.retrieval.profiles import Parameters, parameters_for
from pipeline.store import chats, messages, query_log, sessions, vectors
from pipeline.store.chats import Chat
from pipeline.store.database import Database
from schemas.errors import NotFound, ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector

# So many of the questions that were asked last in a chat are known again among its messages.
LATELY = 200


@dataclass(kw_only=True)
class Asked:
    """A query on its way: what was asked where, with what, and what could not be done."""

    chat: Chat
    zone: ZoneInfo
    question: Question
    parameters: Parameters
    weights: Weights
    # the database's clock
    now: datetime
    # what to call whoever asks; None where nobody is named
    asker: str | None = None
    space: EmbeddingSpace | None = None
    vector: Vector | None = None
    degraded: list[str] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)
    # an event that the question counts from, and that was not found clearly
    unknown_event: Mention | None = None
    # it and those before it, for what is an aside to it; none: nothing is, as in a search
    questions: Questions | None = None
    # the words of recent talk that the question leans on; `question.content` ends in them
    brief: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Note how long a stage takes, all its parts together."""
        started = monotonic()
        try:
            yield
        finally:
            spent = self.timings_ms.get(stage, 0.0) + (monotonic() - started) * 1000
            self.timings_ms[stage] = round(spent, 2)


def ask(
    database: Database, tenant_id: str, query: ContextQuery, embedder: Embedder | None, settings: Settings
) -> Asked:
    """Read the question and embed it; the model is called outside any transaction."""
    parameters, weights = parameters_for(
        query.profile, {**_configured(query.profile, settings), **query.parameters, **_numbers(query)}
    )
    with database.tenant(tenant_id) as connection:
        chat = chats.followed(connection, query.chat_id)
        if chat is None:
            raise NotFound(f"there is no chat {query.chat_id}: see `backscroll chats`")
        people, earliest, asker = sessions.people(connection, chat.chat_id, query.user_id)
        now, log = query_log.latest_queries(connection, chat.chat_id, LATELY if weights.aside else 0)
        space = vectors.searched_space(connection)
        zone = ZoneInfo(chat.time_zone)

        def read(text: str) -> Question:
            return question.read(text, people, earliest or now, now.astimezone(zone))

        asked = Asked(
            chat=chat,
            zone=zone,
            question=read(query.query),
            parameters=parameters,
            weights=weights,
            now=now,
            asker=asker,
            questions=Questions.of(query.query, log) if weights.aside else None,
        )
        may_lean = query.include_history and parameters.brief_words and remembers(chat, settings)
        if may_lean and brief.leans(asked.question):
            said = messages.recent(connection, chat.chat_id, brief.LOOKED_AT, query.talk_key)
            asked.brief = brief.brief(asked.question, said, now, parameters.brief_words)
    if asked.brief:
        content = " ".join((asked.question.content, *asked.brief))
        asked.question = replace(asked.question, content=content)
    if not remembers(chat, settings):
        return asked
    if space is None:
        asked.degraded.append("vectors: this Postgres has no pgvector, or no space is active: keywords alone")
    elif embedder is None or not space.same_as(embedder.space):
        asked.degraded.append(
            f"vectors: nothing here embeds into the active space {space.name}: keywords alone"
        )
    else:
        asked.space = space
    meant = asked.question.content
    named = temporal_anchor.mention(query.query) if weights.date else None
    if named is not None and not any(named.text in piece.text for piece in asked.question.exact):
        meant = _count_from(database, tenant_id, query, asked, named, embedder, read) or meant
    asked.vector = _embedded(asked, embedder, thesaurus.translated(chat.language, meant))
    return asked


def _count_from(
    database: Database,
    tenant_id: str,
    query: ContextQuery,
    asked: Asked,
    named: Mention,
    embedder: Embedder | None,
    read: Callable[[str], Question],
) -> str | None:
    """Find when the event was that the question counts from; then what is left to ask for, if it was found.

    The vector is made of that alone: what is like the event in meaning need not be what was said at its time.
    """
    described = [(one, _embedded(asked, embedder, one.content)) for one in map(read, named.events)]
    with asked.timed("event"), database.tenant(tenant_id) as connection:
        event = event_dating.when(
            connection,
            asked.chat,
            named,
            described,
            session_key=query.session_key,
            space=asked.space,
            questions=asked.questions,
            weights=asked.weights,
            zone=asked.zone,
        )
    if event is None:
        asked.unknown_event = named
        return None
    asked.question = replace(asked.question, event=event)
    return read(named.rest).content if named.rest else None


def _embedded(asked: Asked, embedder: Embedder | None, text: str) -> Vector | None:
    """The text's vector in the space of this query; none without a space, or when the model does not answer."""
    if asked.space is None or embedder is None:
        return None
    try:
        with asked.timed("embed"):
            return embedder.embed_query(text)
    except (ProviderUnavailable, ProviderFailed, ProviderRejected) as error:
        asked.space = None
        asked.degraded.append(f"vectors: {error}: keywords alone")
        return None


def remembers(chat: Chat, settings: Settings) -> bool:
    """Whether memory is on: off, messages are kept, and neither made anything of nor searched."""
    return settings.session_memory_enabled and chat.memory


def _configured(profile: str, settings: Settings) -> dict[str, Any]:
    """What the settings say of the default profile; the others are what their names promise."""
    if profile != "balanced":
        return {}
    return {
        "sessions": settings.session_max_retrieved,
        "history_tokens": settings.context_history_tokens,
        "min_importance": settings.memory_min_importance,
    }


def _numbers(query: ContextQuery) -> dict[str, Any]:
    """The query's own fields that are parameters."""
    given = {"top_k_memories": query.top_k_memories, "top_k_documents": query.top_k_documents}
    return {name: number for name, number in given.items() if number is not None}
