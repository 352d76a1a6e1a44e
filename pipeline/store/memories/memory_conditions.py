"""SQL conditions on memories: visible in a place, believed at a time, and a caller's filters.

What may be shown is shown with what may be known of it there: where and when it was said in other places is not.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pipeline.store.chats.membership import EVERYWHERE, Seen
from pipeline.store.vectors import cosine, distance, in_space
from schemas.vectors import EmbeddingSpace

# Without a time every statement is known, whatever the sender's clock said.
THEN = "coalesce(CAST(:as_of AS timestamptz), 'infinity')"
LIVE = "(m.expires_at IS NULL OR m.expires_at > now())"


def visible(memory: str) -> str:
    """Return the condition that a memory may be shown in a place; a user's document only where nobody else is."""
    # a look-up in a hash table: in an array, of which people may share hundreds, each chat would be compared
    return f"""(:everywhere OR {memory}.learned_in IS NULL AND (:unplaced OR {memory}.scope = 'organization')
            OR {memory}.learned_in IN (SELECT unnest(CAST(:chats AS text[])))
            OR {memory}.also_in && CAST(:chats AS text[]))
        AND (:anybody OR {memory}.type <> 'document' OR {memory}.scope <> 'user'
            OR (:alone AND {memory}.user_id = ANY(:asker)))"""


def learned_visibly(memory: str) -> str:
    """Return the condition that a memory of one person was learned in a chat that may be shown, or in none."""
    return f"""(:everywhere OR {memory}.learned_in IS NULL AND :unplaced OR {memory}.learned_in = ANY(:chats)
        OR {memory}.also_in && CAST(:chats AS text[]))"""


def since(memory: str) -> str:
    """Return SQL of when a memory became known in a place: what was said elsewhere before does not count."""
    return f"""CASE WHEN :everywhere OR cardinality({memory}.also_in) = 0
        THEN coalesce({memory}.said_at, {memory}.created_at)
        ELSE coalesce((SELECT min(said.said_at) FROM memory_evidence said
            WHERE said.tenant_id = {memory}.tenant_id AND said.memory_id = {memory}.id
                AND said.chat_id = ANY(:chats)), {memory}.said_at, {memory}.created_at) END"""


# A newer memory that is itself known to be wrong replaces nothing.
NEWER = f"""
    FROM memory_supersessions edge JOIN memories newer
        ON newer.tenant_id = edge.tenant_id AND newer.id = edge.superseded_by
    WHERE edge.tenant_id = m.tenant_id AND edge.memory_id = m.id AND {visible("newer")}
"""
# It can be said in one place at the earliest when it was said first, which is cheap to compare.
SAID = f"coalesce(m.said_at, m.created_at) <= {THEN} AND (m.retracted_at IS NULL OR m.retracted_at > {THEN})"
BELIEVED = f"""
    ({since("m")} <= {THEN} AND NOT EXISTS (SELECT 1 {NEWER} AND {since("newer")} <= {THEN}
        AND (newer.retracted_at IS NULL OR newer.retracted_at > {THEN})))
"""
COLUMNS = """m.id, m.scope, m.type, m.content, m.user_id, m.agent_id, m.session_id, m.learned_in, m.also_in,
    m.importance, m.access_count, m.last_accessed_at, m.expires_at, m.subject, m.attribute, m.value, m.confidence,
    m.said_at, m.holds_from, m.holds_until, m.learned_by, m.retracted_at, m.source, m.document_id, m.chunk_index,
    m.metadata, m.created_at"""


@dataclass(frozen=True, kw_only=True)
class MemoryConditions:
    """Filters of memories; None sets no filter, and an empty one matches nothing."""

    scope: str | None = None
    user_ids: Collection[str] | None = None
    agent_id: str | None = None
    types: Collection[str] | None = None
    source: str | None = None
    min_importance: float | None = None
    metadata: Mapping[str, Any] | None = None

    def sql(self) -> str:
        """Return the conditions of the filters that are set."""
        nothing = ["false"] if self.metadata is not None and not self.metadata else []
        return " AND ".join([LIVE, *(_CONDITIONS[name] for name in self._chosen()), *nothing])

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the conditions."""
        return {f"f_{name}": value for name, value in self._chosen().items()}

    def _chosen(self) -> dict[str, Any]:
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


_CONDITIONS = {
    "scope": "m.scope = :f_scope",
    "user_ids": "m.user_id = ANY(:f_user_ids)",
    "agent_id": "m.agent_id = :f_agent_id",
    "types": "m.type = ANY(:f_types)",
    "source": "m.source = :f_source",
    "min_importance": "m.importance >= :f_min_importance",
    "metadata": "m.metadata @> :f_metadata",
}


def compared(space: EmbeddingSpace | None) -> tuple[str, str]:
    """Return SQL of the cosine of a memory's chunk to the query, and the join that it needs."""
    if space is None:
        return "NULL::float8", ""
    return cosine(space.questions, distance(space, "v.embedding")), (
        f"LEFT JOIN memory_vectors v ON v.tenant_id = m.tenant_id AND v.memory_id = m.id AND {in_space(space, 'v.')}"
    )


def visibility(seen: Seen | None) -> dict[str, Any]:
    """Return the parameters of `visible`; None: everything of the tenant."""
    if seen is None:
        return {**EVERYWHERE.parameters(), "anybody": True, "alone": False, "asker": []}
    return {**seen.visible.parameters(), "anybody": False, "alone": seen.alone, "asker": seen.asker_ids}
