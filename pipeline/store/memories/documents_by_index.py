"""SQL that finds the nearest documents of an organization by the vector index."""

from pipeline.store.memories.memory_conditions import LIVE, SAID, visible
from pipeline.store.search import vector_search
from pipeline.store.vectors import indexes
from pipeline.store.vectors.vectors import distance, in_space
from schemas.kinds import EMBED
from schemas.vectors import EmbeddingSpace

# Parts of documents requested from the index; a generic plan for any number would not use it.
_BY_INDEX = 256


# Documents of the organization that are compared one by one: all, or those not indexed yet. Searching for an empty
# scope costs nothing, where a condition would read them all.
COMPARED = """((m.scope = CASE WHEN (SELECT is_enough FROM found_by_index) THEN '' ELSE 'organization' END)
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
                        AND indexrelid = to_regclass('{indexes.index_of("memory", space)}'))
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
