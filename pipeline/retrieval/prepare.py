"""Prepare a query in three steps: parse the question, plan what is searched with, embed it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from pipeline.clients.by_space import Embedding, embedder_of
from pipeline.clients.model_languages import reads
from pipeline.clients.protocols import Embedder
from pipeline.question import followup, parse, temporal_anchor
from pipeline.question.parse import Question
from pipeline.question.temporal_anchor import Mention
from pipeline.ranking.asides import Questions
from pipeline.retrieval.event_dating import date_event
from pipeline.retrieval.request import QueryTerms, RetrievalRequest, SearchTerms, Stopwatch
from pipeline.store.database import Database
from pipeline.store.prelude import lexemes_of
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.vectors import EmbeddingSpace, Vector


@dataclass(frozen=True, kw_only=True)
class ParsedEvent:
    """An event that a question counts from."""

    mention: Mention
    # what is said of each of `mention.events`, with its lexemes
    described: tuple[tuple[Question, list[str]], ...]
    # what the question asks for beside it; None: nothing
    rest: str | None


@dataclass(frozen=True, kw_only=True)
class ParsedQuestion:
    """What a question asks for, and what its chat adds to that."""

    request: RetrievalRequest
    question: Question
    lexemes: list[str]
    event: ParsedEvent | None
    # the content and the lexemes of each other query
    others: tuple[tuple[str, list[str]], ...]
    # the lexemes of the names in it
    named: list[str]
    # words of recent talk that it leans on; `question.content` ends in them
    brief: list[str]
    # it and those asked before it; None: no message is an aside
    questions: Questions | None
    zone: ZoneInfo
    # the database's clock
    now: datetime
    # the asker's name; None where nobody is named
    asker: str | None
    # the space that the tenant's vectors are in
    active_space: EmbeddingSpace | None


@dataclass(frozen=True, kw_only=True)
class EmbeddingPlan:
    """The space that a question is embedded into, if any, and why not otherwise."""

    parsed: ParsedQuestion
    space: EmbeddingSpace | None = None
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PreparedQuery:
    """A question that is embedded, with the time of the event that it counts from."""

    parsed: ParsedQuestion
    question: Question
    terms: SearchTerms
    # an event that could not be dated
    undated_event: Mention | None = None
    # what could not be done
    degraded: Sequence[str] = ()

    @property
    def request(self) -> RetrievalRequest:
        """The request that it was prepared for."""
        return self.parsed.request


def prepare_query(
    database: Database,
    tenant_id: str,
    parsed: ParsedQuestion,
    embedding: Embedding | None,
    stopwatch: Stopwatch,
) -> PreparedQuery:
    """Plan a parsed question and embed it; the model is called outside any transaction.

    The model is that of the space that was active when the question was parsed, and all of it is compared there: a
    switch of spaces meanwhile changes nothing, as the one before is kept.
    """
    space = parsed.active_space
    embedder, away = None, None
    if space is not None and parsed.request.memory:
        try:
            embedder = embedder_of(embedding, space)
        except ProviderUnavailable as error:
            away = error
    return embed(database, tenant_id, plan(parsed, embedder, away), embedder, stopwatch)


def parse_question(connection: Connection, request: RetrievalRequest) -> ParsedQuestion:
    """Parse the question of a request."""
    prelude, weights = request.prelude, request.weights
    chat, now = prelude.chat, prelude.now
    zone = ZoneInfo(chat.time_zone)

    def read(text: str) -> Question:
        return parse.read(text, prelude.names, prelude.began or now, now.astimezone(zone), chat.language)

    question, brief = read(request.text), list[str]()
    may_lean = request.memory and request.include_history and request.parameters.brief_words
    if may_lean and followup.leans(question):
        brief = followup.brief(question, prelude.recent, now, request.parameters.brief_words, prelude.names)
    if brief:
        question = replace(question, content=" ".join((question.content, *brief)))
    mention = (
        temporal_anchor.mention(request.text, chat.language) if weights.date and request.memory else None
    )
    if mention is not None and any(mention.text in piece.text for piece in question.exact):
        mention = None
    events = [read(one) for one in mention.events] if mention is not None else []
    others = [read(one) for one in request.queries]
    named, *lexemes = lexemes_of(
        connection,
        prelude,
        [" ".join(question.names)]
        + [parse.telling(one.content, chat.language) for one in (question, *events, *others)],
    )
    event = None
    if mention is not None:
        described = tuple(zip(events, lexemes[1:], strict=False))
        rest = read(mention.rest).content if mention.rest else None
        event = ParsedEvent(mention=mention, described=described, rest=rest)
    return ParsedQuestion(
        request=request,
        question=question,
        lexemes=lexemes[0],
        named=named,
        event=event,
        others=tuple(
            (one.content, words) for one, words in zip(others, lexemes[1 + len(events) :], strict=True)
        ),
        brief=brief,
        questions=None
        if request.finds_questions
        else Questions.of(request.text, chat.language, prelude.logged, prelude.names),
        zone=zone,
        now=now,
        asker=prelude.asker,
        active_space=prelude.space,
    )


def plan(
    parsed: ParsedQuestion, embedder: Embedder | None, away: ProviderUnavailable | None = None
) -> EmbeddingPlan:
    """Decide whether a question is compared by vectors: in the active space, by its embedder, if that is not away."""
    space = parsed.active_space
    if not parsed.request.memory:
        return EmbeddingPlan(parsed=parsed)
    if space is None:
        missing = "vectors: this Postgres has no pgvector, or no space is active: only keywords are searched"
        return EmbeddingPlan(parsed=parsed, degraded=(missing,))
    if away is not None:
        return EmbeddingPlan(parsed=parsed, degraded=(f"vectors: {away}: only keywords are searched",))
    if embedder is None:
        missing = (
            f"vectors: nothing here embeds into the active space {space.name}: only keywords are searched"
        )
        return EmbeddingPlan(parsed=parsed, degraded=(missing,))
    language = parsed.request.chat.language
    if parsed.request.weights.words and not reads(space.model, language):
        # what it finds there is chance, and would stand before what words find
        foreign = f"vectors: {space.model} does not know {language}: only keywords are searched"
        return EmbeddingPlan(parsed=parsed, degraded=(foreign,))
    return EmbeddingPlan(parsed=parsed, space=space)


def embed(
    database: Database, tenant_id: str, plan: EmbeddingPlan, embedder: Embedder | None, stopwatch: Stopwatch
) -> PreparedQuery:
    """Embed a question, after the event that it counts from is dated.

    If the event is found, the vector is that of the rest of the question only: what is similar to the event in
    meaning need not be what was said at its time.
    """
    parsed, request = plan.parsed, plan.parsed.request
    space, degraded = plan.space, list(plan.degraded)

    def vector_of(text: str) -> Vector | None:
        nonlocal space
        if space is None or embedder is None:
            return None
        try:
            with stopwatch.timed("embed"):
                return embedder.embed_query(text)
        except (ProviderUnavailable, ProviderFailed, ProviderRejected) as error:
            space = None
            degraded.append(f"vectors: {error}: only keywords are searched")
            return None

    def embedded(vector: Vector | None) -> tuple[EmbeddingSpace, Vector] | None:
        return None if space is None or vector is None else (space, vector)

    def terms(asked: Question, lexemes: list[str], vector: Vector | None) -> SearchTerms:
        return SearchTerms(
            lexemes=lexemes,
            embedded=embedded(vector),
            questions=parsed.questions,
            spans=[*asked.spans, *([(asked.event.start, asked.event.end)] if asked.event else [])],
            speakers=asked.speakers,
            named=parsed.named,
            newest="now" in asked.asks,
        )

    question, meaning, undated = parsed.question, parsed.question.content, None
    if parsed.event is not None:
        described = [(one, words, vector_of(one.content)) for one, words in parsed.event.described]
        keeps_plans = not request.prelude.indexed
        with (
            stopwatch.timed("event"),
            database.tenant(tenant_id, keeps_plans=keeps_plans) as connection,
        ):
            event = date_event(
                connection,
                request,
                parsed.event.mention,
                [(one, terms(one, words, vector)) for one, words, vector in described],
                parsed.zone,
            )
        if event is None:
            undated = parsed.event.mention
        else:
            question, meaning = replace(question, event=event), parsed.event.rest or meaning
    contents = [meaning, *(content for content, _ in parsed.others)] if request.memory else []
    vectors = [vector_of(content) for content in contents]
    vector, *others = vectors or [None]
    return PreparedQuery(
        parsed=parsed,
        question=question,
        terms=replace(
            terms(question, parsed.lexemes, vector),
            exact=question.exact,
            others=[
                QueryTerms(lexemes=words, embedded=embedded(other))
                for (_, words), other in zip(parsed.others, others, strict=False)
            ],
        ),
        undated_event=undated,
        degraded=degraded,
    )
