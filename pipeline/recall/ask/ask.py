"""Parse a question: what it asks for, and what its chat adds to that."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from pipeline.recall.ask import followup, parse, temporal_anchor
from pipeline.recall.ask.parse import Question
from pipeline.recall.ask.questions import Questions
from pipeline.recall.ask.request import QueryTerms, RetrievalRequest, SearchTerms
from pipeline.recall.ask.temporal_anchor import Mention
from pipeline.store.search.prelude import lexemes_of


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
    if request.memory and request.include_history and followup.is_followup(question):
        brief = followup.context_words(question, prelude.recent, now, prelude.names)
    if brief:
        question = replace(question, content=" ".join((question.content, *brief)))
    mention = (
        temporal_anchor.mention(request.text, question.language) if weights.date and request.memory else None
    )
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
