"""SQL that lists memories, searches them by words and meaning, and reads a person's page."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from pipeline.store.chats.membership import Seen, Visible
from pipeline.store.connections.statements import run
from pipeline.store.memories.memory_conditions import (
    BELIEVED,
    COLUMNS,
    NEWER,
    SAID,
    THEN,
    MemoryConditions,
    compared,
    learned_visibly,
    since,
    visibility,
    visible,
)
from pipeline.store.vectors import halved
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


# Only visible memories supersede in a place.
_PAGE = text(f"""
    WITH known AS (
        SELECT m.*, {since("m")} AS since, newer.superseded_by,
            m.retracted_at IS NOT NULL OR newer.superseded_by IS NOT NULL AS is_earlier
        FROM memories m CROSS JOIN LATERAL (
            SELECT jsonb_agg(jsonb_build_object(
                'id', n.id, 'content', n.content, 'since', n.since) ORDER BY n.since, n.id) AS superseded_by
            FROM memory_supersessions e CROSS JOIN LATERAL (
                SELECT n.id, n.content, {since("n")} AS since FROM memories n
                WHERE n.tenant_id = e.tenant_id AND n.id = e.superseded_by AND {learned_visibly("n")}) n
            WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id AND n.since <= now()) newer
        WHERE m.scope = 'user' AND m.user_id = ANY(:users) AND m.type <> 'document'
            AND (m.expires_at IS NULL OR m.expires_at > now()) AND {learned_visibly("m")}
    ), last AS (
        SELECT is_earlier, since, id FROM known WHERE id = CAST(:after AS uuid)
    )
    SELECT k.id, k.type, k.content, k.subject AS about, k.since, k.holds_from, k.holds_until, k.learned_in, k.also_in,
        k.confidence, k.importance, k.access_count, k.last_accessed_at, k.expires_at, k.learned_by, k.source,
        k.edited_at, k.retracted_at, coalesce(k.superseded_by, '[]') AS superseded_by, k.is_earlier
    FROM known k LEFT JOIN last ON true
    WHERE CAST(:after AS uuid) IS NULL OR k.is_earlier > last.is_earlier
        OR k.is_earlier = last.is_earlier AND (k.since, k.id) < (last.since, last.id)
    ORDER BY k.is_earlier, k.since DESC, k.id DESC LIMIT :limit
""")
_EVIDENCE = text("""
    SELECT memory_id, chat_id, external_id, sender_id, said_at FROM (
        SELECT e.memory_id, e.chat_id, m.external_id, e.sender_id, e.said_at,
            row_number() OVER (PARTITION BY e.memory_id ORDER BY e.said_at DESC, e.message_id DESC) AS place
        FROM memory_evidence e
        JOIN messages m ON m.tenant_id = e.tenant_id AND m.chat_id = e.chat_id AND m.id = e.message_id
        WHERE e.memory_id = ANY(:memories) AND (:everywhere OR e.chat_id = ANY(:chats))) latest
    WHERE place <= :limit ORDER BY memory_id, place DESC
""")
_TITLES = text("SELECT chat_id, title FROM chats WHERE chat_id = ANY(:ids)")


def known_of_person(
    connection: Connection, users: Sequence[str], visible: Visible, *, after: UUID | None, limit: int
) -> Sequence[Row[Any]]:
    """Return memories of a person that may be shown in a place: believed ones, then former ones."""
    return run(connection, _PAGE, users=users, after=after, limit=limit, **visible.parameters()).all()


def messages_stating(
    connection: Connection, memory_ids: Sequence[UUID], visible: Visible, limit: int
) -> Sequence[Row[Any]]:
    """Return the messages of visible chats that state these memories, the latest `limit` of each, in order."""
    return run(connection, _EVIDENCE, memories=memory_ids, limit=limit, **visible.parameters()).all()


def titles_of_chats(connection: Connection, chat_ids: Sequence[str]) -> dict[str, str]:
    """Return the titles of the chats that exist."""
    return {row.chat_id: row.title for row in run(connection, _TITLES, ids=chat_ids)}
