"""Find candidates: what the words and the vectors of a query find in a scope, with the talk around it.

In a small scope every message is a candidate. In a large one the best by keyword and the best by vector are,
united (never the scores of one arm alone, so that a hit of either can surface), with their neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from sqlalchemy import Connection, Row

from pipeline.rank import Candidate, Statistics
from pipeline.store import around, keywords, nearest
from pipeline.store.chats import Chat
from pipeline.store.scope import Scope
from schemas.vectors import EmbeddingSpace, Vector

# Up to so many messages a scope is read whole: one statement, and nothing is missed.
WHOLE_UP_TO = 3000
# Above that, so many of each arm …
CANDIDATES_PER_ARM = 150
# … and so many neighbours on either side.
REACH = 7


@dataclass(frozen=True, kw_only=True)
class Retrieved:
    """Candidates with the statistics that scoring them needs."""

    candidates: list[Candidate]
    statistics: Statistics
    # how the vector arm searched, and how many vectors it compared
    vector_search: Literal["exact", "hnsw", "off"]
    rows_compared: int


def retrieve(
    connection: Connection,
    chat: Chat,
    *,
    session_key: str | None,
    content: str,
    space: EmbeddingSpace | None,
    vector: Vector | None,
) -> Retrieved:
    """The candidates for a query in a chat, or in one session key of it.

    `content` is the query without names and dates; `vector` its embedding in `space`, or None when there is
    none: then keywords find alone.
    """
    scope = Scope(chat_id=chat.chat_id, language=chat.language, session_key=session_key)
    words = keywords.lexemes(connection, chat.language, content)
    if chat.message_count <= WHOLE_UP_TO:
        return _whole(connection, scope, words, space, vector)
    return _large(connection, chat, scope, words, space, vector)


def _whole(
    connection: Connection,
    scope: Scope,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    vector: Vector | None,
) -> Retrieved:
    rows = around.all_messages(connection, scope, words, space, vector)
    candidates = _candidates(rows)
    cosines = [c.cosine for c in candidates if c.cosine is not None]
    frequency = {word: sum(1 for c in candidates if word in c.terms) for word in words}
    return Retrieved(
        candidates=candidates,
        statistics=Statistics(
            messages=len(candidates),
            mean_length=sum(c.length for c in candidates) / max(1, len(candidates)),
            document_frequency={word: df for word, df in frequency.items() if df},
            mean_cosine=sum(cosines) / max(1, len(cosines)),
        ),
        vector_search="exact" if vector is not None else "off",
        rows_compared=len(cosines),
    )


def _large(
    connection: Connection,
    chat: Chat,
    scope: Scope,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    vector: Vector | None,
) -> Retrieved:
    mean_length = chat.lexeme_count / max(1, chat.message_count)
    found = keywords.keywords(
        connection,
        scope,
        words,
        messages=chat.message_count,
        mean_size=mean_length,
        limit=CANDIDATES_PER_ARM,
    )
    near = (
        nearest.nearest(connection, scope, space, vector, limit=CANDIDATES_PER_ARM)
        if space is not None and vector is not None
        else nearest.VectorHits()
    )
    ids = list(dict.fromkeys([*found.scores, *near.cosines]))
    return Retrieved(
        candidates=_candidates(around.around(connection, scope, ids, REACH, words, space, vector)),
        statistics=Statistics(
            messages=chat.message_count,
            mean_length=mean_length,
            document_frequency=found.document_frequency,
            mean_cosine=near.mean_cosine,
        ),
        vector_search=near.search,
        rows_compared=near.compared,
    )


def _candidates(rows: Sequence[Row[Any]]) -> list[Candidate]:
    """Rows of `around` as candidates, each knowing its place in its session."""
    ordered = sorted(rows, key=lambda r: (r.session_id, r.sent_at, r.position, r.external_id))
    candidates = []
    for session_id, inside in groupby(ordered, key=lambda r: r.session_id):
        for place, row in enumerate(inside):
            candidates.append(
                Candidate(
                    id=row.id,
                    session=session_id,
                    place=place,
                    external_id=row.external_id,
                    speaker=row.speaker,
                    role=row.role,
                    text=row.content,
                    sent_at=row.sent_at,
                    terms=row.terms or {},
                    length=row.size,
                    cosine=row.cosine,
                )
            )
    return candidates
