"""SQL of the memories and documents that may answer a question, in every scope."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, TextClause, text

from pipeline.store import vector_spaces
from pipeline.store.chats.membership import Seen
from pipeline.store.connections.statements import run
from pipeline.store.memories.memory_conditions import BELIEVED, LIVE, SAID, since, visibility, visible
from pipeline.store.search import vector_search
from pipeline.store.search.filters import Scope
from pipeline.store.search.keyword_search import any_of
from pipeline.store.sessions.session_rows import LAST_BEGUN_FIRST
from pipeline.store.vectors import cosine, distance, halved, in_space
from schemas.kinds import EMBED
from schemas.memories import MemoryType
from schemas.vectors import EmbeddingSpace, Vector

SESSIONS = 100
"""The latest sessions of a chat, or of one key in it, whose memories are shown."""


def _in_scope(named: str, documents: str = "m.scope = 'organization'") -> str:
    """Return the condition that a memory is of these scopes.

    The organization's, of its documents those that meet the condition `documents`, one agent's, one person's by all
    their ids, those about people who are `named`, an expression of their ids, which they or others have said in some
    chat, and those of sessions.
    """
    return f"""
    {LIVE} AND ((m.scope = 'organization' AND m.type <> 'document') OR (m.type = 'document' AND {documents})
        OR (m.scope = 'agent' AND m.agent_id = :agent)
        OR (m.scope = 'user' AND m.importance >= :min_importance AND (m.user_id = ANY(:asker)
            OR (m.user_id = ANY({named}) AND m.learned_in IS NOT NULL AND m.type NOT IN ('document', 'qa_turn'))))
        OR (m.scope = 'session' AND m.session_id IN (SELECT s.id FROM conversation_sessions s
            WHERE s.chat_id = :chat AND s.status <> 'merged'
                AND (CAST(:key AS text) IS NULL OR s.session_key = :key)
            ORDER BY s.ended_at DESC, {LAST_BEGUN_FIRST} LIMIT :sessions)))
    """


# Independent of the question: otherwise the number would reveal about whom there are memories.
_NOBODY = "CAST('{}' AS text[])"
_HIDDEN = f"SELECT count(*) FROM memories m WHERE {_in_scope(_NOBODY)} AND NOT ({visible('m')})"
_SHARE_OF_WORDS = """CASE WHEN m.tsv @@ CAST(:any AS tsquery) THEN (
        SELECT count(*)::float8 FROM unnest(CAST(:words AS text[])) w WHERE w = ANY(tsvector_to_array(m.tsv)))
    / cardinality(CAST(:words AS text[])) ELSE 0 END"""
_COLUMNS = """m.id, m.scope, m.type, m.content, m.user_id, m.learned_in, m.also_in, m.importance, m.access_count,
    m.last_accessed_at, m.subject, m.confidence, m.holds_from, m.holds_until, m.document_id, m.chunk_index,
    m.created_at"""
_TIMES = ("last_accessed_at", "holds_from", "holds_until", "created_at", "since")


@dataclass(frozen=True, kw_only=True)
class MemoryScope:
    """The memories that may answer a question: what is visible where it is asked, and the owners."""

    scope: Scope
    seen: Seen
    agent_id: str | None
    # names of the people whom the question names, by each of their ids
    named: Mapping[str, str] = field(default_factory=dict)
    # user memories of less importance are left out
    min_importance: float
    # search what was believed at this time; None: now
    as_of: datetime | None = None
    # most memories of each of the four scopes, and most chunks of documents
    limit: int
    # whether to count memories hidden because of where they were learned, whatever the question
    counts_hidden: bool = False

    @property
    def reach(self) -> int:
        """The number of each kind examined first: some of the nearest are superseded."""
        return self.limit + self.limit // 2

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `candidates`, without those of the question and of its scope."""
        return {
            "sessions": SESSIONS,
            "agent": self.agent_id,
            "named_ids": sorted(self.named),
            "min_importance": self.min_importance,
            "as_of": self.as_of,
            "reach": self.reach,
            "exact_up_to": vector_search.EXACT_UP_TO,
            "counts_hidden": self.counts_hidden,
            **visibility(self.seen),
        }


@dataclass(frozen=True, kw_only=True)
class FoundMemory:
    """A memory as ranking reads it."""

    id: str
    scope: str
    type: MemoryType
    content: str
    user_id: str | None
    learned_in: str | None
    also_in: Sequence[str]
    importance: float
    access_count: int
    last_accessed_at: datetime | None
    subject: str | None
    confidence: float
    holds_from: datetime | None
    holds_until: datetime | None
    document_id: str | None
    chunk_index: int | None
    created_at: datetime
    # when it became known here, and whether it is believed at the time that is asked about
    since: datetime
    believed: bool
    # the messages that say it
    evidence: Sequence[int]
    # to the question; none: it has no vector
    cosine: float | None
    # that, or without vectors the share of the question's lexemes that it holds
    similarity: float

    @property
    def kind(self) -> tuple[str, bool]:
        """The kind that limits count it in."""
        return self.scope, self.type == "document"


