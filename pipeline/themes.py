"""Find sessions: those on a theme, and those worth looking into for a query.

A session's score is the mean of three parts from 0 to 1, for what it holds, what it is about, and the best that
is said in it:

- `words`: the share of the query's words that stand in its messages or summary, each word counting by how rare
  it is (BM25's idf);
- `meaning`: the cosine of its summary to the query; of its best message as long as it has none;
- `best_message`: the score of its best message as a share of the best of all.

It fits by the larger of the first two: that is what `min_similarity` is compared with. On the sample chats (175
questions, local model) the mean puts 79 % of the sessions with evidence among the first three, the best message alone
76 %, either of the others 74 %.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import Row

from pipeline import rank
from pipeline.profiles import PROFILES
from pipeline.rank import Scored, Statistics
from pipeline.searching import Ranked, Searching, filtered_candidates, is_whole, ranked
from pipeline.store import around, messages, nearest, searches, summaries
from pipeline.store.filters import Filter, Inside
from schemas.search import Line, SessionHit
from schemas.sessions import Message, Stamp

THEME_FIT = 0.25
"""What fits less is not on the theme, unless a query says otherwise. On the sample chats with the local model 15 % of
all sessions fit so well, and of those that questions on a theme need 75 %; 0.2 would be 28 and 87 %."""
NARROW_FIT = 0.5
"""Below it no session is worth looking into alone, unless a query says otherwise."""
# Sessions that may be related to those chosen.
OTHERS = 12


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
    def score(self) -> float:
        """The mean of its parts."""
        return (self.words + self.meaning + self.best_message) / 3


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """The sessions worth looking into, with what matters inside, and those related to them."""

    sessions: list[SessionHit]
    related: list[SessionHit]


def on(searching: Searching) -> list[SessionHit]:
    """Sessions on a theme: the best first, or in order of time where the query names a time window."""
    query = searching.query
    least = THEME_FIT if query.min_similarity is None else query.min_similarity
    fitting = [theme for theme in _themes(searching, ranked(searching)) if theme.fit >= least][: query.limit]
    hits = _hits(fitting, _cards(searching, fitting))
    if query.since is not None or query.until is not None:
        return sorted(hits, key=lambda hit: (hit.started_at, hit.session_id))
    return hits


def narrowed(searching: Searching) -> Narrowed | None:
    """The best sessions with their best messages and neighbours; None when no session fits well enough."""
    profile, query = PROFILES["contextual"], searching.query
    found = ranked(searching)
    themes = _themes(searching, found)
    if not themes or themes[0].fit < (NARROW_FIT if query.min_similarity is None else query.min_similarity):
        return None
    chosen, others = themes[: profile.sessions], themes[profile.sessions :][:OTHERS]
    cards = _cards(searching, [*chosen, *others])
    lines: dict[int, list[Line]] = {}
    left = query.limit
    for theme in chosen:
        best = _inside(searching, found, theme.row)[: min(left, profile.messages_per_session)]
        left -= len(best)
        lines[theme.row.id] = _with_neighbours(searching, best, profile.neighbours)
    return Narrowed(
        sessions=_hits(chosen, cards, lines),
        related=_hits(_alike(chosen, others, cards)[: profile.related], cards),
    )


def _themes(searching: Searching, found: Ranked) -> list[Theme]:
    """All sessions that the query's filters let through, best first; equal ones newer first."""
    query, asked, connection = searching.query, searching.asked, searching.connection
    rows = searches.sessions_about(
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
        cosines = nearest.session_cosines(connection, searching.scope, asked.space, asked.vector)
    hits = _passing(searching, found.hits)
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
                words=_share(
                    held.get(row.id, set()) | set(row.words or ()), searching.words, found.statistics
                ),
                meaning=max(0.0, cosines.get(row.id, (said.candidate.cosine or 0.0) if said else 0.0)),
                best_message=max(0.0, said.score / top) if said and top > 0 else 0.0,
            )
        )
    return sorted(themes, key=lambda t: (-t.score, -t.row.ended_at.timestamp(), -t.row.id))


def _passing(searching: Searching, hits: Sequence[Scored]) -> Sequence[Scored]:
    """Only what may be shown speaks for its session."""
    if searching.which.is_open:
        return hits
    ids = [hit.candidate.id for hit in hits]
    passing = searches.allowed(searching.connection, searching.scope.chat_id, searching.which, ids)
    return [hit for hit in hits if hit.candidate.id in passing]


def _share(held: Collection[str], words: Sequence[str], statistics: Statistics) -> float:
    """The share of the words that are held, each counting by its idf; 0 without words."""

    def idf(word: str) -> float:
        frequency = statistics.document_frequency.get(word, 0)
        return math.log(1 + (statistics.messages - frequency + 0.5) / (frequency + 0.5))

    total = sum(map(idf, words))
    return sum(idf(word) for word in words if word in held) / total if total > 0 else 0.0


def _inside(searching: Searching, found: Ranked, row: Row[Any]) -> list[Scored]:
    """The messages of a session that may be shown, best first."""
    hits = found.hits
    if not is_whole(searching):
        # the arms have looked all over the chat: look again, in this session alone
        inside = Filter(session=Inside(row.session_key, row.started_at, row.ended_at))
        candidates = filtered_candidates(searching, inside)
        hits = rank.rank(searching.asked.question, candidates, found.statistics, searching.asked.weights)
    ours = [hit for hit in hits if hit.candidate.session == row.id and hit.candidate.text.strip()]
    return list(_passing(searching, ours))


def _with_neighbours(searching: Searching, best: Sequence[Scored], reach: int) -> list[Line]:
    """These messages with so many neighbours on either side, in order of time."""
    if not best:
        return []
    score = {hit.candidate.id: hit.score for hit in best}
    near = around.around(searching.connection, searching.scope, list(score), reach)
    said = [message for message in messages.by_id(searching.connection, near) if message.content.strip()]
    said.sort(key=lambda m: Stamp(m.sent_at, m.position, m.external_id))
    return [as_line(message, score.get(message.id)) for message in said]


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


def _alike(chosen: Sequence[Theme], others: Sequence[Theme], cards: Mapping[int, Row[Any]]) -> list[Theme]:
    """Of the others those that share topics or entities with the chosen ones, who shares most first."""

    def about(theme: Theme) -> set[str]:
        card = cards[theme.row.id]
        return {str(each).casefold() for each in (*card.topic_tags, *card.entities)}

    wanted = {each for theme in chosen for each in about(theme)}
    shared = [(len(wanted & about(theme)), theme) for theme in others]
    return [theme for count, theme in sorted(shared, key=lambda s: (-s[0], -s[1].score)) if count]


def _cards(searching: Searching, themes: Sequence[Theme]) -> dict[int, Row[Any]]:
    return {row.id: row for row in summaries.cards(searching.connection, [t.row.id for t in themes])}


def _hits(
    themes: Sequence[Theme],
    cards: Mapping[int, Row[Any]],
    lines: Mapping[int, list[Line]] = MappingProxyType({}),
) -> list[SessionHit]:
    return [
        SessionHit(
            session_id=theme.row.id,
            rank=number,
            score=round(theme.score, 6),
            components={
                "words": round(theme.words, 6),
                "meaning": round(theme.meaning, 6),
                "best_message": round(theme.best_message, 6),
            },
            started_at=theme.row.started_at,
            ended_at=theme.row.ended_at,
            message_count=theme.row.message_count,
            topics=list(cards[theme.row.id].topic_tags),
            summary=cards[theme.row.id].summary_text,
            messages=lines.get(theme.row.id, []),
        )
        for number, theme in enumerate(themes, start=1)
    ]
