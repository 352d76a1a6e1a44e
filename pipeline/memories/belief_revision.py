"""Revise one owner's memories after a session states something, or no longer does; unite those that say the same.

`pipeline.memories.manual_changes` makes changes by hand.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.erasure import derived
from pipeline.memories import beliefs, learned_memories
from pipeline.memories.beliefs import Statement
from pipeline.memories.learned_memories import FactOwner, LearnedFact, statements_known
from pipeline.store import identities, vectors
from pipeline.store.erasure import derived as store_derived
from pipeline.store.jobs import jobs
from pipeline.store.memories import learned
from pipeline.store.memories import learned as store
from pipeline.store.memories.learned import Evidence
from pipeline.text.duplicates import differs_only_in_words
from schemas.facts import is_denial


def revise(
    connection: Connection,
    tenant_id: str,
    owner: FactOwner,
    facts: Sequence[LearnedFact] = (),
    *,
    again: Collection[UUID] = (),
) -> list[UUID]:
    """Add facts about an owner, and return the memories to embed.

    Memories in `again` have lost evidence, or are about something else now; one without evidence is deleted, with
    data derived from it. Unrelated memories stay unchanged.
    """
    person = owner.user_id and identities.user_of(connection, owner.user_id)
    learned.lock_owner(connection, tenant_id, person or owner.agent_id or owner.chat_id or "")
    everything = {row.id: row for row in learned_memories.statements_known(connection, owner)}
    known = {memory: _written(row) for memory, row in everything.items()}
    new: dict[Statement, LearnedFact] = {}
    for fact in facts:
        new[_as_statement(fact, [*known.values(), *new])] = fact
    rows = {memory: everything[memory] for memory in _affected(known, new, again)}
    evidence = store.evidence_of_memories(connection, [row.id for row in rows.values() if row.learned_by])
    statements = [_statement(item, rows[item.memory_id]) for item in evidence if item.memory_id]
    statements += [known[row.id] for row in rows.values() if not row.learned_by]
    statements += new
    memories = beliefs.believed(
        statements, {row.id: row.retracted_at for row in rows.values() if row.retracted_at}
    )
    taken = {(row.user_id, bytes(row.content_hash)): row.id for row in everything.values()}
    changed, ids = learned_memories.write(connection, tenant_id, owner, memories, rows, new, taken)
    edges = ((ids[old], ids[by]) for old, memory in enumerate(memories) for by in memory.superseded_by)
    learned.set_supersessions(connection, tenant_id, list({*rows, *ids}), edges)
    by_model = (
        (replaced, ids[place])
        for place, memory in enumerate(memories)
        for statement in memory.statements
        if statement in new
        for replaced in new[statement].fact.replaces
        # people of the same name do not replace each other's facts
        if replaced in everything and replaced != ids[place]
    )
    learned.supersede(connection, tenant_id, by_model)
    believed = set(ids)
    _drop(
        connection, tenant_id, [row.id for row in rows.values() if row.learned_by and row.id not in believed]
    )
    lane = owner.chat_id or ""
    jobs.enqueue(connection, tenant_id, "embed", [f"memory:{memory}" for memory in changed], lane=lane)
    return changed


def _affected(
    known: Mapping[UUID, Statement], new: Iterable[Statement], again: Collection[UUID]
) -> list[UUID]:
    """Return memories that new statements may repeat or contradict, and those to check `again` with their rivals."""
    attributes = {s.attribute for s in new} | {known[s].attribute for s in again if s in known}
    loose = [statement for statement in new if not statement.attribute]
    return [
        memory
        for memory, statement in known.items()
        if (statement.attribute and statement.attribute in attributes)
        or memory in again
        or (not statement.attribute and any(one.gist.is_that_of(statement.gist) for one in loose))
    ]


def _statement(evidence: Evidence, row: Row[Any]) -> Statement:
    return Statement(
        memory_id=evidence.memory_id,
        session_id=evidence.session_id,
        chat_id=evidence.chat_id,
        said_at=evidence.said_at,
        content=evidence.content,
        attribute=row.attribute,
        value=row.value,
    )


def _written(row: Row[Any]) -> Statement:
    """Return a memory as a statement of its own."""
    return Statement(
        memory_id=row.id,
        session_id=None,
        chat_id=row.learned_in,
        said_at=row.said_at,
        content=row.content,
        attribute=row.attribute,
        value=row.value,
    )


def _as_statement(learned_fact: LearnedFact, known: Iterable[Statement]) -> Statement:
    """Return a fact as a statement, with the attribute and value of a known one that says nearly the same."""
    fact, evidence = learned_fact.fact, learned_fact.evidence
    denies = is_denial(fact.value)
    comparable = (s for s in known if is_denial(s.value) == denies)
    alike = beliefs.repeats(fact.content, evidence.chat_id, comparable)
    # within one attribute the value decides: "the exam is on Friday" is nearly "the exam is on Monday"
    if alike is not None and alike.attribute not in {"", fact.attribute}:
        attribute, value = alike.attribute, alike.value
    else:
        attribute, value = fact.attribute, fact.value
    return Statement(
        memory_id=None,
        session_id=evidence.session_id,
        chat_id=evidence.chat_id,
        said_at=evidence.said_at,
        content=fact.content,
        attribute=attribute,
        value=value,
    )


def _drop(connection: Connection, tenant_id: str, ids: Sequence[UUID]) -> None:
    """Delete memories without evidence, and what was derived from them."""
    if ids:
        gone = store_derived.drop(connection, tenant_id, ids)
        derived.remove_with_memories(connection, tenant_id, gone)


SAME_COSINE = 0.9
"""Two statements of one owner and chat with at least this cosine say the same, if neither denies the other."""


def unite_alike(connection: Connection, memory_id: UUID) -> tuple[FactOwner, list[UUID]] | None:
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
        for memory in statements_known(connection, owner)
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
