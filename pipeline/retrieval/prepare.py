"""Prepare a query in two steps: parse the question, then date the event that it counts from and embed it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from pipeline.clients.by_space import Embedding
from pipeline.question import followup, parse, temporal_anchor
from pipeline.question.parse import Question
from pipeline.question.temporal_anchor import Mention
from pipeline.ranking.asides import Questions
from pipeline.retrieval.event_dating import date_event
from pipeline.retrieval.query_embedder import QueryEmbedder
from pipeline.retrieval.request import QueryTerms, RetrievalRequest, SearchTerms, Stopwatch
from pipeline.store.database import Database
from pipeline.store.prelude import lexemes_of


@dataclass(frozen=True, kw_only=True)
class ParsedEvent:
    """An event that a question counts from."""

    mention: Mention
    # what is said of each of `mention.events`, and what messages are compared with for it
    described: tuple[tuple[Question, SearchTerms], ...]
    # what the question asks for beside it; None: nothing
    rest: str | None


@dataclass(frozen=True, kw_only=True)
class ParsedQuestion:
    """What a question asks for, and what its chat adds to that."""

    request: RetrievalRequest
    question: Question
    # what messages are compared with, before anything is embedded
    terms: SearchTerms
    event: ParsedEvent | None
    # the other queries, without names and dates
    others: tuple[str, ...]
    # words of recent talk that it leans on; `question.content` ends in them
    brief: list[str]
    zone: ZoneInfo


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


def parse_question(connection: Connection, request: RetrievalRequest) -> ParsedQuestion:
    """Parse the question of a request."""
    prelude, weights = request.prelude, request.weights
    chat, now = prelude.chat, request.as_of or prelude.now
    zone = ZoneInfo(chat.time_zone)

    def read(text: str) -> Question:
        return parse.read(text, prelude.names, prelude.began or now, now.astimezone(zone), chat.language)

    question, brief = read(request.text), list[str]()
    if request.memory and request.include_history and followup.leans(question):
        brief = followup.brief(question, prelude.recent, now, prelude.names)
    if brief:
        question = replace(question, content=" ".join((question.content, *brief)))
    mention = (
        temporal_anchor.mention(request.text, question.language) if weights.date and request.memory else None
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
    asked = (
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

    def terms(one: Question, words: Sequence[str]) -> SearchTerms:
        return SearchTerms(
            lexemes=words,
            questions=asked,
            spans=one.spans,
            speakers=one.speakers,
            named=named,
            newest="now" in one.asks,
        )

    event = None
    if mention is not None:
        described = tuple((one, terms(one, words)) for one, words in zip(events, lexemes[1:], strict=False))
        rest = read(mention.rest).content if mention.rest else None
        event = ParsedEvent(mention=mention, described=described, rest=rest)
    return ParsedQuestion(
        request=request,
        question=question,
        terms=replace(
            terms(question, lexemes[0]),
            exact=question.exact,
            others=[QueryTerms(lexemes=words) for words in lexemes[1 + len(events) :]],
        ),
        event=event,
        others=tuple(one.content for one in others),
        brief=brief,
        zone=zone,
    )


def prepare_query(
    database: Database,
    tenant_id: str,
    parsed: ParsedQuestion,
    embedding: Embedding | None,
    stopwatch: Stopwatch,
) -> PreparedQuery:
    """Embed a parsed question, after the event that it counts from is dated; the model is called outside transactions.

    The model is that of the space that was active when the question was parsed, and all of it is compared there: a
    switch of spaces meanwhile changes nothing, as the one before is kept. If the event is found, the vector is that of
    the rest of the question only: what is similar to the event in meaning need not be what was said at its time.
    """
    request, question, terms, event = parsed.request, parsed.question, parsed.terms, parsed.event
    if not request.memory:
        return PreparedQuery(parsed=parsed, question=question, terms=terms)
    embedder = QueryEmbedder(request.prelude.space, embedding, stopwatch, language=request.chat.language)
    meaning, undated = question.content, None
    if event is not None:
        described = [
            (one, replace(its, embedded=embedder.embedded(one.content))) for one, its in event.described
        ]
        with (
            stopwatch.timed("event"),
            database.tenant(tenant_id, keeps_plans=request.keeps_plans) as connection,
        ):
            dated = date_event(connection, request, event.mention, described, parsed.zone)
        if dated is None:
            undated = event.mention
        else:
            question, meaning = replace(question, event=dated), event.rest or meaning
            terms = replace(terms, spans=[*terms.spans, (dated.start, dated.end)])
    vectors = [embedder.embedded(text) for text in (meaning, *parsed.others)]
    own, *others = [None for _ in vectors] if embedder.degraded else vectors
    return PreparedQuery(
        parsed=parsed,
        question=question,
        terms=replace(
            terms,
            embedded=own,
            others=[
                replace(query, embedded=other) for query, other in zip(terms.others, others, strict=True)
            ],
        ),
        undated_event=undated,
        degraded=embedder.degraded,
    )
