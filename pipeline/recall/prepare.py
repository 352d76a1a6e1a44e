"""Embed a parsed question, after dating the event it refers to."""

from dataclasses import replace

from pipeline.clients.by_space import Embedding
from pipeline.recall.ask.ask import Ask, ParsedQuestion
from pipeline.recall.ask.query_embedder import QueryEmbedder
from pipeline.recall.ask.request import Stopwatch
from pipeline.recall.event_dating import date_event
from pipeline.store.connections.database import Database


def prepare_query(
    database: Database,
    tenant_id: str,
    parsed: ParsedQuestion,
    embedding: Embedding | None,
    stopwatch: Stopwatch,
) -> Ask:
    """Embed a parsed question, after dating the event it refers to; the model is called outside transactions.

    The model is that of the space that was active when the question was parsed, and all of it is compared there: a
    switch of spaces meanwhile changes nothing, as the one before is kept. If the event is found, the vector is that of
    the rest of the question only: what is similar to the event in meaning need not be what was said at its time.
    """
    ask, event = parsed.ask, parsed.event
    request, question, terms = ask.request, ask.question, ask.terms
    if not request.memory:
        return ask
    embedder = QueryEmbedder(request.prelude.space, embedding, stopwatch, language=request.chat.language)
    meaning, undated = question.content, None
    if event is not None:
        described = [(q, replace(t, embedded=embedder.embedded(q.content))) for q, t in event.described]
        with (
            stopwatch.timed("event"),
            database.tenant(tenant_id, keeps_plans=request.keeps_plans) as connection,
        ):
            dated = date_event(connection, request, event.mention, described, ask.zone)
        if dated is None:
            undated = event.mention
        else:
            question, meaning = replace(question, event=dated), event.rest or meaning
            terms = replace(terms, spans=[*terms.spans, (dated.start, dated.end)])
    vectors = [embedder.embedded(text) for text in (meaning, *parsed.others)]
    first, *rest = [None for _ in vectors] if embedder.degraded else vectors
    return replace(
        ask,
        question=question,
        terms=replace(
            terms,
            embedded=first,
            others=[replace(query, embedded=other) for query, other in zip(terms.others, rest, strict=True)],
        ),
        undated_event=undated,
        degraded=embedder.degraded,
    )
