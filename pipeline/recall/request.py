"""A request to a chat's memory: the question of a context or of a search, parsed, with what its chat adds to it."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from time import monotonic
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from pipeline.clients.by_space import Embedding, embedder_of
from pipeline.clients.model_languages import reads
from pipeline.clients.protocols import Embedder
from pipeline.recall.profiles import PROFILES, Parameters, Weights, parameters_of
from pipeline.recall.question import conversation, events, parse
from pipeline.recall.question.conversation import Questions
from pipeline.recall.question.events import Mention
from pipeline.recall.question.parse import Question
from pipeline.store.chats import chats
from pipeline.store.chats.chats import Chat
from pipeline.store.memories.memory_candidates import MemoryScope
from pipeline.store.people import identities
from pipeline.store.search import prelude
from pipeline.store.search.filters import Inside, MessageFilter, Scope
from pipeline.store.search.prelude import Latest, Prelude, Shared, lexemes_of
from pipeline.store.sessions import sessions
from pipeline.text.exact_match import Verbatim
from schemas.errors import NotFound, ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.payloads import ContextQuery
from schemas.search import SearchQuery
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector

# The lift that makes an affinity of 1.
FULL_LIFT = 4.0


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


# Newest questions of a chat's log that are recognized among its messages.
LOGGED_QUESTIONS_READ = 200
# Recent messages read to fill the history: more if messages of this many tokens would not fill it.
RECENT_READ, SHORT_MESSAGE_TOKENS = 60, 7
MAX_RECENT = 1_000


@dataclass(frozen=True, kw_only=True)
class RetrievalRequest:
    """A question to the memory of a chat."""

    # the chat and the data that a question needs of it
    prelude: Prelude
    text: str
    # other wordings that are searched together with it
    queries: Sequence[str] = ()
    # one thread only; None: all the chat's sessions
    session_key: str | None = None
    # one session only
    session_id: int | None = None
    # search what was believed and said by this time; None: by now
    as_of: datetime | None = None
    # messages that may be shown
    filter: MessageFilter = field(default_factory=MessageFilter)
    user_id: str | None = None
    agent_id: str | None = None
    parameters: Parameters
    weights: Weights = field(default_factory=Weights)
    # whether memory is on in this chat; off, messages are stored, and neither processed nor searched
    memory: bool = True
    # whether recent talk is read
    include_history: bool = True
    # whether questions put to a bot can be hits
    finds_questions: bool = False
    # whether memories that may not be shown are counted
    explain: bool = False

    @property
    def chat(self) -> Chat:
        """The chat that is asked."""
        return self.prelude.chat

    @cached_property
    def affinities(self) -> Mapping[str, float]:
        """The asker's affinity to others, by name."""
        return affinities(self.prelude.people, self.prelude.sessions, self.prelude.asker)

    @cached_property
    def scope(self) -> Scope:
        """Where to look."""
        return Scope(
            chat_id=self.chat.chat_id,
            language=self.chat.language,
            session_key=self.session_key,
            affinities=self.affinities,
            messages=self.prelude.size,
            mean_size=self.chat.mean_length,
            indexed=self.prelude.indexed,
        )

    @property
    def keeps_plans(self) -> bool:
        """Whether statements may be planned for any chat: such a plan would pass over an index of vectors."""
        return not self.prelude.indexed


@dataclass(frozen=True, kw_only=True)
class QueryTerms:
    """Terms to search for one query, the question or another."""

    # without names and dates
    lexemes: Sequence[str]
    # its vector, after the space; None: only keywords are searched
    embedded: tuple[EmbeddingSpace, Vector] | None = None


@dataclass(frozen=True, kw_only=True)
class SearchTerms(QueryTerms):
    """Terms to search for the question and the other queries."""

    # pieces of the question that a message may hold verbatim
    exact: Sequence[Verbatim] = ()
    # the question and those asked before it; None: no message is an aside
    questions: Questions | None = None
    # the times that it names
    spans: Sequence[tuple[datetime, datetime]] = ()
    # the participants whom it names, and the lexemes of their names
    speakers: Collection[str] = ()
    named: Sequence[str] = ()
    # whether it asks how things stand now
    newest: bool = False
    # of the other queries, in their order
    others: Sequence[QueryTerms] = ()
    # the memories that are searched together with the messages
    memories: MemoryScope | None = None

    @property
    def queries(self) -> list[QueryTerms]:
        """Every query, the question first."""
        return [self, *self.others]


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


