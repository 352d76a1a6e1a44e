"""Rank the messages of a scope for a search, and list ranked messages in answers and explanations."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from sqlalchemy import Connection

from pipeline.ranking import rank
from pipeline.ranking.model import Scored
from pipeline.retrieval.candidates import CandidateSet, retrieve
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.store import text_search
from pipeline.text import truncate
from schemas.context import BlockKind, Hit
from schemas.search import Line
from schemas.sessions import Message

PREVIEW_CHARS = 160


class Ranking(NamedTuple):
    """Ranked messages, best first, and the candidates that they are."""

    hits: list[Scored]
    found: CandidateSet


def rank_messages(connection: Connection, query: PreparedQuery) -> Ranking:
    """Rank messages as a context does; with a filter, those that it lets through with neighbours."""
    return ranking_of(query, retrieve(connection, query.request, query.terms))


def ranking_of(query: PreparedQuery, found: CandidateSet) -> Ranking:
    """Rank these candidates for a question."""
    return Ranking(
        rank.rank(query.question, found.candidates, found.statistics, query.request.weights), found
    )


def allowed(connection: Connection, query: PreparedQuery, hits: Sequence[Scored]) -> Sequence[Scored]:
    """Return the hits that the request's filter lets through."""
    request = query.request
    if request.filter.is_open:
        return hits
    ids = [hit.candidate.id for hit in hits]
    passing = text_search.allowed(connection, request.chat.chat_id, request.filter, ids)
    return [hit for hit in hits if hit.candidate.id in passing]


def terms_by_session(hits: Iterable[Scored]) -> dict[int, set[str]]:
    """Return the lexemes of all queries that the messages of each session hold."""
    held = defaultdict[int, set[str]](set)
    for candidate in (hit.candidate for hit in hits):
        held[candidate.session].update(candidate.terms, *(other.terms for other in candidate.others))
    return held


def message_hits(
    best: Sequence[Scored],
    arms: Mapping[str, Sequence[int]],
    shown: Mapping[tuple[str, str], BlockKind] = MappingProxyType({}),
) -> list[Hit]:
    """Ranked messages for an answer; `arms` is what each found, `shown` the block that a thing is in."""
    places = defaultdict[int, dict[str, int]](dict)
    for arm, ids in arms.items():
        for place, message in enumerate(ids, start=1):
            places[message][arm] = place
    return [
        Hit(
            kind="message",
            id=str(hit.candidate.id),
            external_id=hit.candidate.external_id,
            session_id=hit.candidate.session or None,
            at=hit.candidate.sent_at,
            speaker=hit.candidate.speaker,
            preview=preview(hit.candidate.text),
            rank=number,
            score=round(hit.score, 6),
            components=rounded(hit.parts),
            arms=places[hit.candidate.id],
            queries=dict(hit.candidate.found_by),
            shown_in=shown.get(("message", str(hit.candidate.id))),
        )
        for number, hit in enumerate(best, start=1)
    ]


def as_line(message: Message, score: float | None = None) -> Line:
    """Put a message on a line of a search's answer."""
    return Line(
        id=str(message.id),
        external_id=message.external_id,
        at=message.sent_at,
        speaker=message.speaker,
        role=message.role,
        text=message.content,
        score=None if score is None else round(score, 6),
    )


def preview(text: str, piece: str = "") -> str:
    """Return the beginning of a text on one line; with a `piece` of it, from a little before that."""
    start = max(0, text.casefold().find(piece.casefold()) - 60)
    cut = (truncate.ELLIPSIS if start else "") + truncate.one_line(text[start:])
    return truncate.shortened(cut, PREVIEW_CHARS)


def rounded(parts: Mapping[str, float]) -> dict[str, float]:
    """Round the parts of a score to six digits."""
    return {name: round(value, 6) for name, value in parts.items()}
