"""SQL that lists memories and searches them by words and meaning, those that are believed and may be shown."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from pipeline.store.chats.membership import Seen
from pipeline.store.connections.statements import run
from pipeline.store.memories.memory_conditions import (
    BELIEVED,
    COLUMNS,
    NEWER,
    SAID,
    THEN,
    MemoryConditions,
    compared,
    since,
    visibility,
    visible,
)
from pipeline.store.vectors.vectors import halved
from pipeline.text.bm25 import K1, B
from schemas.vectors import EmbeddingSpace, Vector

CANDIDATES_PER_ARM = 100
"""Memories that a search finds by words, and as many by meaning."""

_SUPERSEDED = f"""LEFT JOIN LATERAL (
    SELECT newer.id AS superseded_by, {since("newer")} AS superseded_at {NEWER} AND newer.retracted_at IS NULL
    ORDER BY 2, 1 LIMIT 1) replaced ON true"""


def listing(
    connection: Connection,
    which: MemoryConditions,
    seen: Seen | None,
    *,
    after: UUID | None = None,
    as_of: datetime | None = None,
    superseded: bool = False,
    limit: int,
) -> list[Row[Any]]:
    """Return memories that are believed and may be shown, newest first, with what has superseded them since.

    With `superseded` also those that are not believed any more.
    """
    statement = text(f"""
        SELECT m.*, replaced.* FROM (
            SELECT {COLUMNS}, m.tenant_id, {since("m")} AS since FROM memories m
            WHERE {which.sql()} AND {visible("m")}
                AND {since("m") + f" <= {THEN}" if superseded else f"{SAID} AND {BELIEVED}"}
                AND (CAST(:after AS uuid) IS NULL OR m.id < :after)
            ORDER BY m.id DESC LIMIT :limit) m {_SUPERSEDED}
        ORDER BY m.id DESC
    """)
    values = {"after": after, "as_of": as_of, "limit": limit, **visibility(seen)}
    return _shown(run(connection, statement, **which.parameters(), **values), seen)


# BM25 over the memories that are found; each is asked in its own language, and the usual length is that of those that
# have a word of the question. As in `pipeline.recall.rank.features`, `words` is the geometric mean of two shares: of
# the best score, and of what all words could give.
_IDF = "ln(1 + (total - {df} + 0.5) / ({df} + 0.5))"
_BY_WORDS = f"""
    asked AS MATERIALIZED (
        SELECT language, lexemes, CAST(any_of AS tsquery) AS query FROM (
            SELECT language, array_agg(lexeme) AS lexemes,
                string_agg('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''', ' | ') AS any_of
            FROM (SELECT DISTINCT language FROM found) AS found_in
            CROSS JOIN LATERAL unnest(tsvector_to_array(words_of(language, :text))) AS lexeme
            GROUP BY language) of_language
    ), frequency AS MATERIALIZED (
        SELECT m.id, asked.language, length(m.tsv) AS size, t.lexeme, cardinality(t.positions) AS tf
        FROM found JOIN asked USING (language) JOIN memories m USING (id) CROSS JOIN LATERAL unnest(m.tsv) t
        WHERE m.tsv @@ asked.query AND t.lexeme = ANY(asked.lexemes)
    ), counted AS (
        SELECT language, lexeme, count(*) AS df FROM frequency GROUP BY language, lexeme
    ), documents AS (
        SELECT language, lexeme, coalesce(df, 0) AS df, (SELECT count(*) FROM found)::float8 AS total,
            (SELECT avg(size) FROM frequency) AS usual
        FROM asked CROSS JOIN LATERAL unnest(lexemes) AS lexeme LEFT JOIN counted USING (language, lexeme)
    ), attainable AS (
        SELECT language, sum({_IDF.format(df="df")} * ({K1} + 1)) AS most FROM documents GROUP BY language
    ), scored AS (
        SELECT id, language, sum({_IDF.format(df="df")} * tf * ({K1} + 1)
            / (tf + {K1} * (1 - {B} + {B} * size / usual))) AS score
        FROM frequency JOIN documents USING (language, lexeme) GROUP BY id, language
    ), by_words AS (
        SELECT id, score / sqrt(most * max(score) OVER ()) AS words FROM scored JOIN attainable USING (language)
        ORDER BY words DESC, id DESC LIMIT :candidates
    )"""


def search(
    connection: Connection,
    which: MemoryConditions,
    seen: Seen | None,
    *,
    content: str,
    space: EmbeddingSpace | None,
    query: Vector | None,
    as_of: datetime | None = None,
) -> list[Row[Any]]:
    """Return the nearest memories by words and by meaning that are believed and may be shown.

    `words` is 0 to 1, null without a word of the query; `cosine` is null for what has no vector, and `mean` is that of
    all; `at` is the time that is asked about. In no order.
    """
    cosine, join = compared(None if query is None else space)
    allowed = f"{which.sql()} AND {visible('m')} AND {SAID} AND {BELIEVED}"
    statement = text(f"""
        WITH found AS MATERIALIZED (
            SELECT m.id, m.language, max({cosine}) AS cosine FROM memories m {join}
            WHERE {allowed} GROUP BY m.tenant_id, m.id
        ), {_BY_WORDS}, by_meaning AS (
            SELECT id FROM found WHERE cosine IS NOT NULL ORDER BY cosine DESC, id DESC LIMIT :candidates
        ), near AS MATERIALIZED (
            SELECT id FROM by_words UNION SELECT id FROM by_meaning
        )
        SELECT m.*, replaced.*, by_words.words, found.cosine, (SELECT avg(cosine) FROM found) AS mean,
            coalesce(CAST(:as_of AS timestamptz), now()) AS at
        FROM near CROSS JOIN LATERAL (
            SELECT {COLUMNS}, m.tenant_id, {since("m")} AS since FROM memories m WHERE m.id = near.id OFFSET 0) m
        {_SUPERSEDED}
        LEFT JOIN by_words ON by_words.id = near.id LEFT JOIN found ON found.id = near.id
    """)
    values = {
        "text": content,
        "candidates": CANDIDATES_PER_ARM,
        "as_of": as_of,
        **visibility(seen),
    }
    if query is not None:
        values["query"] = halved(query)
    return _shown(run(connection, statement, **which.parameters(), **values), seen)


def _shown(rows: Iterable[Row[Any]], seen: Seen | None) -> list[Row[Any]]:
    return [
        row
        for row in rows
        if seen is None or seen.visible.shows(row.learned_in, row.also_in, scope=row.scope)
    ]
