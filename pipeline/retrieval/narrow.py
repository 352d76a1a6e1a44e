"""Narrow a search to the few sessions that fit a query best, or find that none fits well enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from pipeline.ranking import rank
from pipeline.ranking.model import Scored
from pipeline.retrieval import session_ranking
from pipeline.retrieval.profiles import PROFILES
from pipeline.retrieval.scope import Ranked, Searching, filtered_candidates, is_whole, ranked
from pipeline.retrieval.session_ranking import Theme, as_line
from pipeline.store import candidate_rows, messages
from pipeline.store.filters import Inside, MessageFilter
from schemas.search import Line, SessionHit

# Sessions that may be related to those chosen.
OTHERS = 12


@dataclass(frozen=True, kw_only=True)
class Narrowing:
    """The sessions worth looking into, or none, with the next best, and what matters in them."""

    # empty: none fits well enough, and `hits` are the whole scope's
    chosen: Sequence[Theme]
    others: Sequence[Theme]
    # messages of the chosen sessions, best first
    hits: Sequence[Scored]


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """The same for a search's answer."""

    sessions: list[SessionHit]
    related: list[SessionHit]


def narrow(searching: Searching, found: Ranked, *, sessions: int, least: float) -> Narrowing:
    """The best `sessions` with their messages; none, and all messages, where the best fits by less than `least`.

    What fitting is, says `pipeline.retrieval.session_ranking`.
    """
    fitting = session_ranking.scored(searching, found)
    if not fitting or fitting[0].fit < least:
        return Narrowing(chosen=(), others=fitting[:OTHERS], hits=found.hits)
    chosen = fitting[:sessions]
    return Narrowing(
        chosen=chosen, others=fitting[sessions:][:OTHERS], hits=_inside(searching, found, chosen)
    )


def narrowed(searching: Searching) -> Narrowed | None:
    """The best sessions with their best messages and neighbours; None when no session fits well enough."""
    profile, query = PROFILES["contextual"], searching.query
    least = profile.min_session_fit if query.min_similarity is None else query.min_similarity
    found = narrow(searching, ranked(searching), sessions=profile.sessions, least=least)
    if not found.chosen:
        return None
    passing = [hit for hit in session_ranking.passing(searching, found.hits) if hit.candidate.text.strip()]
    cards = session_ranking.cards(searching, [*found.chosen, *found.others])
    lines: dict[int, list[Line]] = {}
    left = query.limit
    for theme in found.chosen:
        inside = [hit for hit in passing if hit.candidate.session == theme.row.id]
        best = inside[: min(left, profile.messages_per_session)]
        left -= len(best)
        lines[theme.row.id] = _with_neighbours(searching, best, profile.neighbours)
    return Narrowed(
        sessions=session_ranking.as_hits(found.chosen, cards, lines),
        related=session_ranking.as_hits(_alike(found.chosen, found.others, cards)[: profile.related], cards),
    )


def _inside(searching: Searching, found: Ranked, chosen: Sequence[Theme]) -> list[Scored]:
    """The messages of these sessions, best first."""
    hits = found.hits
    if not is_whole(searching):
        # the arms have looked all over the chat: look again, in these sessions alone
        windows = [
            Inside(theme.row.session_key, theme.row.started_at, theme.row.ended_at) for theme in chosen
        ]
        candidates = {
            candidate.id: candidate
            for window in windows
            for candidate in filtered_candidates(searching, MessageFilter(session=window))
        }
        question, weights = searching.asked.question, searching.asked.weights
        hits = rank.rank(question, list(candidates.values()), found.statistics, weights)
    ids = {theme.row.id for theme in chosen}
    return [hit for hit in hits if hit.candidate.session in ids]


def _with_neighbours(searching: Searching, best: Sequence[Scored], reach: int) -> list[Line]:
    """These messages with so many neighbours on either side, in order of time."""
    if not best:
        return []
    score = {hit.candidate.id: hit.score for hit in best}
    near = candidate_rows.around(searching.connection, searching.scope, list(score), reach)
    said = [message for message in messages.by_id(searching.connection, near) if message.content.strip()]
    said.sort(key=lambda m: m.stamp)
    return [as_line(message, score.get(message.id)) for message in said]


def _alike(chosen: Sequence[Theme], others: Sequence[Theme], cards: Mapping[int, Row[Any]]) -> list[Theme]:
    """Of the others those that share topics or entities with the chosen ones, who shares most first."""

    def about(theme: Theme) -> set[str]:
        card = cards[theme.row.id]
        return {str(each).casefold() for each in (*card.topic_tags, *card.entities)}

    wanted = {each for theme in chosen for each in about(theme)}
    shared = [(len(wanted & about(theme)), theme) for theme in others]
    return [theme for count, theme in sorted(shared, key=lambda s: (-s[0], -s[1].score)) if count]
