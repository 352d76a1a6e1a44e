"""A request to a chat's memory: the question of a context or of a search, parsed, with what its chat adds to it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from pipeline.recall.profiles import PROFILES, Parameters, Weights, parameters_of
from pipeline.recall.question import conversation, event_mentions, parse
from pipeline.recall.question.conversation import Questions
from pipeline.recall.question.event_mentions import Mention
from pipeline.recall.question.parse import Question
from pipeline.store import identities
from pipeline.store.chats import chats
from pipeline.store.chats.chats import Chat
from pipeline.store.search import chat_snapshot
from pipeline.store.search.chat_snapshot import ChatSnapshot, Latest, Shared, lexemes_of
from pipeline.store.search.filters import Inside, MessageFilter, Scope
from pipeline.store.sessions import session_rows
from schemas.errors import NotFound
from schemas.payloads import ContextQuery
from schemas.search import SearchQuery
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector

# The lift that makes an affinity of 1.
FULL_LIFT = 4.0
# Newest questions of a chat's log that are recognized among its messages.
LOGGED_QUESTIONS_READ = 200
# Recent messages read to fill the history: more if messages of this many tokens would not fill it.
RECENT_READ, SHORT_MESSAGE_TOKENS = 60, 7
MAX_RECENT = 1_000


@dataclass(frozen=True, kw_only=True)
class QueryTerms:
    """What messages are compared with for one query, the question or another."""

    # without names and dates: it is embedded
    content: str
    lexemes: Sequence[str]
    # its vector, after the space; None: only keywords are searched
    embedded: tuple[EmbeddingSpace, Vector] | None = None


@dataclass(frozen=True, kw_only=True)
class ParsedEvent:
    """An event that a question counts from, before it is dated."""

    mention: Mention
    # the description of each of `mention.events`, parsed as a question
    described: Sequence[tuple[Question, QueryTerms]]
    # the question without the event; empty if nothing is left
    rest: str


@dataclass(frozen=True, kw_only=True)
class Request:
    """A question to the memory of a chat, and where and how to look for its answer."""

    # the chat and the data that a question needs of it
    snapshot: ChatSnapshot
    question: Question
    # the question first, then other wordings that are searched together with it
    queries: Sequence[QueryTerms]
    # lexemes of the names in the question
    named: Sequence[str] = ()
    # words of recent talk that complete the question; `question.content` ends with them
    context_words: Sequence[str] = ()
    # the question and those asked before it, and whether such messages can be hits
    questions: Questions
    finds_questions: bool = False
    # the event that the question counts from, until it is dated, and one that could not be
    event: ParsedEvent | None = None
    undated_event: Mention | None = None
    # one thread only; None: all the chat's sessions
    session_key: str | None = None
    # one session only
    session_id: int | None = None
    # search what was believed and said by this time; None: by now
    as_of: datetime | None = None
    # messages that may be shown
    filter: MessageFilter = field(default_factory=MessageFilter)
    agent_id: str | None = None
    parameters: Parameters
    weights: Weights = field(default_factory=Weights)
    # whether recent talk is read
    include_history: bool = True
    # whether memories that may not be shown are counted
    explain: bool = False
    # what could not be done, and the part of it for which the question has no vector
    degraded: Sequence[str] = ()
    unembedded: Sequence[str] = ()

    @property
    def chat(self) -> Chat:
        """The chat that is asked."""
        return self.snapshot.chat

    @property
    def memory(self) -> bool:
        """Whether memory is on in this chat; off, messages are stored, and neither processed nor searched."""
        return self.snapshot.chat.memory

    @property
    def now(self) -> datetime:
        """The time at which it is asked."""
        return self.as_of or self.snapshot.now

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the chat."""
        return ZoneInfo(self.chat.time_zone)

    @property
    def lexemes(self) -> Sequence[str]:
        """The question's lexemes, without names and dates."""
        return self.queries[0].lexemes

    @property
    def embedded(self) -> tuple[EmbeddingSpace, Vector] | None:
        """The question's vector, after the space."""
        return self.queries[0].embedded

    @cached_property
    def affinities(self) -> Mapping[str, float]:
        """The asker's affinity to others, by name."""
        return affinities(self.snapshot.people, self.snapshot.sessions, self.snapshot.asker)

    @cached_property
    def scope(self) -> Scope:
        """Where to look."""
        return Scope(
            chat_id=self.chat.chat_id,
            language=self.chat.language,
            session_key=self.session_key,
            affinities=self.affinities,
            messages=self.snapshot.size,
            mean_size=self.chat.mean_length,
            indexed=self.snapshot.indexed,
        )

    @property
    def keeps_plans(self) -> bool:
        """Whether statements may be planned for any chat: such a plan would pass over an index of vectors."""
        return not self.snapshot.indexed


