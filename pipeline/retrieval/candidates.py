"""Find candidates: messages that match the words, the vector or the verbatim pieces of a query, with their neighbours.

In a small scope every message is a candidate. In a large one the candidates are the best by keyword, the best by
vector, and what holds a quoted phrase or an identifier of the query verbatim: the union of the arms and not the scores
of one, so that a hit of either can surface.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, starmap
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.question.thesaurus import Wording, wording
from pipeline.ranking import asides
from pipeline.ranking.asides import Questions
from pipeline.ranking.model import Candidate, QueryMatch, Statistics
from pipeline.retrieval.request import QueryTerms, RetrievalRequest, SearchTerms
from pipeline.store import candidate_rows, keyword_search, text_search, vector_search
from pipeline.store.candidate_rows import SessionRange
from pipeline.store.chats import Chat
from pipeline.store.filters import MessageFilter, Scope
from pipeline.store.keyword_search import KeywordHits, KeywordSearch
from pipeline.store.vector_search import VectorHits
from pipeline.text.exact_match import Verbatim
from schemas.sessions import RepliedTo, number_of
from schemas.vectors import VectorSearch

# A scope of at most this many messages is read whole: one statement, and nothing is missed.
WHOLE_UP_TO = 1000
# Above that, messages that each arm finds …
CANDIDATES_PER_ARM = 50
# … times this where half of them are asides …
BEHIND_ASIDES = 8
# … and neighbours on either side.
REACH = 2
# Messages with the words of a phrase or an identifier that are read for it …
VERBATIM_READ = 1000
# … and the newest messages that are read if it is in none of them. All such pieces of a query share both limits, so
# that eight take hardly longer than one.
VERBATIM_SCANNED = 20_000


@dataclass(frozen=True, kw_only=True)
class CandidateSet:
    """Candidates with the statistics that scoring them needs."""

    candidates: list[Candidate]
    statistics: Statistics
    # how vectors were searched, and how many were compared
    vector_search: VectorSearch
    rows_compared: int
    # whether every message with a word of the query was scored
    keyword_search: KeywordSearch


def retrieve(connection: Connection, request: RetrievalRequest, terms: SearchTerms) -> CandidateSet:
    """Read the candidates of a scope, whatever the request's filter lets through."""
    if is_whole(request.chat):
        return _whole(connection, request.scope, terms)
    return _large(connection, request, terms)


def is_whole(chat: Chat) -> bool:
    """Return whether every message of a scope of this chat is a candidate."""
    return chat.message_count <= WHOLE_UP_TO


def _whole(connection: Connection, scope: Scope, terms: SearchTerms) -> CandidateSet:
    """Every message of the scope, and the statistics counted from them."""
    words = _wordings(scope, terms)
    rows = candidate_rows.all_messages(connection, scope, _all_of(words))
    cosines = [
        candidate_rows.cosines(connection, scope, *query.embedded) if query.embedded else {}
        for query in terms.queries
    ]
    placed = _placed(rows, candidate_rows.session_ranges(connection, scope))
    candidates = _candidates(rows, placed, cosines, words, terms.questions)

    def statistics(number: int, query: QueryTerms) -> Statistics:
        held = [c.others[number - 1].terms if number else c.terms for c in candidates]
        return Statistics(
            messages=len(candidates),
            mean_length=sum(c.length for c in candidates) / max(1, len(candidates)),
            document_frequency={word: sum(1 for each in held if word in each) for word in query.lexemes},
            mean_cosine=sum(cosines[number].values()) / max(1, len(cosines[number])),
        )

    return CandidateSet(
        candidates=candidates,
        statistics=_nested(list(starmap(statistics, enumerate(terms.queries)))),
        vector_search="exact" if terms.embedded else "off",
        rows_compared=len(cosines[0]),
        keyword_search="exact",
    )


