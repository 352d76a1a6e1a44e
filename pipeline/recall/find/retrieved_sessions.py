"""The sessions and the weeks that a search found, as answers show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.recall.request import Request
from pipeline.store.sessions import rollups, session_rows
from schemas.sessions import EXTRACTIVE

# Latest sessions of a time that a question asks to sum up: more than a context has room for.
MAX_OVERVIEW_SESSIONS = 100
_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class RetrievedSession:
    """A session that was found, with its final score."""

    id: int
    started_at: datetime
    ended_at: datetime
    summary: str | None
    # whether a language model wrote the summary: an extractive one quotes, and says no more than its messages
    is_described: bool = field(default=False, kw_only=True)
    participants: Sequence[str]
    topics: Sequence[str]
    entities: Sequence[str]
    session_key: str
    message_count: int
    score: float = 0.0
    # the parts of the score
    components: Mapping[str, float] = field(default_factory=dict)
    # how well it fits a search that narrows to sessions, see `pipeline.recall.narrowing`
    fit: float = 0.0

    @property
    def about(self) -> str:
        """What it was about: its summary by a language model, or else its topics."""
        return (self.summary or "") if self.is_described else ", ".join(self.topics)


def load_sessions(
    connection: Connection, scored: Sequence[tuple[int, float, Mapping[str, float]]]
) -> list[RetrievedSession]:
    """Load the sessions of each `(id, score, components)`."""
    rows = {
        row.id: row
        for row in session_rows.cards_of_sessions(connection, [session for session, _, _ in scored])
    }
    return [
        _retrieved(row, score, components)
        for session, score, components in scored
        if (row := rows.get(session)) is not None
    ]


def load_overview(connection: Connection, request: Request) -> list[RetrievedSession]:
    """Load the sessions of the time that a question is about, in order; what was said later is left out."""
    spans = request.question.spans
    start, until = min(start for start, _ in spans), max(end for _, end in spans)
    rows = session_rows.cards_of_time(
        connection,
        request.chat.chat_id,
        start,
        min(until, request.as_of or until),
        session_key=request.session_key,
        limit=MAX_OVERVIEW_SESSIONS,
    )
    return [_retrieved(row) for row in rows if request.as_of is None or row.ended_at < request.as_of]


def _retrieved(
    row: Row[Any], score: float = 0.0, components: Mapping[str, float] = _NONE
) -> RetrievedSession:
    return RetrievedSession(
        id=row.id,
        started_at=row.started_at,
        ended_at=row.ended_at,
        summary=row.summary_text,
        is_described=row.summary_model not in (None, EXTRACTIVE),
        participants=row.participants,
        topics=row.topic_tags,
        entities=row.entities,
        session_key=row.session_key,
        message_count=row.message_count,
        score=score,
        components=components,
    )


def sharing_topics(
    chosen: Sequence[RetrievedSession], candidates: Sequence[RetrievedSession]
) -> list[tuple[list[str], RetrievedSession]]:
    """Return the candidates that share topics or entities with the chosen ones, and which, most shared first."""
    topics = {topic.casefold() for session in chosen for topic in (*session.topics, *session.entities)}
    shared = [
        (sorted({t for t in (*session.topics, *session.entities) if t.casefold() in topics}), session)
        for session in candidates
    ]
    return sorted((s for s in shared if s[0]), key=lambda s: (-len(s[0]), -s[1].score))


@dataclass(frozen=True, kw_only=True)
class RetrievedWeek:
    """A week with its summary."""

    id: int
    monday: date
    started_at: datetime
    summary: str


def find_weeks(connection: Connection, request: Request) -> list[RetrievedWeek]:
    """Return the weeks of the times that a question names, in order; none where one key is asked about.

    A time of a few days has none: its sessions say more of it than a summary of the week.
    """
    times = [(start.date(), until.date()) for start, until in request.question.spans]
    times = [(first, until) for first, until in times if (until - first).days >= 7]
    if not times or request.session_key is not None:
        return []
    return [
        RetrievedWeek(
            id=row.id,
            monday=row.week,
            started_at=row.started_at,
            summary=row.summary_text,
        )
        for row in rollups.of_times(connection, request.chat.chat_id, times)
        if request.as_of is None or row.ended_at < request.as_of
    ]
