"""Find candidates: the union of what each arm finds, with its neighbours; one way for a chat of any size.

The arms are the best by words, the best by vector, what holds a piece of the question verbatim, what was said at the
times that it names, the best of those whom it names, the newest where it asks for these, and the best of the sessions
whose summaries fit. What answers a hit, or is answered by it, comes with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.clients.model_languages import knows
from pipeline.ranking import asides
from pipeline.ranking.asides import Questions
from pipeline.ranking.model import Candidate, QueryMatch, Statistics
from pipeline.retrieval.request import QueryTerms, RetrievalRequest, SearchTerms
from pipeline.store import (
    arms,
    candidate_rows,
    keyword_search,
    messages,
    sessions,
    text_search,
    vector_search,
)
from pipeline.store.arms import Arms
from pipeline.store.filters import MessageFilter, Scope
from pipeline.store.keyword_search import KeywordHits, KeywordSearch
from pipeline.store.session_search import SessionLimits
from pipeline.store.vector_search import VectorHits
from pipeline.text.exact_match import Verbatim
from pipeline.text.message_cues import stored_or_read
from schemas.languages import parts_of
from schemas.sessions import RepliedTo, number_of
from schemas.vectors import VectorSearch

# Messages that the arms of words and vectors find …
CANDIDATES_PER_ARM = 50
# … times this where half of them are asides …
BEHIND_ASIDES = 8
# … and those of each other arm …
CANDIDATES_PER_SIDE_ARM = 30
# … with neighbours on either side.
REACH = 2
# Sessions whose messages are candidates: the best by the vectors of their summaries, and by the words of these …
BEST_SESSIONS = 4
# … and messages of each.
PER_SESSION = 12
# Sessions whose summaries are compared by words, the newest, and those whose fit ranking gets to know.
SESSIONS_READ, SESSIONS_KNOWN = 500, 50
SESSION_LIMITS = SessionLimits(
    read=SESSIONS_READ, known=SESSIONS_KNOWN, looked_into=BEST_SESSIONS, messages=PER_SESSION
)
# Messages that a filter leaves out are no candidates.
WITHOUT_MESSAGES = replace(SESSION_LIMITS, looked_into=0)
# Of somebody named, the best are looked for among so many of the nearest messages.
NAMED_WITHIN = 400
# What meaning counts where the embedding model does not know the language; chosen on the sample chats of part `fit`.
UNKNOWN_LANGUAGE_TRUST = 0.4
# Of each time that a question names, messages that are looked at.
TIME_READ = 2000
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
    # what each arm found, the best first
    arms: Mapping[str, Sequence[int]]
    # how vectors were searched, and how many were compared
    vector_search: VectorSearch
    rows_compared: int
    # whether every message with a word of the query was scored
    keyword_search: KeywordSearch


@dataclass(frozen=True, kw_only=True)
class _Arms:
    """What the arms found: by words and by vector for each query, the question first; and by everything else."""

    by_word: Sequence[KeywordHits]
    by_vector: Sequence[VectorHits]
    found: Mapping[str, Sequence[int]]


def retrieve(connection: Connection, request: RetrievalRequest, terms: SearchTerms) -> CandidateSet:
    """Read the candidates of a scope; hits are those that the request's filter lets through."""
    size = request.chat.message_count
    if request.session_key is not None:
        size = sessions.messages_of_key(connection, request.chat.chat_id, request.session_key)
    first = _search(connection, request, terms, size)
    fitting = first.sessions
    aside = _side_arms(connection, request, terms)
    if first.inside:
        aside["sessions"] = first.inside
    for limit in (CANDIDATES_PER_ARM, BEHIND_ASIDES * CANDIDATES_PER_ARM):
        arms = _main_arms(
            connection, request, terms, size, limit, first if limit == CANDIDATES_PER_ARM else None
        )
        hits = set(chain(*arms.found.values()))
        ids = list(dict.fromkeys(chain(*aside.values(), *arms.found.values())))
        candidates = with_neighbours(connection, request.scope, ids, terms)
        if 2 * sum(candidate.aside for candidate in candidates if candidate.id in hits) <= len(hits):
            break

    def statistics(query: QueryTerms, words: KeywordHits, vectors: VectorHits) -> Statistics:
        return Statistics(
            messages=size,
            mean_length=_mean_length(request),
            document_frequency={word: words.document_frequency.get(word, 0) for word in query.lexemes},
            mean_cosine=vectors.mean_cosine,
        )

    own, *others = map(statistics, terms.queries, arms.by_word, arms.by_vector)
    return CandidateSet(
        candidates=candidates,
        statistics=replace(
            own,
            session_cosines=fitting.cosines,
            mean_session_cosine=fitting.mean_cosine,
            trust=_trust(request.chat.language, terms),
            others=others,
        ),
        arms={**arms.found, **aside},
        vector_search=arms.by_vector[0].search,
        rows_compared=arms.by_vector[0].compared,
        keyword_search=arms.by_word[0].search,
    )


