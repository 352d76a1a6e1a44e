"""SQL that finds memories: those that are believed at a time and may be shown in a place, by meaning and words.

What may be shown is shown with what may be known of it there: where and when it was said in other places is not.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, TextClause, text

from pipeline.ranking.bm25 import K1, B
from pipeline.store.filters import Scope
from pipeline.store.keyword_search import any_of
from pipeline.store.membership import Seen
from pipeline.store.statements import number, run
from pipeline.store.vectors import distance, in_space, literal
from schemas.vectors import EmbeddingSpace, Vector

SESSIONS = 100
"""The latest sessions of a chat, or of one key in it, whose memories are shown."""
CANDIDATES_PER_ARM = 100
"""Memories that a search finds by words, and as many by meaning."""

# Without a time everything that was ever said is known, whatever the clocks of those who said it.
_THEN = "coalesce(CAST(:as_of AS timestamptz), 'infinity')"
_LIVE = "(m.expires_at IS NULL OR m.expires_at > now())"


def _visible(memory: str) -> str:
    """Return the condition that a memory may be shown in a place; a user's document only where nobody else is."""
    return f"""(:everywhere OR {memory}.learned_in IS NULL OR {memory}.learned_in = ANY(:chats)
            OR {memory}.also_in && CAST(:chats AS text[]))
        AND (:anybody OR {memory}.type <> 'document' OR {memory}.scope <> 'user'
            OR (:alone AND {memory}.user_id = ANY(:asker)))"""


def _since(memory: str) -> str:
    """Return since when a memory is known in a place: what was said elsewhere before does not count."""
    return f"""CASE WHEN :everywhere OR cardinality({memory}.also_in) = 0
        THEN coalesce({memory}.said_at, {memory}.created_at)
        ELSE coalesce((SELECT min(said.said_at) FROM memory_evidence said
            WHERE said.tenant_id = {memory}.tenant_id AND said.memory_id = {memory}.id
                AND said.chat_id = ANY(:chats)), {memory}.said_at, {memory}.created_at) END"""


# A newer memory that is itself known to be wrong replaces nothing.
_NEWER = f"""
    FROM memory_supersessions edge JOIN memories newer
        ON newer.tenant_id = edge.tenant_id AND newer.id = edge.superseded_by
    WHERE edge.tenant_id = m.tenant_id AND edge.memory_id = m.id AND {_visible("newer")}
"""
# It can be said in one place at the earliest when it was said first, which is cheap to compare.
_SAID = (
    f"coalesce(m.said_at, m.created_at) <= {_THEN} AND (m.retracted_at IS NULL OR m.retracted_at > {_THEN})"
)
_BELIEVED = f"""
    ({_since("m")} <= {_THEN} AND NOT EXISTS (SELECT 1 {_NEWER} AND {_since("newer")} <= {_THEN}
        AND (newer.retracted_at IS NULL OR newer.retracted_at > {_THEN})))
"""
# Memories of these scopes: the organization's, one agent's, one person's by all their ids, those about people whom the
# question names, which they or others have said in some chat, and those of sessions.
_IN_SCOPE = f"""
    {_LIVE} AND ((m.scope = 'organization')
        OR (m.scope = 'agent' AND m.agent_id = :agent)
        OR (m.scope = 'user' AND m.importance >= :min_importance AND (m.user_id = ANY(:asker)
            OR (m.user_id = ANY(:named) AND m.learned_in IS NOT NULL AND m.type NOT IN ('document', 'qa_turn'))))
        OR (m.scope = 'session' AND m.session_id IN (SELECT s.id FROM conversation_sessions s
            WHERE s.chat_id = :chat AND s.status <> 'merged'
                AND (CAST(:key AS text) IS NULL OR s.session_key = :key)
            ORDER BY s.ended_at DESC LIMIT :sessions)))
"""
_COUNT_HIDDEN = text(f"SELECT count(*) FROM memories m WHERE {_IN_SCOPE} AND NOT ({_visible('m')})")
_SHARE_OF_WORDS = """CASE WHEN m.tsv @@ CAST(:any AS tsquery) THEN (
        SELECT count(*)::float8 FROM unnest(CAST(:words AS text[])) w WHERE w = ANY(tsvector_to_array(m.tsv)))
    / cardinality(CAST(:words AS text[])) ELSE 0 END"""
_SUPERSEDED = f"""LEFT JOIN LATERAL (
    SELECT newer.id AS superseded_by, {_since("newer")} AS superseded_at {_NEWER} AND newer.retracted_at IS NULL
    ORDER BY 2, 1 LIMIT 1) replaced ON true"""