class Stopwatch:
    """The time that each stage of a request takes, in milliseconds."""

    def __init__(self) -> None:
        self.timings_ms: dict[str, float] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time that the body takes to a stage."""
        started = monotonic()
        try:
            yield
        finally:
            spent = self.timings_ms.get(stage, 0.0) + (monotonic() - started) * 1000
            self.timings_ms[stage] = round(spent, 2)


def for_context(connection: Connection, query: ContextQuery, settings: Settings) -> Request:
    """Make the request of a context. Raises `NotFound` for an unknown chat, `InvalidInput` for an unknown profile."""
    parameters = parameters_of(query, settings)
    # the newest may be the question itself
    recent = 1
    if query.include_history and parameters.history_tokens:
        recent = min(max(RECENT_READ, parameters.history_tokens // SHORT_MESSAGE_TOKENS), MAX_RECENT)
    elif query.include_history:
        recent = conversation.MAX_MESSAGES_READ
    texts = [query.query, *query.queries]
    snapshot = chat_snapshot.read(
        connection,
        query.chat_id,
        query.user_id,
        texts,
        Latest(
            questions=LOGGED_QUESTIONS_READ, messages=recent, session_key=query.talk_key, until=query.as_of
        ),
        of_key=query.session_key,
        remembers=bool(parameters.memories + parameters.documents),
    )
    if snapshot is None:
        raise chats.unknown(query.chat_id)
    return _parsed(
        connection,
        snapshot,
        texts,
        session_key=query.session_key,
        as_of=query.as_of,
        filter=MessageFilter(until=query.as_of),
        agent_id=query.agent_id or None,
        parameters=parameters,
        weights=Weights(),
        include_history=query.include_history,
        explain=query.explain,
    )


def for_search(connection: Connection, query: SearchQuery) -> Request:
    """Make the request of a search. Raises `NotFound` for an unknown chat or a session of another one."""
    texts = [query.query, *query.queries]
    latest = Latest(questions=0, messages=conversation.MAX_MESSAGES_READ, session_key=query.session_key)
    snapshot = chat_snapshot.read(connection, query.chat_id, None, texts, latest, of_key=query.session_key)
    if snapshot is None:
        raise chats.unknown(query.chat_id)
    return _parsed(
        connection,
        snapshot,
        texts,
        finds_questions=True,
        session_key=query.session_key,
        session_id=query.session_id,
        filter=_filter(connection, query, snapshot.chat) if snapshot.chat.memory else MessageFilter(),
        parameters=PROFILES["balanced"],
        # the nearest are wanted whenever they were sent
        weights=Weights(date=0.0) if query.mode == "similar" else Weights(),
    )


def _filter(connection: Connection, query: SearchQuery, chat: Chat) -> MessageFilter:
    inside = None
    if query.session_id is not None:
        row = session_rows.find(connection, query.session_id)
        if row is None or row.chat_id != chat.chat_id:
            raise NotFound(f"there is no session {query.session_id} in {chat.chat_id}")
        inside = Inside(row.session_key, row.started_at, row.ended_at)
    senders = query.sender_ids
    if query.user_id is not None:
        ids = identities.ids_of(connection, query.user_id)
        senders = ids if senders is None else [sender for sender in senders if sender in ids]
    return MessageFilter(
        sender_ids=senders,
        agent_id=query.agent_id,
        session_key=query.session_key,
        session=inside,
        roles=query.roles,
        since=query.since,
        until=query.until,
        metadata=query.metadata,
    )


def _parsed(
    connection: Connection,
    snapshot: ChatSnapshot,
    texts: Sequence[str],
    *,
    weights: Weights,
    as_of: datetime | None = None,
    include_history: bool = True,
    **fields: Any,
) -> Request:
    """Parse the question, which is the first of the texts, and the others; look all their words up at once."""
    chat, now, names = snapshot.chat, as_of or snapshot.now, snapshot.names
    local = now.astimezone(ZoneInfo(chat.time_zone))

    def parsed(text: str) -> Question:
        return parse.read(text, names, snapshot.began or now, local, chat.language)

    question, context_words = parsed(texts[0]), list[str]()
    if chat.memory and include_history and conversation.is_followup(question):
        context_words = conversation.context_words(question, snapshot.recent, now, names)
        question = replace(question, content=" ".join((question.content, *context_words)))
    mention = event_mentions.mention(texts[0], question.language) if weights.date and chat.memory else None
    if mention is not None and any(mention.text in piece.text for piece in question.exact):
        mention = None
    described = [parsed(text) for text in mention.events] if mention else []
    contents = [question.content, *(parsed(text).content for text in texts[1:])]
    searched = {
        text: parse.most_specific(text, chat.language)
        for text in (*contents, *(event.content for event in described), " ".join(question.names))
    }
    lexemes = lexemes_of(connection, snapshot, searched.values())

    def terms(content: str) -> QueryTerms:
        return QueryTerms(content=content, lexemes=lexemes[searched[content]])

    return Request(
        snapshot=snapshot,
        question=question,
        queries=[terms(content) for content in contents],
        named=lexemes[searched[" ".join(question.names)]],
        context_words=context_words,
        questions=Questions.of(
            texts[0], chat.language, snapshot.logged, names, asker=snapshot.asker, newest=snapshot.newest
        ),
        event=ParsedEvent(
            mention=mention,
            described=[(event, terms(event.content)) for event in described],
            rest=parsed(mention.rest).content,
        )
        if mention
        else None,
        as_of=as_of,
        weights=weights,
        include_history=include_history,
        **fields,
    )


def affinities(people: Mapping[str, Shared], sessions: int, asker: str | None) -> dict[str, float]:
    """Return the affinity of everybody who speaks in the asker's sessions more often than by chance, above 0.

    It is `log(lift) / log(FULL_LIFT)`, the lift being the share of the asker's sessions in which they spoke, over the
    share of all `sessions`: their pointwise mutual information (Church and Hanks, Word Association Norms, Mutual
    Information, and Lexicography, 1990). Where all speak in all sessions, as in a direct chat, there is none; the asker
    has the more, the fewer sessions they spoke in.

    >>> affinities({"Ana": Shared(5, 5), "Ben": Shared(20, 5), "Eve": Shared(80, 4)}, 80, "Ana")
    {'Ana': 2.0, 'Ben': 1.0}
    """
    if asker is None or asker not in people:
        return {}
    expected = people[asker].sessions / sessions
    lifts = {name: shared.with_asker / (expected * shared.sessions) for name, shared in people.items()}
    return {name: round(math.log(lift, FULL_LIFT), 6) for name, lift in lifts.items() if lift > 1}
