"""Unite learned memories that say the same in other words, once they have vectors."""

from uuid import UUID

from sqlalchemy import Connection

from pipeline.memories.fact_owners import FactOwner, known
from pipeline.store.memories import learned
from pipeline.store.vectors import vectors
from pipeline.text.duplicates import differs_only_in_words
from schemas.memory.facts import is_denial

SAME_COSINE = 0.9
"""Two statements of one owner and chat with at least this cosine say the same, if neither denies the other."""


def unite(connection: Connection, memory_id: UUID) -> tuple[FactOwner, list[UUID]] | None:
    """Give a learned memory and the nearest one that says the same a common attribute; return the owner and the ids.

    Returns None if there is no such learned memory.
    """
    row = next(iter(learned.by_id(connection, [memory_id])), None)
    if row is None or not row.learned_by:
        return None
    owner = FactOwner.of(row)
    space = vectors.searched_space(connection)
    if space is None:
        return owner, [memory_id]
    candidates = {
        memory.id: memory
        for memory in known(connection, owner)
        if memory.id != memory_id and memory.learned_by and memory.learned_in == row.learned_in
    }
    near = learned.nearest(connection, space, memory_id, list(candidates))
    for other_id, cosine in near:
        other = candidates[other_id]
        if cosine < SAME_COSINE:
            break
        if row.attribute and row.attribute == other.attribute:
            # already united, or contradicting each other
            continue
        if is_denial(row.value) != is_denial(other.value):
            continue
        if not differs_only_in_words(row.content, other.content):
            continue
        older, newer = sorted((row, other), key=lambda memory: (memory.said_at, memory.id))
        keeps = older if older.attribute else newer
        attribute, value = keeps.attribute or f"same as {older.id}", keeps.value
        for memory in (older, newer):
            learned.adopt(connection, memory.id, attribute, value)
        return owner, [older.id, newer.id]
    return owner, [memory_id]