@dataclass(frozen=True, kw_only=True)
class MemoryHits:
    """The nearest memories of each kind, nearest first, and how many are hidden."""

    found: Sequence[FoundMemory] = ()
    # of the chats that they were learned in
    titles: Mapping[str, str] = field(default_factory=dict)
    hidden: int = 0


def candidates(space: EmbeddingSpace | None, *, of_ids: bool = False) -> str:
    """Return SQL of `MemoryHits` as JSON: the `:reach` nearest of each kind, believed or not; `of_ids`: of `:ids`."""
    among = "m.id = ANY(CAST(:ids AS uuid[])) AND " if of_ids else ""
    # the person that such a memory is about need not be named
    named = "ARRAY[m.user_id]" if of_ids else ":named_ids"
    by_index, in_scope, more = "", _in_scope(named), ""
    if space is not None and not of_ids:
        near = cosine(space.questions, "min(distance)")
        by_index, in_scope = (
            documents_by_index(space),
            _in_scope(named, DOCUMENTS_COMPARED),
        )
        more = f"""UNION ALL (SELECT id, {near}, {near} FROM indexed WHERE (SELECT is_enough FROM found_by_index)
            GROUP BY id ORDER BY min(distance), id DESC LIMIT :reach)"""
    # Vectors are looked up by all ids of a kind at once: a join would look up each, or all of the tenant. Only the
    # nearest are asked whether they are believed.
    return f"""
        WITH {by_index} kinds AS MATERIALIZED (
            SELECT m.scope, m.type = 'document' AS is_chunk, array_agg(m.id) AS ids FROM memories m
            WHERE {among}{in_scope} AND {visible("m")} AND {SAID} GROUP BY 1, 2
        ), near AS (
            SELECT best.* FROM kinds CROSS JOIN LATERAL ({_nearest(space)} LIMIT :reach) best {more}
        ), memory AS (
            SELECT found.*, near.cosine, near.similarity
            FROM near CROSS JOIN LATERAL (
                SELECT {BELIEVED} AS believed, {_COLUMNS}, {since("m")} AS since,
                    ARRAY(SELECT message_id FROM memory_evidence e
                        WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id) AS evidence
                FROM memories m WHERE m.id = near.id OFFSET 0) found
            ORDER BY near.similarity DESC, found.created_at DESC, found.id DESC
        )
        SELECT json_build_array((SELECT json_agg(to_json(memory)) FROM memory),
            (SELECT json_object_agg(chat_id, title) FROM chats WHERE title <> '' AND chat_id IN (
                SELECT unnest(array_append(also_in, learned_in)) FROM memory)),
            CASE WHEN :counts_hidden THEN ({_HIDDEN}) END)
    """


def _nearest(space: EmbeddingSpace | None) -> str:
    """Return SQL of the memories among `kinds.ids`, nearest first: `id, cosine, similarity`."""
    by_words = f"SELECT m.id, CAST(NULL AS float8) AS cosine, {_SHARE_OF_WORDS} AS similarity FROM memories m"
    if space is None:
        return f"{by_words} WHERE m.id = ANY(kinds.ids) ORDER BY similarity DESC, id DESC"
    near = cosine(space.questions, "min(distance)")
    # of the nearest parts as many more are taken as there are further ones: to group all would take longer
    return f"""
        WITH part AS MATERIALIZED (
            SELECT memory_id AS id, chunk_index, {distance(space)} AS distance
            FROM memory_vectors WHERE {in_space(space)} AND memory_id = ANY(kinds.ids)
        ), counted AS (
            SELECT count(*) FILTER (WHERE chunk_index = 0) AS embedded,
                count(*) FILTER (WHERE chunk_index > 0) AS further FROM part
        )
        SELECT id, {near} AS cosine, {near} AS similarity FROM (
            SELECT id, distance FROM part ORDER BY distance, id DESC
            LIMIT CAST(:reach AS bigint) + (SELECT further FROM counted)) nearest
        GROUP BY id
        UNION ALL {by_words} WHERE (SELECT embedded FROM counted) < cardinality(kinds.ids)
            AND m.id = ANY(kinds.ids) AND m.id NOT IN (SELECT id FROM part)
        ORDER BY similarity DESC, id DESC"""


def as_hits(columns: Sequence[Any]) -> MemoryHits:
    """Convert the row of `candidates`."""
    rows, titles, hidden = columns
    return MemoryHits(found=[_memory(row) for row in rows or ()], titles=titles or {}, hidden=hidden or 0)


def _memory(row: Mapping[str, Any]) -> FoundMemory:
    times = {name: datetime.fromisoformat(row[name]) if row[name] else None for name in _TIMES}
    # JSON has NaN, such as the cosine to a vector of zeros, as text
    numbers = {name: None if row[name] is None else float(row[name]) for name in ("cosine", "similarity")}
    return FoundMemory(**{**row, **times, **numbers})