_COLUMNS = """m.id, m.scope, m.type, m.content, m.user_id, m.agent_id, m.session_id, m.learned_in, m.also_in,
    m.importance, m.access_count, m.last_accessed_at, m.expires_at, m.subject, m.attribute, m.value, m.confidence,
    m.said_at, m.holds_from, m.holds_until, m.learned_by, m.retracted_at, m.source, m.document_id, m.chunk_index,
    m.metadata, m.created_at"""


@dataclass(frozen=True, kw_only=True)
class MemoryConditions:
    """What a memory must be like; None asks for nothing, and what is empty matches nothing."""

    scope: str | None = None
    user_ids: Collection[str] | None = None
    agent_id: str | None = None
    types: Collection[str] | None = None
    source: str | None = None
    min_importance: float | None = None
    metadata: Mapping[str, Any] | None = None

    def sql(self) -> str:
        """Return the conditions of what is asked for only."""
        nothing = ["false"] if self.metadata is not None and not self.metadata else []
        return " AND ".join([_LIVE, *(_CONDITIONS[name] for name in self._asked()), *nothing])

    def given(self) -> dict[str, Any]:
        """Return the parameters of the conditions."""
        return {f"f_{name}": value for name, value in self._asked().items()}

    def _asked(self) -> dict[str, Any]:
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


_CONDITIONS = {
    "scope": "m.scope = :f_scope",
    "user_ids": "m.user_id = ANY(:f_user_ids)",
    "agent_id": "m.agent_id = :f_agent_id",
    "types": "m.type = ANY(:f_types)",
    "source": "m.source = :f_source",
    "min_importance": "m.importance >= :f_min_importance",
    "metadata": "m.metadata @> :f_metadata",
}


def _compared(space: EmbeddingSpace | None) -> tuple[str, str]:
    """Return SQL of the cosine of a memory's chunk to the query, and the join that it needs."""
    if space is None:
        return "NULL::float8", ""
    return f"1 - ({distance(space, 'v.embedding')})", (
        f"LEFT JOIN memory_vectors v ON v.tenant_id = m.tenant_id AND v.memory_id = m.id AND {in_space(space, 'v.')}"
    )


@lru_cache(maxsize=16)
def _relevant(space: EmbeddingSpace | None, of_ids: bool) -> TextClause:
    cosine, join = _compared(space)
    among = "m.id = ANY(CAST(:ids AS uuid[])) AND " if of_ids else ""
    # only the few that are near are looked up, one by one, and asked whether they are believed
    return text(f"""
        WITH alike AS (
            SELECT m.id, m.scope, m.created_at, m.type = 'document' AS is_chunk, max({cosine}) AS cosine,
                max(coalesce({cosine}, {_SHARE_OF_WORDS})) AS similarity
            FROM memories m {join}
            WHERE {among}{_IN_SCOPE} AND {_visible("m")} AND {_SAID}
            GROUP BY m.tenant_id, m.id
        ), near AS (
            SELECT id, cosine, similarity, row_number() OVER (
                PARTITION BY scope, is_chunk ORDER BY similarity DESC, created_at DESC) AS place
            FROM alike
        )
        SELECT found.*, near.cosine, near.similarity
        FROM near CROSS JOIN LATERAL (
            SELECT {_BELIEVED} AS believed, {_COLUMNS}, m.content_hash, {_since("m")} AS since,
                ARRAY(SELECT message_id FROM memory_evidence e
                    WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id) AS evidence
            FROM memories m WHERE m.id = near.id OFFSET 0) found
        WHERE near.place <= :reach
        ORDER BY near.similarity DESC, found.created_at DESC
    """)