def _large(connection: Connection, request: RetrievalRequest, terms: SearchTerms) -> CandidateSet:
    """Read the best of each arm with their neighbours; the statistics are the whole scope's."""
    chat, scope = request.chat, request.scope
    verbatim = [
        message
        for piece in terms.exact
        for message in _holding(connection, request, piece, 1 / len(terms.exact))
    ]
    for limit in (CANDIDATES_PER_ARM, BEHIND_ASIDES * CANDIDATES_PER_ARM):
        shares = _shares(terms, limit)
        by_word = [keyword_hits(connection, request, query.lexemes, share) for query, share in shares]
        by_vector = [
            vector_search.nearest(
                connection, scope, *query.embedded, messages=chat.message_count, limit=share
            )
            if query.embedded
            else VectorHits()
            for query, share in shares
        ]
        arms = [*(found.scores for found in by_word), *(found.cosines for found in by_vector)]
        hits = dict.fromkeys(chain(*arms))
        ids = list(dict.fromkeys([*verbatim, *hits]))
        candidates = with_neighbours(connection, scope, ids, terms)
        if 2 * sum(candidate.aside for candidate in candidates if candidate.id in hits) <= len(ids):
            break

    def statistics(query: QueryTerms, words: KeywordHits, vectors: VectorHits) -> Statistics:
        return Statistics(
            messages=chat.message_count,
            mean_length=_mean_length(chat),
            document_frequency={word: words.document_frequency.get(word, 0) for word in query.lexemes},
            mean_cosine=vectors.mean_cosine,
        )

    return CandidateSet(
        candidates=candidates,
        statistics=_nested(list(map(statistics, terms.queries, by_word, by_vector))),
        vector_search=by_vector[0].search,
        rows_compared=by_vector[0].compared,
        keyword_search=by_word[0].search,
    )


