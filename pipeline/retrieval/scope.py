"""A search on its way, and the candidates that its modes share."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from pipeline.ranking import rank
from pipeline.ranking.model import Candidate, Scored, Statistics
from pipeline.retrieval.candidates import (
    CANDIDATES_PER_ARM,
    VERBATIM_READ,
    VERBATIM_SCANNED,
    WHOLE_UP_TO,
    gathered,
    retrieve,
)
from pipeline.retrieval.prepare import Asked
from pipeline.store import text_search
from pipeline.store.filters import MessageFilter, Scope
from schemas.search import SearchQuery
from schemas.vectors import VectorSearch


@dataclass(frozen=True, kw_only=True)
class Searching:
    """A search on its way."""

    connection: Connection
    query: SearchQuery
    asked: Asked
    scope: Scope
    which: MessageFilter
    # the query's lexemes
    words: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """Candidates, best first, and the statistics of the scope that they were scored by."""

    hits: list[Scored]
    statistics: Statistics
    vector_search: VectorSearch


def is_whole(searching: Searching) -> bool:
    """Whether every message of the scope is a candidate."""
    return searching.asked.chat.message_count <= WHOLE_UP_TO


def ranked(searching: Searching) -> Ranked:
    """The candidates as a context ranks them: in a large chat with a filter, what it lets through and around."""
    asked = searching.asked
    found = retrieve(
        searching.connection,
        asked.chat,
        session_key=searching.scope.session_key,
        words=searching.words,
        space=asked.space,
        vector=asked.vector,
        exact=asked.question.exact,
        questions=asked.questions,
    )
    candidates, vector_search = found.candidates, found.vector_search
    if not (is_whole(searching) or searching.which.is_open):
        candidates = filtered_candidates(searching, searching.which)
        vector_search = "off" if asked.vector is None else "exact"
    return Ranked(
        hits=rank.rank(asked.question, candidates, found.statistics, asked.weights),
        statistics=found.statistics,
        vector_search=vector_search,
    )


def filtered_candidates(searching: Searching, which: MessageFilter) -> list[Candidate]:
    """The best of each arm among what a filter lets through, with their neighbours."""
    asked, connection, chat_id = searching.asked, searching.connection, searching.scope.chat_id
    by_word = text_search.keywords(
        connection,
        chat_id,
        which,
        searching.words,
        mean_size=asked.chat.lexeme_count / max(1, asked.chat.message_count),
        limit=2 * CANDIDATES_PER_ARM,
    )
    near: list[tuple[int, float]] = []
    if asked.space is not None and asked.vector is not None:
        near = text_search.nearest(
            connection, chat_id, which, asked.space, asked.vector, limit=2 * CANDIDATES_PER_ARM
        )
    rows = [
        row
        for piece in asked.question.exact
        for row in text_search.resembling(
            connection,
            chat_id,
            which,
            piece.parts,
            newest=VERBATIM_SCANNED // len(asked.question.exact),
            limit=VERBATIM_READ,
        )
        if piece.is_in(row[1])
    ]
    ids = list(dict.fromkeys([*(row[0] for row in rows), *by_word, *(identity for identity, _ in near)]))
    return gathered(
        connection, searching.scope, ids, searching.words, asked.space, asked.vector, asked.questions
    )