@lru_cache(maxsize=16)
def _statement(space: EmbeddingSpace | None, *, of_ids: bool) -> TextClause:
    return text(candidates(space, of_ids=of_ids))


def believed(
    connection: Connection,
    which: MemoryScope,
    *,
    words: Sequence[str],
    space: EmbeddingSpace | None,
    query: Vector | None,
    known: MemoryHits | None = None,
    ids: Collection[str] | None = None,
) -> MemoryHits:
    """Return the nearest that are believed and may be shown, of `ids` where these are given.

    At most `which.limit` of each scope and as many chunks of documents, so that a thick handbook leaves room for a
    fact. `known` are those that were looked at; more are only if too many of these are not believed.
    """
    reach, hits = which.reach, known
    while True:
        if hits is None:
            values = {
                "chat": which.scope.chat_id,
                "key": which.scope.session_key,
                **which.parameters(),
                "reach": reach,
            }
            values |= {"words": words, "any": any_of(words)}
            values |= {} if query is None else {"query": halved(query)}
            values |= {} if ids is None else {"ids": sorted(ids)}
            statement = _statement(None if query is None else space, of_ids=ids is not None)
            hits = as_hits(run(connection, statement, **values).scalar_one())
        near = Counter(memory.kind for memory in hits.found)
        shown = [
            memory
            for memory in hits.found
            if memory.believed
            and which.seen.visible.shows(memory.learned_in, memory.also_in, scope=memory.scope)
        ]
        held = Counter(memory.kind for memory in shown)
        if all(held[kind] >= which.limit for kind, count in near.items() if count >= reach):
            return replace(hits, found=_best_of_kinds(shown, which.limit))
        # most of the nearest were superseded
        reach, hits = reach * 4, None


def _best_of_kinds(memories: Iterable[FoundMemory], limit: int) -> list[FoundMemory]:
    taken: Counter[tuple[str, bool]] = Counter()
    best = []
    for memory in memories:
        taken[memory.kind] += 1
        if taken[memory.kind] <= limit:
            best.append(memory)
    return best


# Parts of documents requested from the index; a generic plan for any number would not use it.
_BY_INDEX = 256


# Documents of the organization that are compared one by one: all, or those not indexed yet. Searching for an empty
# scope costs nothing, where a condition would read them all.
DOCUMENTS_COMPARED = """((m.scope = CASE WHEN (SELECT is_enough FROM found_by_index) THEN '' ELSE 'organization' END)
    OR (m.scope = 'organization' AND m.id = ANY(ARRAY(SELECT id FROM not_indexed))))"""


def documents_by_index(space: EmbeddingSpace) -> str:
    """Return SQL after WITH: the parts of the organization's documents nearest by the index, as `indexed`.

    None where comparing all is faster. `found_by_index` tells whether they are of `:reach` documents' chunks, as they
    are not where nearly all that is near is another tenant's; `not_indexed` are those that wait for their vectors.
    """
    away = distance(space, "v.embedding")
    of_documents = (
        f"m.scope = 'organization' AND m.type = 'document' AND {LIVE} AND {visible('m')} AND {SAID}"
    )
    # Statements are counted with documents, which an index does without reading the table. The conditions are looked
    # up for what the index of vectors brings, until there are enough: the planner may not turn it round.
    return f"""
        many AS MATERIALIZED (
            SELECT greatest(:exact_up_to, reltuples / {vector_search.TIMES_AS_MANY})::bigint AS documents
            FROM pg_class WHERE oid = to_regclass('memory_vectors')
        ), is_worth_it AS MATERIALIZED (
            SELECT count(*) > (SELECT documents FROM many) AS is_worth_it FROM (
                SELECT FROM memories WHERE scope = 'organization' AND EXISTS (
                    SELECT 1 FROM pg_index WHERE indisvalid
                        AND indexrelid = to_regclass('{vector_spaces.index_of("memory_vectors", space)}'))
                LIMIT (SELECT documents + 1 FROM many)) counted
        ), indexed AS MATERIALIZED (
            SELECT v.memory_id AS id, {away} AS distance FROM memory_vectors v CROSS JOIN LATERAL (
                SELECT FROM memories m WHERE m.id = v.memory_id AND {of_documents} OFFSET 0) m
            WHERE {in_space(space, "v.")} AND (SELECT is_worth_it FROM is_worth_it)
            ORDER BY {away} LIMIT {_BY_INDEX}
        ), found_by_index AS MATERIALIZED (
            SELECT count(DISTINCT id) >= :reach AS is_enough FROM indexed
        ), not_indexed AS MATERIALIZED (
            SELECT m.id FROM jobs w JOIN memories m ON m.id = CAST(substr(w.key, {len("memory:") + 1}) AS uuid)
            WHERE (SELECT is_enough FROM found_by_index) AND w.kind = '{EMBED.name}' AND starts_with(w.key, 'memory:')
                AND NOT EXISTS (SELECT 1 FROM memory_vectors v WHERE v.tenant_id = m.tenant_id AND v.memory_id = m.id
                    AND {in_space(space, "v.")})
        ),
    """
