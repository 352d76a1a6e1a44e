"""Search sessions: those on a topic, or the best ones with their best messages."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import Connection

from pipeline.recall.ask.ask import Ask
from pipeline.recall.ask.profiles import PROFILES
from pipeline.recall.find.sessions import RetrievedSession, sharing_topics
from pipeline.recall.message_ranking import judged_by
from pipeline.recall.narrowing import narrow
from pipeline.recall.pack.hits import as_line, rounded
from pipeline.recall.rank.ranked import Narrowing, Scored
from pipeline.recall.relevance import judge
from pipeline.store.messages import messages
from pipeline.store.search import candidate_rows
from schemas.search import Line, SearchQuery, SessionHit

MAX_SESSIONS, MAX_MESSAGES = 3, 5
"""Best sessions of a search that narrows to them, and best messages of each session, without neighbours."""


def search_topic(connection: Connection, query: Ask, search: SearchQuery) -> list[SessionHit]:
    """Return the sessions on a topic in order of time, each with the messages that have to do with it."""
    narrowing = narrow(connection, query, sessions=search.limit, min_fit=search.min_similarity, each=True)
    lines = {
        session.id: _with_neighbours(connection, query, hits, 0)
        for session, hits in _best_messages(query, narrowing)
    }
    return sorted(_as_hits(narrowing.chosen, lines), key=lambda hit: (hit.started_at, hit.session_id))


def search_contextual(
    connection: Connection, query: Ask, search: SearchQuery
) -> tuple[list[SessionHit], list[SessionHit]]:
    """Return the best sessions with their best messages and neighbours, none if none fits well, and related ones."""
    profile = PROFILES["contextual"]
    narrowing = narrow(connection, query, sessions=MAX_SESSIONS, min_fit=search.min_similarity)
    lines: dict[int, list[Line]] = {}
    left = search.limit
    for session, hits in _best_messages(query, narrowing):
        lines[session.id] = _with_neighbours(connection, query, hits[:left], profile.neighbours)
        left -= len(hits[:left])
    related = [session for _, session in sharing_topics(narrowing.chosen, narrowing.others)]
    return _as_hits(narrowing.chosen, lines), _as_hits(related[: profile.related])


def _best_messages(query: Ask, narrowing: Narrowing) -> Iterator[tuple[RetrievedSession, list[Scored]]]:
    """Yield each chosen session with its best messages, those worth showing."""
    hits = narrowing.ranking.hits
    worths = zip(hits, judge.worths(hits, None, judged_by(query)), strict=True)
    shown = [hit for hit, worth in worths if worth >= judge.LIMIT and hit.candidate.text.strip()]
    for session in narrowing.chosen:
        yield session, [hit for hit in shown if hit.candidate.session == session.id][:MAX_MESSAGES]


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
