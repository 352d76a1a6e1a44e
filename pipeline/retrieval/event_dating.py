"""When an event that a question names was: found in what was said about it, by the ranking that answers questions."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, tzinfo

from sqlalchemy import Connection

from pipeline.question import temporal_anchor
from pipeline.question.parse import Question
from pipeline.question.temporal_anchor import EventDate, Mention, Timed
from pipeline.ranking import rank
from pipeline.ranking.asides import Questions
from pipeline.ranking.model import Scored, Weights
from pipeline.retrieval.candidates import retrieve
from pipeline.store import keyword_search
from pipeline.store.chats import Chat
from pipeline.text import calendar
from schemas.vectors import EmbeddingSpace, Vector

# Of the event's words the best message and its surroundings must hold so much, as `rank` weighs them from 0 to 1 …
CLEAR = 0.5
# … and what is said of it by messages of so much of the best score, of so many, must lie within so many days: what is
# done all the time is no event. Weeks, as plans are moved.
NEAR = 0.8
READ = 10
APART = timedelta(days=21)
# A message that names more than a week says nothing of when.
LONGEST = timedelta(days=8)


def when(
    connection: Connection,
    chat: Chat,
    mentioned: Mention,
    described: Sequence[tuple[Question, Vector | None]],
    *,
    session_key: str | None,
    space: EmbeddingSpace | None,
    questions: Questions | None,
    weights: Weights,
    zone: tzinfo,
) -> Timed | None:
    """The time that a question counts from its event; None when what was said about that is not clear.

    `described` are the words for each of `mentioned.events`, read as a question, with their vectors. Costs what
    `retrieve` and `rank.rank` cost, for each.
    """
    found = []
    for asked, vector in described:
        retrieved = retrieve(
            connection,
            chat,
            session_key=session_key,
            words=keyword_search.lexemes(connection, chat.language, asked.content),
            space=space,
            vector=vector,
            questions=questions,
        )
        hits = rank.rank(asked, retrieved.candidates, retrieved.statistics, weights)
        one = told(hits, weights, zone)
        if one is None:
            return None
        found.append(one)
    return temporal_anchor.timed(mentioned, tuple(found))


def told(hits: Sequence[Scored], weights: Weights, zone: tzinfo) -> EventDate | None:
    """When the event was that `hits`, best first, are about; None when that is not clear.

    Of the best hits the newest that names days is taken, as plans change; without such, the first that was said, as an
    event is told of when it happens and talked about afterwards.
    """
    if not hits or not weights.words or hits[0].parts["words"] < CLEAR * weights.words:
        return None
    best = [_told(hit, zone) for hit in hits[:READ] if hit.score >= NEAR * hits[0].score]
    starts = [one.start for one in best]
    if max(starts) - min(starts) > APART:
        return None
    dated = [one for one in best if one.dated]
    if dated:
        return max(dated, key=lambda one: one.said_at)
    return min(best, key=lambda one: one.said_at)


def _told(hit: Scored, zone: tzinfo) -> EventDate:
    said = hit.candidate.sent_at.astimezone(zone)
    span = _days(hit.candidate.text, said)
    start, end = span or (said, said)
    return EventDate(
        start=start, end=end, dated=span is not None, said_at=said, speaker=hit.candidate.speaker
    )


def _days(text: str, said: datetime) -> tuple[datetime, datetime] | None:
    """The days that a message names; None when it names none, or several that have nothing in common."""
    spans = [
        (_midnight(first, said), _midnight(first + timedelta(days=count), said))
        for first, count in calendar.days(text, said.date())
    ]
    spans += [span for span in calendar.dates(text, said, said)[0] if span[1] - span[0] <= LONGEST]
    if not spans:
        return None
    start, end = max(span[0] for span in spans), min(span[1] for span in spans)
    return (start, end) if start < end else None


def _midnight(day: date, said: datetime) -> datetime:
    return datetime.combine(day, time(), said.tzinfo)
