"""Date an event that a question mentions, from the messages that discuss it."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, tzinfo

from sqlalchemy import Connection

from pipeline.recall.ask import time_preference
from pipeline.recall.ask.parse import Question
from pipeline.recall.ask.request import RetrievalRequest, SearchTerms
from pipeline.recall.ask.temporal_anchor import Mention
from pipeline.recall.ask.time_preference import EventDate, Timed
from pipeline.recall.ask.weights import Weights
from pipeline.recall.find.candidates import retrieve
from pipeline.recall.rank import rank
from pipeline.recall.rank.ranked import Scored
from pipeline.text.calendars import calendar

# The best message and its surroundings must hold at least this share of the event's words, as `rank` weighs them.
MIN_WORDS_SHARE = 0.5
# Messages with at least this share of the best score, of the first `HITS_READ`, speak for the event …
BEST_SCORE_SHARE = 0.8
HITS_READ = 10
# … and must date it within this time of the best: a recurring thing is no event. Weeks, as plans are moved.
MAX_SPREAD = timedelta(days=21)
# They agree if those within it have this share of all their scores: in a large chat some are off topic.
AGREEING_SHARE = 0.75
# A message that names a longer time does not date an event.
MAX_SPAN = timedelta(days=8)


def date_event(
    connection: Connection,
    request: RetrievalRequest,
    mention: Mention,
    described: Sequence[tuple[Question, SearchTerms]],
    zone: tzinfo,
) -> Timed | None:
    """Date the event that a question counts from; None if the messages about it are not clear.

    `described` are the words for each of `mention.events`, parsed as a question. Retrieves and ranks once for each.
    """
    dated = []
    for question, terms in described:
        retrieved = retrieve(connection, request, terms)
        hits = rank.rank(question, retrieved.candidates, retrieved.statistics, request.weights)
        event_date = date_hits(hits, request.weights, zone, request.chat.language)
        if event_date is None:
            return None
        dated.append(event_date)
    return time_preference.timed(mention, tuple(dated))


def date_hits(
    hits: Sequence[Scored], weights: Weights, zone: tzinfo, language: str = "english"
) -> EventDate | None:
    """Date the event that `hits`, best first, are about; None if that is not clear.

    The newest of the best hits that names days counts, as plans change; if none does, the oldest, as an event is
    reported when it happens and discussed afterwards.
    """
    if not hits or hits[0].parts["words"] < MIN_WORDS_SHARE * weights.words:
        return None
    near = [hit for hit in hits[:HITS_READ] if hit.score >= BEST_SCORE_SHARE * hits[0].score]
    speaking = [(_dated(hit, zone, language), hit.score) for hit in near]
    agreeing = [
        (event, score) for event, score in speaking if abs(event.start - speaking[0][0].start) <= MAX_SPREAD
    ]
    if sum(score for _, score in agreeing) < AGREEING_SHARE * sum(score for _, score in speaking):
        return None
    best = [event for event, _ in agreeing]
    dated = [event for event in best if event.dated]
    if dated:
        return max(dated, key=lambda event: event.said_at)
    return min(best, key=lambda event: event.said_at)


def _dated(hit: Scored, zone: tzinfo, language: str) -> EventDate:
    said_at = hit.candidate.sent_at.astimezone(zone)
    span = _days(hit.candidate.text, said_at, language)
    start, end = span or (said_at, said_at)
    return EventDate(
        start=start, end=end, dated=span is not None, said_at=said_at, speaker=hit.candidate.speaker
    )


def _days(text: str, said_at: datetime, language: str = "english") -> tuple[datetime, datetime] | None:
    """Return the days that a message names; None if it names none, or several that do not overlap."""
    spans = [
        (_midnight(first, said_at), _midnight(first + timedelta(days=count), said_at))
        for first, count in calendar.days(text, said_at.date(), language)
    ]
    spans += [
        span for span in calendar.dates(text, said_at, said_at, language)[0] if span[1] - span[0] <= MAX_SPAN
    ]
    if not spans:
        return None
    start, end = max(span[0] for span in spans), min(span[1] for span in spans)
    return (start, end) if start < end else None


def _midnight(day: date, said_at: datetime) -> datetime:
    return datetime.combine(day, time(), said_at.tzinfo)