def for_context(connection: Connection, query: ContextQuery, settings: Settings) -> RetrievalRequest:
    """Make the request of a context. Raises `NotFound` for an unknown chat, `InvalidInput` for an unknown profile."""
    parameters = parameters_of(query, settings)
    # the newest may be the question itself
    recent = 1
    if query.include_history and parameters.history_tokens:
        recent = min(max(RECENT_READ, parameters.history_tokens // SHORT_MESSAGE_TOKENS), MAX_RECENT)
    elif query.include_history:
        recent = conversation.MAX_MESSAGES_READ
    loaded = prelude.read(
        connection,
        query.chat_id,
        query.user_id,
        [query.query, *query.queries],
        Latest(
            questions=LOGGED_QUESTIONS_READ, messages=recent, session_key=query.talk_key, until=query.as_of
        ),
        of_key=query.session_key,
        remembers=bool(parameters.memories + parameters.documents),
    )
    if loaded is None:
        raise _unknown(query.chat_id)
    return RetrievalRequest(
        prelude=loaded,
        text=query.query,
        queries=query.queries,
        session_key=query.session_key,
        as_of=query.as_of,
        filter=MessageFilter(until=query.as_of),
        user_id=query.user_id,
        agent_id=query.agent_id or None,
        parameters=parameters,
        memory=loaded.chat.memory,
        include_history=query.include_history,
        explain=query.explain,
    )


def for_search(connection: Connection, query: SearchQuery) -> RetrievalRequest:
    """Make the request of a search. Raises `NotFound` for an unknown chat or a session of another one."""
    loaded = prelude.read(
        connection,
        query.chat_id,
        None,
        [query.query, *query.queries],
        Latest(questions=0, messages=conversation.MAX_MESSAGES_READ, session_key=query.session_key),
        of_key=query.session_key,
    )
    if loaded is None:
        raise _unknown(query.chat_id)
    memory = loaded.chat.memory
    return RetrievalRequest(
        prelude=loaded,
        text=query.query,
        queries=query.queries,
        session_key=query.session_key,
        session_id=query.session_id,
        filter=_filter(connection, query, loaded.chat) if memory else MessageFilter(),
        parameters=PROFILES["balanced"],
        # the nearest are wanted whenever they were sent
        weights=Weights(date=0.0) if query.mode == "similar" else Weights(),
        memory=memory,
        finds_questions=True,
    )


def find_chat(connection: Connection, chat_id: str) -> Chat:
    """Find the chat of this id, even if its id has changed since. Raises `NotFound`."""
    chat = chats.get_current(connection, chat_id)
    if chat is None:
        raise _unknown(chat_id)
    return chat


def _unknown(chat_id: str) -> NotFound:
    return NotFound(f"there is no chat {chat_id}: see `backscroll chats`")


def _filter(connection: Connection, query: SearchQuery, chat: Chat) -> MessageFilter:
    inside = None
    if query.session_id is not None:
        row = sessions.find(connection, query.session_id)
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


@dataclass(frozen=True, kw_only=True)
class ParsedEvent:
    """An event that a question counts from."""

    mention: Mention
    # the description of each of `mention.events`, and the terms to search for it
    described: tuple[tuple[Question, SearchTerms], ...]
    # the question without the event; None if nothing is left
    rest: str | None


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A parsed request: what the question says, and what its chat adds to that."""

    request: RetrievalRequest
    question: Question
    # what messages are compared with
    terms: SearchTerms
    # words of recent talk that complete the question; `question.content` ends with them
    brief: Sequence[str]
    zone: ZoneInfo
    # an event that could not be dated
    undated_event: Mention | None = None
    # what could not be done
    degraded: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ParsedQuestion:
    """A question before it is embedded, and before the event that it counts from is dated."""

    ask: Ask
    event: ParsedEvent | None
    # the other queries, without names and dates
    others: tuple[str, ...]


def parse_question(connection: Connection, request: RetrievalRequest) -> ParsedQuestion:
    """Parse the question of a request."""
    prelude, weights = request.prelude, request.weights
    chat, now = prelude.chat, request.as_of or prelude.now
    zone = ZoneInfo(chat.time_zone)

    def parsed(text: str) -> Question:
        return parse.read(text, prelude.names, prelude.began or now, now.astimezone(zone), chat.language)

    question, brief = parsed(request.text), list[str]()
    if request.memory and request.include_history and conversation.is_followup(question):
        brief = conversation.context_words(question, prelude.recent, now, prelude.names)
    if brief:
        question = replace(question, content=" ".join((question.content, *brief)))
    mention = events.mention(request.text, question.language) if weights.date and request.memory else None
    if mention is not None and any(mention.text in piece.text for piece in question.exact):
        mention = None
    events = [parsed(text) for text in mention.events] if mention is not None else []
    queries = [parsed(text) for text in request.queries]
    named, *lexemes = lexemes_of(
        connection,
        prelude,
        [" ".join(question.names)]
        + [parse.most_specific(query.content, chat.language) for query in (question, *events, *queries)],
    )
    questions = (
        None
        if request.finds_questions
        else Questions.of(
            request.text,
            chat.language,
            prelude.logged,
            prelude.names,
            asker=prelude.asker,
            newest=prelude.newest,
        )
    )

    def terms(query: Question, words: Sequence[str]) -> SearchTerms:
        return SearchTerms(
            lexemes=words,
            questions=questions,
            spans=query.spans,
            speakers=query.speakers,
            named=named,
            newest="now" in query.asks,
        )

    event = None
    if mention is not None:
        described = tuple((q, terms(q, words)) for q, words in zip(events, lexemes[1:], strict=False))
        rest = parsed(mention.rest).content if mention.rest else None
        event = ParsedEvent(mention=mention, described=described, rest=rest)
    all_terms = replace(
        terms(question, lexemes[0]),
        exact=question.exact,
        others=[QueryTerms(lexemes=words) for words in lexemes[1 + len(events) :]],
    )
    return ParsedQuestion(
        ask=Ask(request=request, question=question, terms=all_terms, brief=brief, zone=zone),
        event=event,
        others=tuple(query.content for query in queries),
    )


class QueryEmbedder:
    """Embeds queries until it fails; from then on only keywords are searched, and `degraded` says why."""

    def __init__(
        self,
        space: EmbeddingSpace | None,
        embedding: Embedding | None,
        stopwatch: Stopwatch,
        *,
        language: str | None = None,
    ) -> None:
        """Find the embedder of the space; with a `language`, give up if its model cannot read that."""
        self.degraded: list[str] = []
        self._stopwatch = stopwatch
        self._into: tuple[EmbeddingSpace, Embedder] | None = None
        if space is None:
            self._give_up("this Postgres has no pgvector, or no space is active")
            return
        try:
            embedder = embedder_of(embedding, space)
        except ProviderUnavailable as error:
            self._give_up(str(error))
            return
        if embedder is None:
            self._give_up(f"nothing here embeds into the active space {space.name}")
        elif language is not None and not reads(space.model, language):
            # its hits would be random, and would rank above keyword hits
            self._give_up(f"{space.model} does not know {language}")
        else:
            self._into = space, embedder

    def embedded(self, text: str) -> tuple[EmbeddingSpace, Vector] | None:
        """Return the space and a text's vector in it, or None once embedding has failed."""
        if self._into is None:
            return None
        space, embedder = self._into
        try:
            with self._stopwatch.timed("embed"):
                return space, embedder.embed_query(text)
        except (ProviderUnavailable, ProviderFailed, ProviderRejected) as error:
            self._give_up(str(error))
            return None

    def _give_up(self, reason: str) -> None:
        self._into = None
        self.degraded.append(f"vectors: {reason}: only keywords are searched")
