"""Find candidates: what the words and the vectors of a query find in a scope, with the talk around it.

In a small scope every message is a candidate. In a large one the best by keyword and the best by vector are,
united (never the scores of one arm alone, so that a hit of either can surface), and what holds a quoted phrase or an
identifier of the query as it stands, with their neighbours.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.question.thesaurus import Wording, wording
from pipeline.ranking import asides
from pipeline.ranking.asides import Questions
from pipeline.ranking.model import Candidate, Statistics
from pipeline.store import candidate_rows, text_search
from pipeline.store import keyword_search as keywords
from pipeline.store import vector_search as nearest
from pipeline.store.candidate_rows import SessionRange
from pipeline.store.chats import Chat
from pipeline.store.filters import MessageFilter, Scope
from pipeline.store.keyword_search import KeywordSearch
from pipeline.text.exact_match import Verbatim
from schemas.sessions import RepliedTo, number_of
from schemas.vectors import EmbeddingSpace, Vector, VectorSearch

# Up to so many messages a scope is read whole: one statement, and nothing is missed.
WHOLE_UP_TO = 1000
# Above that, so many of each arm …
CANDIDATES_PER_ARM = 50
# … so many times as many where asides take half of these …
BEHIND_ASIDES = 8
# … and so many neighbours on either side.
REACH = 2
# What holds a phrase or an identifier is looked for in so many messages that have its words …
VERBATIM_READ = 1000
# … and when it is in none of them, in so many of the newest. All such pieces of a query share these, so that eight take
# hardly longer than one: some 30 ms.
VERBATIM_SCANNED = 20_000


@dataclass(frozen=True, kw_only=True)
class Retrieved:
    """Candidates with the statistics that scoring them needs."""

    candidates: list[Candidate]
    statistics: Statistics
    # how the vector arm searched, and how many vectors it compared
    vector_search: VectorSearch
    rows_compared: int
    # whether every message with a word of the query was scored
    keyword_search: KeywordSearch


def retrieve(
    connection: Connection,
    chat: Chat,
    *,
    session_key: str | None,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    vector: Vector | None,
    exact: Sequence[Verbatim] = (),
    questions: Questions | None = None,
) -> Retrieved:
    """The candidates for a query in a chat, or in one session key of it.

    `words` are the lexemes of the query without names and dates; `vector` its embedding in `space`, or None when
    there is none: then keywords find alone. `exact` are the pieces of it that a message may hold as they stand.
    Without `questions` nothing is an aside.
    """
    scope = Scope(chat_id=chat.chat_id, language=chat.language, session_key=session_key)
    if chat.message_count <= WHOLE_UP_TO:
        return _whole(connection, scope, words, space, vector, questions)
    return _large(connection, chat, scope, words, space, vector, exact, questions)


def _whole(
    connection: Connection,
    scope: Scope,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    vector: Vector | None,
    questions: Questions | None,
) -> Retrieved:
    """Every message of the scope, and the statistics counted from them."""
    asked = wording(scope.language, words)
    rows = candidate_rows.all_messages(connection, scope, asked.all)
    cosines = candidate_rows.cosines(connection, scope, space, vector) if space and vector is not None else {}
    placed = _placed(rows, candidate_rows.session_ranges(connection, scope))
    candidates = _candidates(rows, placed, cosines, asked, questions)
    frequency = {word: sum(1 for c in candidates if word in c.terms) for word in words}
    return Retrieved(
        candidates=candidates,
        statistics=Statistics(
            messages=len(candidates),
            mean_length=sum(c.length for c in candidates) / max(1, len(candidates)),
            document_frequency=frequency,
            mean_cosine=sum(cosines.values()) / max(1, len(cosines)),
        ),
        vector_search="exact" if vector is not None else "off",
        rows_compared=len(cosines),
        keyword_search="exact",
    )


def _large(
    connection: Connection,
    chat: Chat,
    scope: Scope,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    vector: Vector | None,
    exact: Sequence[Verbatim],
    questions: Questions | None,
) -> Retrieved:
    """The best of each arm with their neighbours; the statistics are the whole scope's."""
    mean_length = chat.lexeme_count / max(1, chat.message_count)
    held = [
        identity for piece in exact for identity in holding(connection, chat, scope, piece, 1 / len(exact))
    ]
    for limit in (CANDIDATES_PER_ARM, BEHIND_ASIDES * CANDIDATES_PER_ARM):
        found = keywords.keywords(
            connection,
            scope,
            words,
            messages=chat.message_count,
            mean_size=mean_length,
            limit=limit,
        )
        near = nearest.VectorHits()
        if space is not None and vector is not None:
            near = nearest.nearest(connection, scope, space, vector, messages=chat.message_count, limit=limit)
        ids = list(dict.fromkeys([*held, *found.scores, *near.cosines]))
        candidates = gathered(connection, scope, ids, words, space, vector, questions)
        if 2 * sum(c.aside for c in candidates if c.id in found.scores or c.id in near.cosines) <= len(ids):
            break
    return Retrieved(
        candidates=candidates,
        statistics=Statistics(
            messages=chat.message_count,
            mean_length=mean_length,
            document_frequency={word: found.document_frequency.get(word, 0) for word in words},
            mean_cosine=near.mean_cosine,
        ),
        vector_search=near.search,
        rows_compared=near.compared,
        keyword_search=found.search,
    )