def _trust(language: str, terms: SearchTerms) -> float:
    """Return how far meaning is to be trusted in a chat: the less, the fewer of its languages the model knows."""
    if terms.embedded is None:
        return 1.0
    model = terms.embedded[0].model
    parts = parts_of(language)
    unknown = sum(knows(model, part) is False for part in parts)
    return 1 - (1 - UNKNOWN_LANGUAGE_TRUST) * unknown / len(parts)


def _search(connection: Connection, request: RetrievalRequest, terms: SearchTerms, size: int) -> Arms:
    """Search for the question by words, by vector and by the summaries of sessions."""
    space, vector = terms.embedded or (None, None)
    return arms.search(
        connection,
        request.scope,
        terms.lexemes,
        space,
        vector,
        messages=size,
        mean_size=_mean_length(request),
        limit=CANDIDATES_PER_ARM,
        sessions=SESSION_LIMITS if request.filter.is_open else WITHOUT_MESSAGES,
        indexed=request.prelude.indexed,
    )


def _main_arms(
    connection: Connection,
    request: RetrievalRequest,
    terms: SearchTerms,
    size: int,
    limit: int,
    known: Arms | None,
) -> _Arms:
    """Search by words and by vector, for each query; what is `known` of the question is not searched again."""
    by_word, by_vector = ([known.by_word], [known.by_vector]) if known else ([], [])
    for query, share in _shares(terms, limit)[len(by_word) :]:
        by_word.append(keyword_hits(connection, request, query.lexemes, share, size=size))
        by_vector.append(
            vector_search.nearest(connection, request.scope, *query.embedded, messages=size, limit=share)
            if query.embedded
            else VectorHits()
        )
    found: dict[str, Sequence[int]] = {
        "keywords": list(dict.fromkeys(chain(*(each.scores for each in by_word)))),
        "vectors": list(dict.fromkeys(chain(*(each.cosines for each in by_vector)))),
    }
    if not request.filter.is_open:
        found = _filtered(connection, request, terms, 2 * limit)
    return _Arms(by_word=by_word, by_vector=by_vector, found=found)


def _filtered(
    connection: Connection, request: RetrievalRequest, terms: SearchTerms, limit: int
) -> dict[str, Sequence[int]]:
    """Search by words and by vector among the messages that the request's filter lets through."""
    chat_id, which = request.chat.chat_id, _within_scope(request)
    by_word = [
        text_search.keywords(
            connection, chat_id, which, query.lexemes, mean_size=_mean_length(request), limit=share
        )
        for query, share in _shares(terms, limit)
    ]
    by_vector = [
        dict(text_search.nearest(connection, chat_id, which, *query.embedded, limit=share))
        for query, share in _shares(terms, limit)
        if query.embedded
    ]
    return {
        "keywords": list(dict.fromkeys(chain(*by_word))),
        "vectors": list(dict.fromkeys(chain(*by_vector))),
    }


def _side_arms(
    connection: Connection, request: RetrievalRequest, terms: SearchTerms
) -> dict[str, Sequence[int]]:
    """Search by what else a question says: pieces of text, times, people, that it wants the newest."""
    scope, limit = request.scope, CANDIDATES_PER_SIDE_ARM
    space, vector = terms.embedded or (None, None)
    found: dict[str, Sequence[int]] = {}
    if terms.exact:
        found["verbatim"] = list(
            dict.fromkeys(
                chain(*(_holding(connection, request, piece, 1 / len(terms.exact)) for piece in terms.exact))
            )
        )
    if not request.filter.is_open:
        # the other arms search whatever the filter says
        return found
    if terms.spans:
        found["times"] = text_search.within(
            connection, scope, terms.spans, terms.lexemes, space, vector, read=TIME_READ, limit=limit
        )
    if terms.speakers or terms.named:
        by_name = keyword_hits(connection, request, [*terms.named, *terms.lexemes], limit).scores
        spoken = (
            vector_search.nearest_of_speakers(
                connection, scope, space, vector, list(terms.speakers), within=NAMED_WITHIN, limit=limit
            )
            if space is not None and vector is not None and terms.speakers
            else []
        )
        found["named"] = list(dict.fromkeys([*spoken, *by_name]))
    if terms.newest:
        newest = messages.recent(connection, scope.chat_id, limit, request.session_key, None)
        found["newest"] = [message.id for message in newest]
    return found


