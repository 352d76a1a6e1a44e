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


# The share of the query's words, read in the language of each memory.
_BY_WORDS = """
    asked AS MATERIALIZED (
        SELECT language, lexemes, CAST(any_of AS tsquery) AS query FROM (
            SELECT language, array_agg(lexeme) AS lexemes,
                string_agg('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''', ' | ') AS any_of
            FROM (SELECT DISTINCT language FROM found) AS found_in
            CROSS JOIN LATERAL unnest(tsvector_to_array(words_of(language, :text))) AS lexeme
            GROUP BY language) of_language
    ), by_words AS (
        SELECT id, words FROM found JOIN asked USING (language) CROSS JOIN LATERAL (
            SELECT count(*)::float8 / cardinality(lexemes) AS words
            FROM memories m CROSS JOIN LATERAL unnest(m.tsv) AS held
            WHERE m.id = found.id AND m.tsv @@ asked.query AND held.lexeme = ANY(lexemes)) AS held
        WHERE words > 0 ORDER BY words DESC, id DESC LIMIT :candidates
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

    `words` is 0 to 1, null without a word of the query; `cosine` is null for what has no vector; `at` is the time that
    is asked about. In no order.
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
        SELECT m.*, replaced.*, by_words.words, found.cosine,
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
