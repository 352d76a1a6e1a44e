"""SQL of the arms that search whatever is asked, in one statement: by words, by vector, and by sessions.

Each is a search of its own (`keyword_search`, `vector_search`, `session_search`); together they cost one trip to the
server instead of four.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import Connection, TextClause, text

from pipeline.store import keyword_search, session_search, vector_search
from pipeline.store.filters import Scope
from pipeline.store.keyword_search import KeywordHits, any_of, quoted
from pipeline.store.session_search import SessionLimits
from pipeline.store.statements import run
from pipeline.store.vector_search import VectorHits
from pipeline.store.vectors import literal
from schemas.vectors import EmbeddingSpace, Vector

_NONE_NEAR = """near_messages AS (
    SELECT CAST(NULL AS bigint) AS message_id, CAST(NULL AS float8) AS cosine, 0 AS mean, 0 AS compared WHERE false)"""


@dataclass(frozen=True, kw_only=True)
class Arms:
    """What the arms found."""

    by_word: KeywordHits
    by_vector: VectorHits
    # the best messages of the best sessions
    inside: Sequence[int]


@lru_cache(maxsize=16)
def _statement(
    space: EmbeddingSpace | None, sessions: SessionLimits, limit: int, *, of_key: bool, indexed: bool
) -> TextClause:
    near = _NONE_NEAR
    if space is not None:
        near = (
            vector_search.by_index(space, limit) if indexed else vector_search.exactly(space, of_key=of_key)
        )
    return text(f"""
        WITH {near}, {session_search.best(space, sessions)}, {session_search.messages_inside(space, sessions)}
        SELECT frequencies, scores, exact,
            (SELECT json_agg(json_build_array(message_id, cosine, mean, compared)) FROM near_messages),
            (SELECT array_agg(id ORDER BY place, id) FROM inside)
        FROM (SELECT) always LEFT JOIN LATERAL {keyword_search.SEARCH} ON :any <> ''
    """)


def search(
    connection: Connection,
    scope: Scope,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
    *,
    messages: int,
    mean_size: float,
    limit: int,
    sessions: SessionLimits,
    indexed: bool,
) -> Arms:
    """Search a scope of so many messages, of `mean_size` distinct lexemes, by each arm.

    By words and by vector at most `limit` messages are found. `indexed`: the chat's vectors are found by their index.
    """
    if query is None:
        space = None
    of_key = scope.session_key is not None
    indexed = indexed and space is not None and not of_key
    if indexed:
        vector_search.look_further(connection, limit)
    compared = {} if space is None or query is None else {"query": literal(query)}
    row = run(
        connection,
        _statement(space, sessions, limit, of_key=of_key, indexed=indexed),
        chat=scope.chat_id,
        key=scope.session_key,
        words=words,
        quoted=[quoted(word) for word in words],
        any=any_of(words),
        limit=limit,
        **keyword_search.sizes_of(messages, mean_size),
        **compared,
    ).one()
    return Arms(
        by_word=keyword_search.as_hits(row[0], row[1], row[2], messages) if words else KeywordHits(),
        by_vector=VectorHits() if space is None else vector_search.as_hits(row[3] or [], indexed=indexed),
        inside=row[4] or [],
    )