def _shares(terms: SearchTerms, limit: int) -> list[tuple[QueryTerms, int]]:
    """Return each query with the candidates of one arm that it may bring: all others together as many as the question.

    More would take longer to rank, for each query all candidates.
    """
    return [(terms, limit), *((other, max(1, limit // len(terms.others))) for other in terms.others)]


def _nested(each: Sequence[Statistics]) -> Statistics:
    """Return the statistics of the question, which is the first query, with those of the others inside."""
    return replace(each[0], others=each[1:])


def _holding(connection: Connection, request: RetrievalRequest, piece: Verbatim, share: float) -> list[int]:
    """Find up to `CANDIDATES_PER_ARM` messages that hold a piece of the query verbatim.

    They are found by its words in the index, the best by BM25. Where the index has other words for it, or none (`to be
    or not to be`), the newest messages are read instead. `share` is the part of the limits that this piece may use.
    """
    chat, words = request.chat, keyword_search.lexemes(connection, request.chat.language, piece.text)
    hits = keyword_hits(connection, request, words, int(share * VERBATIM_READ), share).scores
    content = dict(candidate_rows.contents(connection, list(hits)))
    held = [message for message in hits if piece.is_in(content.get(message, ""))]
    if not held:
        anywhere = MessageFilter(session_key=request.session_key)
        held = _scanned(connection, chat.chat_id, anywhere, piece, int(share * VERBATIM_SCANNED))
    return held[:CANDIDATES_PER_ARM]


def keyword_hits(
    connection: Connection, request: RetrievalRequest, words: Sequence[str], limit: int, share: float = 1.0
) -> KeywordHits:
    """Find the best messages of a scope by BM25; with a `share` of the messages that may be scored."""
    chat = request.chat
    return keyword_search.keywords(
        connection,
        request.scope,
        words,
        messages=chat.message_count,
        mean_size=_mean_length(chat),
        limit=limit,
        share=share,
    )


def filtered(
    connection: Connection, request: RetrievalRequest, which: MessageFilter, terms: SearchTerms
) -> list[Candidate]:
    """Read the best of each arm among the messages that a filter lets through, with their neighbours."""
    chat_id, limit = request.chat.chat_id, 2 * CANDIDATES_PER_ARM
    by_word = [
        text_search.keywords(
            connection, chat_id, which, query.lexemes, mean_size=_mean_length(request.chat), limit=share
        )
        for query, share in _shares(terms, limit)
    ]
    by_vector = [
        dict(text_search.nearest(connection, chat_id, which, *query.embedded, limit=share))
        for query, share in _shares(terms, limit)
        if query.embedded
    ]
    verbatim = [
        message
        for piece in terms.exact
        for message in _scanned(connection, chat_id, which, piece, VERBATIM_SCANNED // len(terms.exact))
    ]
    ids = list(dict.fromkeys(chain(verbatim, *by_word, *by_vector)))
    return with_neighbours(connection, request.scope, ids, terms)


def with_neighbours(
    connection: Connection, scope: Scope, ids: Sequence[int], terms: SearchTerms
) -> list[Candidate]:
    """These messages with `REACH` neighbours on either side, as candidates."""
    placed = candidate_rows.around(connection, scope, ids, REACH)
    words = _wordings(scope, terms)
    space, vector = terms.embedded or (None, None)
    rows = candidate_rows.these_messages(connection, list(placed), _all_of(words), space, vector)
    cosines = [
        {row[0]: row[-1] for row in rows},
        *(
            candidate_rows.cosines_of(connection, list(placed), *query.embedded) if query.embedded else {}
            for query in terms.queries[1:]
        ),
    ]
    return _candidates(rows, placed, cosines, words, terms.questions)


def _wordings(scope: Scope, terms: SearchTerms) -> list[Wording]:
    """Return the lexemes of each query with their synonyms, the question's first."""
    return [wording(scope.language, query.lexemes) for query in terms.queries]


def _all_of(words: Sequence[Wording]) -> list[str]:
    """Return every lexeme that a message may be found by."""
    return list(dict.fromkeys(chain.from_iterable(each.all for each in words)))


def _mean_length(chat: Chat) -> float:
    """Return the mean number of distinct lexemes of a chat's messages."""
    return chat.lexeme_count / max(1, chat.message_count)


def _scanned(
    connection: Connection, chat_id: str, which: MessageFilter, piece: Verbatim, newest: int
) -> list[int]:
    """Messages that hold a piece verbatim, among the newest that a filter lets through."""
    rows = text_search.resembling(connection, chat_id, which, piece.parts, newest=newest, limit=VERBATIM_READ)
    return [message for message, content in rows if piece.is_in(content)]


def _placed(rows: Sequence[Row[*tuple[Any, ...]]], ranges: Sequence[SessionRange]) -> dict[int, int]:
    """Return the session of each message; 0 for those that are not placed yet."""
    starts = [(r.session_key, r.started_at) for r in ranges]
    placed = {}
    for row in rows:
        at = bisect_right(starts, (row.session_key, row.sent_at)) - 1
        inside = at >= 0 and ranges[at].session_key == row.session_key and row.sent_at <= ranges[at].ended_at
        placed[row.id] = ranges[at].id if inside else 0
    return placed


def _candidates(
    rows: Sequence[Row[*tuple[Any, ...]]],
    placed: Mapping[int, int],
    cosines: Sequence[Mapping[int, float | None]],
    words: Sequence[Wording],
    questions: Questions | None,
) -> list[Candidate]:
    """Rows of `candidate_rows` as candidates, each with its place in its session.

    `cosines` and `words` are those of each query, the question's first.
    """
    by_query = [(each, frozenset(each.all), found) for each, found in zip(words, cosines, strict=True)]
    # by position and not by name, which takes three times as long: some hundreds are made for each query
    ordered = sorted((placed[row[0]], row[6], row[7], number_of(row[1]), row[0], row) for row in rows)
    candidates = []
    by_external_id = {row[1]: row for row in rows}
    before, place = -1, 0
    for session, sent_at, _, _, _, row in ordered:
        place = place + 1 if session == before else 0
        before = session
        message, external_id, _, speaker, role, content, _, _, size, terms, reply_to, *_ = row
        own, *others = (
            QueryMatch(
                *(each.read({word: n for word, n in terms.items() if word in known}) if terms else ({}, {})),
                found.get(message),
            )
            for each, known, found in by_query
        )
        candidates.append(
            Candidate(
                id=message,
                session=session,
                place=place,
                external_id=external_id,
                speaker=speaker,
                role=role,
                text=content,
                sent_at=sent_at,
                terms=own.terms,
                length=size,
                cosine=own.cosine,
                related=own.related,
                answered=_answered(by_external_id.get(reply_to), row) if reply_to else None,
                others=others,
            )
        )
    return candidates if questions is None else asides.marked(candidates, questions)


def _answered(named: Row[*tuple[Any, ...]] | None, row: Row[*tuple[Any, ...]]) -> RepliedTo | None:
    """Return the message that a message answers: the row that it names, if that was read too, or what came with its
    own.
    """
    if named is not None:
        return RepliedTo(named[0], named[3], named[5])
    found = row._mapping.get("answered")
    return RepliedTo(*found) if found else None