def relevant(
    connection: Connection,
    *,
    scope: Scope,
    seen: Seen,
    agent_id: str | None,
    named: Collection[str] = (),
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
    min_importance: float,
    as_of: datetime | None = None,
    limit: int,
    ids: Collection[str] | None = None,
) -> list[Row[Any]]:
    """Return memories of the organization, the agent, the asker and the scope's sessions, nearest first.

    Also those about other people who are `named`, by their ids. Only those that are believed and may be shown here, and
    of `ids` where these are given. At most `limit` of each of the four and as many chunks of documents, so that a thick
    handbook leaves room for a fact. `similarity` is the `cosine`, or without vectors the share of the query's lexemes
    that the memory holds; `since` is when it became known here, `evidence` the messages that say it.
    """
    given = _in_scope(scope, seen, agent_id, named, min_importance)
    if query is not None:
        given["query"] = literal(query)
    given |= {"words": words, "any": any_of(words), "as_of": as_of}
    if ids is not None:
        given["ids"] = sorted(ids)
    statement = _relevant(None if query is None else space, ids is not None)
    reach = limit + limit // 2
    while True:
        rows = run(connection, statement, **given, reach=reach).all()
        near = Counter(map(_kind, rows))
        believed = [row for row in rows if row.believed and seen.visible.shows(row.learned_in, row.also_in)]
        held = Counter(map(_kind, believed))
        if all(held[kind] >= limit for kind, count in near.items() if count >= reach):
            return _best_of_each(believed, limit)
        # most of what is near was superseded
        reach *= 4


def _kind(row: Row[Any]) -> tuple[str, bool]:
    return row.scope, row.type == "document"


def _best_of_each(rows: Iterable[Row[Any]], limit: int) -> list[Row[Any]]:
    """Return the first `limit` rows of each kind."""
    taken: Counter[tuple[str, bool]] = Counter()
    best = []
    for row in rows:
        taken[_kind(row)] += 1
        if taken[_kind(row)] <= limit:
            best.append(row)
    return best


def count_hidden(
    connection: Connection, *, scope: Scope, seen: Seen, agent_id: str | None, min_importance: float
) -> int:
    """Count the memories that are hidden because of where they were learned, whatever is asked."""
    return number(connection, _COUNT_HIDDEN, **_in_scope(scope, seen, agent_id, (), min_importance))


def _in_scope(
    scope: Scope, seen: Seen, agent_id: str | None, named: Collection[str], min_importance: float
) -> dict[str, Any]:
    return {
        "chat": scope.chat_id,
        "key": scope.session_key,
        "sessions": SESSIONS,
        "agent": agent_id,
        "named": sorted(named),
        "min_importance": min_importance,
        **_place(seen),
    }


def _place(seen: Seen | None) -> dict[str, Any]:
    """Return the parameters of what may be shown; None: everything of the tenant."""
    return {
        "everywhere": seen is None or seen.visible.everywhere,
        "chats": [] if seen is None else sorted(seen.visible.chats),
        "anybody": seen is None,
        "alone": seen is not None and seen.alone,
        "asker": [] if seen is None else seen.asker_ids,
    }


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
            SELECT {_COLUMNS}, m.tenant_id, {_since("m")} AS since FROM memories m
            WHERE {which.sql()} AND {_visible("m")}
                AND {_since("m") + f" <= {_THEN}" if superseded else f"{_SAID} AND {_BELIEVED}"}
                AND (CAST(:after AS uuid) IS NULL OR m.id < :after)
            ORDER BY m.id DESC LIMIT :limit) m {_SUPERSEDED}
        ORDER BY m.id DESC
    """)
    given = {"after": after, "as_of": as_of, "limit": limit, **_place(seen)}
    return _shown(run(connection, statement, **which.given(), **given), seen)


# BM25 over the memories that are found; each is asked in its own language, and the usual length is that of those that
# have a word of the question. As in `pipeline.ranking.bm25`, `words` is the geometric mean of two shares: of the best
# score, and of what all words could give.
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
    """Return what is nearest by words and what is nearest by meaning, of what is believed and may be shown.

    `words` is 0 to 1, null without a word of the query; `cosine` is null for what has no vector, and `mean` is that of
    all; `at` is the time that is asked about. In no order.
    """
    cosine, join = _compared(None if query is None else space)
    allowed = f"{which.sql()} AND {_visible('m')} AND {_SAID} AND {_BELIEVED}"
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
            SELECT {_COLUMNS}, m.tenant_id, {_since("m")} AS since FROM memories m WHERE m.id = near.id OFFSET 0) m
        {_SUPERSEDED}
        LEFT JOIN by_words ON by_words.id = near.id LEFT JOIN found ON found.id = near.id
    """)
    given = {
        "text": content,
        "candidates": CANDIDATES_PER_ARM,
        "as_of": as_of,
        **_place(seen),
    }
    if query is not None:
        given["query"] = literal(query)
    return _shown(run(connection, statement, **which.given(), **given), seen)


def _shown(rows: Iterable[Row[Any]], seen: Seen | None) -> list[Row[Any]]:
    return [row for row in rows if seen is None or seen.visible.shows(row.learned_in, row.also_in)]
