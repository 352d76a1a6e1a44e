"""Search sessions: those on a topic, or the best ones with what was said in them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.ranking.model import Scored
from pipeline.retrieval.message_ranking import allowed, as_line, rank_messages, rounded
from pipeline.retrieval.profiles import PROFILES
from pipeline.retrieval.request import PreparedQuery
from pipeline.retrieval.sessions import ScoredSession, narrow, score_sessions
from pipeline.store import candidate_rows, messages, summaries
from schemas.search import Line, SearchQuery, SessionHit

MIN_TOPIC_FIT = 0.25
"""Sessions that fit less are not on a topic, unless a query says otherwise."""


def search_topic(connection: Connection, query: PreparedQuery, search: SearchQuery) -> list[SessionHit]:
    """Sessions on a topic: the best first, or in order of time if the query names a time window."""
    min_fit = MIN_TOPIC_FIT if search.min_similarity is None else search.min_similarity
    sessions = score_sessions(connection, query, rank_messages(connection, query))
    fitting = [session for session in sessions if session.fit >= min_fit][: search.limit]
    hits = _as_hits(fitting, _stored(connection, fitting))
    if search.since is not None or search.until is not None:
        return sorted(hits, key=lambda hit: (hit.started_at, hit.session_id))
    return hits


def search_contextual(
    connection: Connection, query: PreparedQuery, search: SearchQuery
) -> tuple[list[SessionHit], list[SessionHit]]:
    """`(sessions, related)`: the best sessions with their best messages and neighbours; none if none fits well."""
    profile = PROFILES["contextual"]
    min_fit = profile.min_session_fit if search.min_similarity is None else search.min_similarity
    ranked = rank_messages(connection, query)
    found = narrow(connection, query, ranked, sessions=profile.sessions, min_fit=min_fit)
    if not found.chosen:
        return [], []
    hits = [hit for hit in allowed(connection, query, found.hits) if hit.candidate.text.strip()]
    stored = _stored(connection, [*found.chosen, *found.others])
    lines: dict[int, list[Line]] = {}
    left = search.limit
    for session in found.chosen:
        inside = [hit for hit in hits if hit.candidate.session == session.row.id]
        best = inside[: min(left, profile.messages_per_session)]
        left -= len(best)
        lines[session.row.id] = _with_neighbours(connection, query, best, profile.neighbours)
    related = _sharing_topics(found.chosen, found.others, stored)[: profile.related]
    return _as_hits(found.chosen, stored, lines), _as_hits(related, stored)


def _with_neighbours(
    connection: Connection, query: PreparedQuery, best: Sequence[Scored], reach: int
) -> list[Line]:
    """These messages with `reach` neighbours on either side, in order of time."""
    if not best:
        return []
    score = {hit.candidate.id: hit.score for hit in best}
    near = candidate_rows.around(connection, query.request.scope, list(score), reach)
    shown = [message for message in messages.by_id(connection, near) if message.content.strip()]
    return [as_line(message, score.get(message.id)) for message in sorted(shown, key=lambda m: m.stamp)]


def _sharing_topics(
    chosen: Sequence[ScoredSession], others: Sequence[ScoredSession], stored: Mapping[int, Row[Any]]
) -> list[ScoredSession]:
    """The others that share topics or entities with the chosen ones, most shared first."""

    def topics(session: ScoredSession) -> set[str]:
        row = stored[session.row.id]
        return {str(each).casefold() for each in (*row.topic_tags, *row.entities)}

    wanted = {topic for session in chosen for topic in topics(session)}
    shared = [(len(wanted & topics(session)), session) for session in others]
    return [session for count, session in sorted(shared, key=lambda s: (-s[0], -s[1].score)) if count]


def _stored(connection: Connection, sessions: Sequence[ScoredSession]) -> dict[int, Row[Any]]:
    """The stored rows of these sessions by id."""
    return {row.id: row for row in summaries.cards(connection, [s.row.id for s in sessions])}


def _as_hits(
    sessions: Sequence[ScoredSession],
    stored: Mapping[int, Row[Any]],
    lines: Mapping[int, list[Line]] = MappingProxyType({}),
) -> list[SessionHit]:
    """Sessions for a search's answer; `lines` are the messages to show of each."""
    return [
        SessionHit(
            session_id=session.row.id,
            rank=number,
            score=round(session.score, 6),
            components=rounded(session.parts),
            started_at=session.row.started_at,
            ended_at=session.row.ended_at,
            message_count=session.row.message_count,
            topics=list(stored[session.row.id].topic_tags),
            summary=stored[session.row.id].summary_text,
            messages=lines.get(session.row.id, []),
        )
        for number, session in enumerate(sessions, start=1)
    ]
