"""Find sessions on a theme, and say how well each session fits a query.

A session's score is the mean of three parts from 0 to 1, for what it holds, what it is about, and the best that
is said in it:

- `words`: the share of the query's words that stand in its messages or summary, each word counting by how rare
  it is (BM25's idf);
- `meaning`: the cosine of its summary to the query; of its best message as long as it has none; how well that decides
  what the query asks a decision about, if that is more;
- `best_message`: the score of its best message as a share of the best of all.

It fits by the larger of the first two: that is what `min_similarity` is compared with. On the sample chats (175
questions, local model) the mean puts 79 % of the sessions with evidence among the first three, the best message alone
76 %, either of the others 74 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import Row

from pipeline.ranking import rank
from pipeline.ranking.model import Scored
from pipeline.ranking.similarity import share_of_words
from pipeline.retrieval.scope import Ranked, Searching, ranked
from pipeline.store import sessions, text_search, vector_search
from schemas.search import Line, SessionHit
from schemas.sessions import Message

THEME_FIT = 0.25
"""What fits less is not on the theme, unless a query says otherwise. On the sample chats with the local model 15 % of
all sessions fit so well, and of those that questions on a theme need 75 %; 0.2 would be 28 and 87 %."""


@dataclass(frozen=True, kw_only=True)
class Theme:
    """A session with how well it fits a query."""

    row: Row[Any]
    words: float
    meaning: float
    best_message: float

    @property
    def fit(self) -> float:
        """The larger of what it holds and what it is about, from 0 to 1."""
        return max(self.words, self.meaning)

    @property
    def parts(self) -> dict[str, float]:
        """What its score is the mean of."""
        return {"words": self.words, "meaning": self.meaning, "best_message": self.best_message}

    @property
    def score(self) -> float:
        """The mean of its parts."""
        return sum(self.parts.values()) / 3


def on(searching: Searching) -> list[SessionHit]:
    """Sessions on a theme: the best first, or in order of time where the query names a time window."""
    query = searching.query
    least = THEME_FIT if query.min_similarity is None else query.min_similarity
    fitting = [theme for theme in scored(searching, ranked(searching)) if theme.fit >= least][: query.limit]
    hits = as_hits(fitting, cards(searching, fitting))
    if query.since is not None or query.until is not None:
        return sorted(hits, key=lambda hit: (hit.started_at, hit.session_id))
    return hits


def scored(searching: Searching, found: Ranked) -> list[Theme]:
    """All sessions that the query's filters let through, best first; equal ones newer first."""
    query, asked, connection = searching.query, searching.asked, searching.connection
    rows = text_search.sessions_about(
        connection,
        query.chat_id,
        searching.words,
        session_key=query.session_key,
        session_id=query.session_id,
        since=query.since,
        until=query.until,
    )
    cosines: Mapping[int, float] = {}
    if asked.space is not None and asked.vector is not None:
        cosines = vector_search.session_cosines(connection, searching.scope, asked.space, asked.vector)
    hits = passing(searching, found.hits)
    best = dict(rank.rank_sessions(hits))
    top = max((hit.score for hit in best.values()), default=0.0)
    held: dict[int, set[str]] = {}
    for hit in hits:
        held.setdefault(hit.candidate.session, set()).update(hit.candidate.terms)
    themes = []
    for row in rows:
        said = best.get(row.id)
        themes.append(
            Theme(
                row=row,
                words=share_of_words(
                    held.get(row.id, set()) | set(row.words or ()), searching.words, found.statistics
                ),
                meaning=max(
                    _decides(searching, said),
                    cosines.get(row.id, (said.candidate.cosine or 0.0) if said else 0.0),
                ),
                best_message=max(0.0, said.score / top) if said and top > 0 else 0.0,
            )
        )
    return sorted(themes, key=lambda t: (-t.score, -t.row.ended_at.timestamp(), -t.row.id))


def _decides(searching: Searching, said: Scored | None) -> float:
    """How well a session's best message decides what the query asks a decision about, from 0 to 1."""
    weight = searching.asked.weights.decision
    return max(0.0, said.parts.get("decision", 0.0) / weight) if said is not None and weight else 0.0


def passing(searching: Searching, hits: Sequence[Scored]) -> Sequence[Scored]:
    """Only what may be shown speaks for its session."""
    if searching.which.is_open:
        return hits
    ids = [hit.candidate.id for hit in hits]
    allowed = text_search.allowed(searching.connection, searching.scope.chat_id, searching.which, ids)
    return [hit for hit in hits if hit.candidate.id in allowed]


def as_line(message: Message, score: float | None = None) -> Line:
    """A message for a search's answer."""
    return Line(
        id=str(message.id),
        external_id=message.external_id,
        at=message.sent_at,
        speaker=message.speaker,
        role=message.role,
        text=message.content,
        score=None if score is None else round(score, 6),
    )


def cards(searching: Searching, themes: Sequence[Theme]) -> dict[int, Row[Any]]:
    """What is stored of these sessions, by their ids."""
    return {row.id: row for row in sessions.cards(searching.connection, [t.row.id for t in themes])}


def as_hits(
    themes: Sequence[Theme],
    cards: Mapping[int, Row[Any]],
    lines: Mapping[int, list[Line]] = MappingProxyType({}),
) -> list[SessionHit]:
    """Sessions for a search's answer; `lines` are what to show of each."""
    return [
        SessionHit(
            session_id=theme.row.id,
            rank=number,
            score=round(theme.score, 6),
            components={name: round(value, 6) for name, value in theme.parts.items()},
            started_at=theme.row.started_at,
            ended_at=theme.row.ended_at,
            message_count=theme.row.message_count,
            topics=list(cards[theme.row.id].topic_tags),
            summary=cards[theme.row.id].summary_text,
            messages=lines.get(theme.row.id, []),
        )
        for number, theme in enumerate(themes, start=1)
    ]