def holding(
    connection: Connection, chat: Chat, scope: Scope, piece: Verbatim, share: float = 1.0
) -> list[int]:
    """Up to `CANDIDATES_PER_ARM` messages that hold a piece of the query as it stands.

    They are found by its words, as the index has them, and are its best by BM25. Where the index knows it by other
    words, or by none (`to be or not to be`), the newest messages are read instead. `share` is how much of what may
    be read for all pieces is for this one.
    """
    found = keywords.keywords(
        connection,
        scope,
        keywords.lexemes(connection, chat.language, piece.text),
        messages=chat.message_count,
        mean_size=chat.lexeme_count / max(1, chat.message_count),
        limit=int(share * VERBATIM_READ),
        share=share,
    )
    content = dict(candidate_rows.contents(connection, list(found.scores)))
    held = [identity for identity in found.scores if piece.is_in(content.get(identity, ""))]
    if not held:
        rows = text_search.resembling(
            connection,
            chat.chat_id,
            MessageFilter(session_key=scope.session_key),
            piece.parts,
            newest=int(share * VERBATIM_SCANNED),
            limit=VERBATIM_READ,
        )
        held = [identity for identity, content in rows if piece.is_in(content)]
    return held[:CANDIDATES_PER_ARM]


def gathered(
    connection: Connection,
    scope: Scope,
    ids: Sequence[int],
    words: Sequence[str],
    space: EmbeddingSpace | None,
    vector: Vector | None,
    questions: Questions | None = None,
) -> list[Candidate]:
    """These messages with `REACH` neighbours on either side, as candidates."""
    placed = candidate_rows.around(connection, scope, ids, REACH)
    asked = wording(scope.language, words)
    rows = candidate_rows.these_messages(connection, list(placed), asked.all, space, vector)
    return _candidates(rows, placed, {row[0]: row[-1] for row in rows}, asked, questions)


def _placed(rows: Sequence[Row[*tuple[Any, ...]]], ranges: Sequence[SessionRange]) -> dict[int, int]:
    """The session whose range each message lies in; 0 for those that wait for their place."""
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
    cosines: Mapping[int, float | None],
    asked: Wording,
    questions: Questions | None,
) -> list[Candidate]:
    """Rows of `around` as candidates, each knowing its place in its session."""
    # by position and not by name, which takes three times as long: some hundreds are made for each query
    ordered = sorted((placed[row[0]], row[6], row[7], number_of(row[1]), row[0], row) for row in rows)
    candidates = []
    there = {row[1]: row for row in rows}
    before, place = -1, 0
    for session, sent_at, _, _, _, row in ordered:
        place = place + 1 if session == before else 0
        before = session
        identity, external_id, _, speaker, role, content, _, _, size, terms, reply_to, *_ = row
        own, related = asked.read(terms) if terms else ({}, {})
        candidates.append(
            Candidate(
                id=identity,
                session=session,
                place=place,
                external_id=external_id,
                speaker=speaker,
                role=role,
                text=content,
                sent_at=sent_at,
                terms=own,
                length=size,
                cosine=cosines.get(identity),
                related=related,
                answered=_answered(there.get(reply_to), row) if reply_to else None,
            )
        )
    return candidates if questions is None else asides.marked(candidates, questions)


def _answered(named: Row[*tuple[Any, ...]] | None, row: Row[*tuple[Any, ...]]) -> RepliedTo | None:
    """What a message answers: the row that it names, if that was read too, or what came with its own."""
    if named is not None:
        return RepliedTo(named[0], named[3], named[5])
    found = row._mapping.get("answered")
    return RepliedTo(*found) if found else None
