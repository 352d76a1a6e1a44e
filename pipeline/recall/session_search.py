"""Search sessions: those on a topic, or the best ones with their best messages."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import Connection

from pipeline.recall.ask.ask import Ask
from pipeline.recall.ask.profiles import PROFILES
from pipeline.recall.find.sessions import RetrievedSession, sharing_topics
from pipeline.recall.narrowing import narrow
from pipeline.recall.pack.hits import as_line, rounded
from pipeline.recall.rank.ranked import Scored
from pipeline.store.messages import messages
from pipeline.store.search import candidate_rows
from schemas.search import Line, SearchQuery, SessionHit

MIN_TOPIC_FIT = 0.25
"""Minimum fit of a session to be on a topic, unless a query sets another."""


def search_topic(connection: Connection, query: Ask, search: SearchQuery) -> list[SessionHit]:
    """Return the sessions on a topic: the best first, or in order of time if the query names a time window."""
    min_fit = MIN_TOPIC_FIT if search.min_similarity is None else search.min_similarity
    fitting = narrow(connection, query, sessions=search.limit, min_fit=min_fit).chosen
    hits = _as_hits(fitting)
    if search.since is not None or search.until is not None:
        return sorted(hits, key=lambda hit: (hit.started_at, hit.session_id))
    return hits


def search_contextual(
    connection: Connection, query: Ask, search: SearchQuery
) -> tuple[list[SessionHit], list[SessionHit]]:
    """Return the best sessions with their best messages and neighbours, none if none fits well, and related ones."""
    profile = PROFILES["contextual"]
    min_fit = profile.min_session_fit if search.min_similarity is None else search.min_similarity
    narrowing = narrow(connection, query, sessions=profile.sessions, min_fit=min_fit)
    hits = [hit for hit in narrowing.ranking.hits if hit.candidate.text.strip()]
    lines: dict[int, list[Line]] = {}
    left = search.limit
    for session in narrowing.chosen:
        inside = [hit for hit in hits if hit.candidate.session == session.id]
        best = inside[: min(left, profile.messages_per_session)]
        left -= len(best)
        lines[session.id] = _with_neighbours(connection, query, best, profile.neighbours)
    related = [session for _, session in sharing_topics(narrowing.chosen, narrowing.others)]
    return _as_hits(narrowing.chosen, lines), _as_hits(related[: profile.related])


def _with_neighbours(connection: Connection, query: Ask, best: Sequence[Scored], reach: int) -> list[Line]:
    """Return these messages with `reach` neighbours on either side, in order of time."""
    if not best:
        return []
    score = {hit.candidate.id: hit.score for hit in best}
    near = candidate_rows.around(connection, query.request.scope, list(score), reach)
    shown = [message for message in messages.by_id(connection, near) if message.content.strip()]
    return [as_line(message, score.get(message.id)) for message in sorted(shown, key=lambda m: m.stamp)]


def _as_hits(
    sessions: Sequence[RetrievedSession], lines: Mapping[int, list[Line]] = MappingProxyType({})
) -> list[SessionHit]:
    """Return sessions as hits of a search; `lines` are the messages to show of each."""
    return [
        SessionHit(
            session_id=session.id,
            rank=number,
            score=round(session.score, 6),
            components=rounded(session.components),
            started_at=session.started_at,
            ended_at=session.ended_at,
            message_count=session.message_count,
            topics=list(session.topics),
            summary=session.summary,
            messages=lines.get(session.id, []),
        )
        for number, session in enumerate(sessions, start=1)
    ]