def _shares(terms: SearchTerms, limit: int) -> list[tuple[QueryTerms, int]]:
    """Return each query with the candidates of one arm that it may bring: all others together as many as the question.

    More would take longer to rank, for each query all candidates.
    """
    return [(terms, limit), *((other, max(1, limit // len(terms.others))) for other in terms.others)]


def _within_scope(request: RetrievalRequest) -> MessageFilter:
    """Return the request's filter, narrowed to its session key."""
    if request.session_key is None:
        return request.filter
    return replace(request.filter, session_key=request.session_key)


def _holding(connection: Connection, request: RetrievalRequest, piece: Verbatim, share: float) -> list[int]:
    """Find up to `CANDIDATES_PER_ARM` messages that hold a piece of the query verbatim.

    They are found by its words in the index, the best by BM25. Where the index has other words for it, or none (`to be
    or not to be`), the newest messages are read instead. `share` is the part of the limits that this piece may use.
    """
    chat, which = request.chat, _within_scope(request)
    held: list[int] = []
    if request.filter.is_open:
        words = keyword_search.lexemes(connection, chat.language, piece.text)
        hits = keyword_hits(connection, request, words, int(share * VERBATIM_READ), share=share).scores
        content = dict(candidate_rows.contents(connection, list(hits)))
        held = [message for message in hits if piece.is_in(content.get(message, ""))]
    if not held:
        newest = int(share * VERBATIM_SCANNED)
        rows = text_search.resembling(
            connection, chat.chat_id, which, piece.parts, newest=newest, limit=VERBATIM_READ
        )
        held = [message for message, content in rows if piece.is_in(content)]
    return held[:CANDIDATES_PER_ARM]


def keyword_hits(
    connection: Connection,
    request: RetrievalRequest,
    words: Sequence[str],
    limit: int,
    *,
    size: int | None = None,
    share: float = 1.0,
) -> KeywordHits:
    """Find the best messages of a scope of `size` by BM25; with a `share` of the messages that may be scored."""
    return keyword_search.keywords(
        connection,
        request.scope,
        words,
        messages=request.chat.message_count if size is None else size,
        mean_size=_mean_length(request),
        limit=limit,
        share=share,
    )


def _mean_length(request: RetrievalRequest) -> float:
    """Return the mean number of distinct lexemes of a chat's messages."""
    return request.chat.lexeme_count / max(1, request.chat.message_count)


def with_neighbours(
    connection: Connection, scope: Scope, ids: Sequence[int], terms: SearchTerms
) -> list[Candidate]:
    """Read these messages as candidates, with `REACH` neighbours on either side and what answers them."""
    lexemes = list(dict.fromkeys(chain(*(query.lexemes for query in terms.queries))))
    space, vector = terms.embedded or (None, None)
    rows = candidate_rows.with_neighbours(connection, scope, ids, REACH, lexemes, space, vector)
    known = [row[0] for row in rows]
    cosines = [
        candidate_rows.cosines_of(connection, known, *query.embedded) if query.embedded else {}
        for query in terms.queries[1:]
    ]
    return _candidates(rows, cosines, terms, scope.language)


def _candidates(
    rows: Sequence[Row[*tuple[Any, ...]]],
    cosines: Sequence[Mapping[int, float]],
    terms: SearchTerms,
    language: str,
) -> list[Candidate]:
    """Return rows of `candidate_rows` as candidates, each with its place; `cosines` are those of each other query."""
    known = [frozenset(query.lexemes) for query in terms.queries]
    # by position and not by name, which takes three times as long: some hundreds are made for each query
    ordered = sorted((row[12], row[5], row[6], number_of(row[1]), row[0], row) for row in rows)
    by_external_id = {row[1]: row for row in rows}
    candidates = []
    # the session of the message before, and what comes right after that
    before, following = -1, None
    place = 0
    for *_, row in ordered:
        # columns are unpacked at once, as looking each up would take longer than all else
        (
            message,
            external_id,
            speaker,
            role,
            content,
            sent_at,
            _,
            size,
            found,
            reply_to,
            answered,
            cosine,
            session,
            after,
            asks,
            flags,
        ) = row
        if session != before:
            place = 0
        else:
            place += 1 if following == message else 2
        before, following = session, after
        held = [{word: n for word, n in found.items() if word in each} if found else {} for each in known]
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
                terms=held[0],
                length=size,
                cosine=cosine,
                cues=stored_or_read(asks, flags, content, language, of_a_bot=role == "assistant"),
                answered=_answered(by_external_id.get(reply_to), answered) if reply_to else None,
                others=[
                    QueryMatch(own, each.get(message)) for own, each in zip(held[1:], cosines, strict=True)
                ],
            )
        )
    questions: Questions | None = terms.questions
    return candidates if questions is None else asides.marked(candidates, questions)


def _answered(named: Row[*tuple[Any, ...]] | None, otherwise: Sequence[Any] | None) -> RepliedTo | None:
    """Return the message that a message answers: the row that it names, if that was read too, else what is known."""
    if named is not None:
        return RepliedTo(named[0], named[2], named[4])
    return RepliedTo(*otherwise) if otherwise else None
