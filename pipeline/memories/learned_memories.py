"""Write learned memories with their owners and their evidence."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.memories.beliefs import Believed, Statement
from pipeline.store import identities
from pipeline.store.memories import entity_graph, learned
from pipeline.store.memories import learned as store
from pipeline.store.memories.entity_graph import EntityRow
from pipeline.store.memories.learned import Evidence
from pipeline.store.memories.memories import new_id
from pipeline.text.duplicates import fingerprint
from schemas.facts import Fact
from schemas.memories import MemoryScope


@dataclass(frozen=True, kw_only=True)
class FactOwner:
    """The subject of memories: a person, an agent, or a group chat."""

    scope: MemoryScope
    user_id: str | None = None
    agent_id: str | None = None
    # the group
    chat_id: str | None = None

    @classmethod
    def of(cls, row: Row[Any]) -> "FactOwner":
        """Return the owner of a stored memory."""
        chat_id = row.learned_in if row.scope == "organization" else None
        return cls(scope=row.scope, user_id=row.user_id, agent_id=row.agent_id, chat_id=chat_id)


def statements_known(connection: Connection, owner: FactOwner) -> Sequence[Row[Any]]:
    """Return the statements that are stored about an owner."""
    if owner.user_id is not None:
        return learned.of_person(connection, identities.ids_of(connection, owner.user_id))
    if owner.agent_id is not None:
        return learned.of_agent(connection, owner.agent_id)
    return learned.of_group(connection, owner.chat_id or "")


MAX_CONFIDENCE = 0.99
CONFIDENCE_TOLERANCE = 1e-4
"""Confidences that differ by less are equal: Postgres stores six digits."""


@dataclass(frozen=True, kw_only=True)
class LearnedFact:
    """A fact, and the messages that say it."""

    fact: Fact
    evidence: Evidence
    # the language of the chat's keyword search
    language: str
    # the entities of a language model's fact
    entities: Sequence[EntityRow] = ()


def write(
    connection: Connection,
    tenant_id: str,
    owner: FactOwner,
    memories: Sequence[Believed],
    rows: dict[UUID, Row[Any]],
    new: dict[Statement, LearnedFact],
    taken: dict[tuple[str | None, bytes], UUID],
) -> tuple[list[UUID], list[UUID]]:
    """Write memories and their evidence; return `(ids with new words, all ids)`."""
    changed: list[UUID] = []
    ids: list[UUID] = []
    moves: list[tuple[UUID, int, UUID]] = []
    for memory in memories:
        identity = memory.memory_id
        if identity is None:
            identity = new_id()
            _insert(connection, tenant_id, owner, identity, memory.statements[0], new, taken)
            changed.append(identity)
        ids.append(identity)
        for statement in memory.statements:
            if statement in new:
                store.put_evidence(connection, tenant_id, identity, new[statement].evidence)
                entity_graph.note(connection, tenant_id, identity, new[statement].entities)
                if memory.memory_id is not None:
                    learned.raise_importance(connection, identity, new[statement].fact.importance)
            elif statement.memory_id != identity and statement.memory_id and statement.session_id is not None:
                moves.append((statement.memory_id, statement.session_id, identity))
    store.move_evidence(connection, moves)
    kept: dict[UUID, list[Evidence]] = defaultdict(list)
    for evidence in store.evidence_of_memories(
        connection, [i for i in ids if i not in rows or rows[i].learned_by]
    ):
        if evidence.memory_id is not None:
            kept[evidence.memory_id].append(evidence)
    for identity, resting in kept.items():
        if _refresh(connection, owner, identity, resting, rows.get(identity), taken):
            changed.append(identity)
    return list(dict.fromkeys(changed)), ids


def _insert(
    connection: Connection,
    tenant_id: str,
    owner: FactOwner,
    identity: UUID,
    statement: Statement,
    new: dict[Statement, LearnedFact],
    taken: dict[tuple[str | None, bytes], UUID],
) -> None:
    """Write a new memory, or one split off from another whose other statements precede a change."""
    learned_fact = new.get(statement)
    if learned_fact is None:
        learned.copy(
            connection,
            statement.memory_id,
            identity,
            _hash(owner, identity, statement.content, statement, taken),
        )
        if statement.memory_id is not None:
            entity_graph.copy(connection, statement.memory_id, identity)
        return
    fact = learned_fact.fact
    learned.insert(
        connection,
        tenant_id,
        id=identity,
        scope=owner.scope,
        type=fact.category,
        user_id=owner.user_id,
        agent_id=owner.agent_id,
        content=fact.content,
        hash=_hash(owner, identity, statement.content, statement, taken),
        importance=fact.importance,
        confidence=fact.confidence,
        subject=fact.subject,
        attribute=statement.attribute,
        value=statement.value,
        learned_in=learned_fact.evidence.chat_id,
        learned_by=learned_fact.evidence.learned_by,
        said_at=learned_fact.evidence.said_at,
        holds_from=fact.holds_from,
        holds_until=fact.holds_until,
        language=learned_fact.language,
    )


def _hash(
    owner: FactOwner,
    identity: UUID,
    content: str,
    origin: Statement | Evidence,
    taken: dict[tuple[str | None, bytes], UUID],
) -> bytes:
    """Return a hash that is unique for the owner: of chat and words, and of the time and id if these are taken."""
    plain = fingerprint(content, origin.chat_id)
    if taken.get((owner.user_id, plain), identity) != identity:
        at = origin.said_at.isoformat()
        plain = blake2b(plain + at.encode() + identity.bytes, digest_size=16).digest()
    taken[owner.user_id, plain] = identity
    return plain


def _refresh(
    connection: Connection,
    owner: FactOwner,
    identity: UUID,
    evidence: Sequence[Evidence],
    row: Row[Any] | None,
    taken: dict[tuple[str | None, bytes], UUID],
) -> bool:
    """Set a memory's fields from its evidence, of one chat; return whether its words have changed."""
    by_time = sorted(evidence, key=lambda e: (e.said_at, e.session_id))
    first = by_time[0]
    content = first.content
    if row is not None and (row.edited or row.content in {e.content for e in by_time}):
        content = row.content
    digest = (
        bytes(row.content_hash)
        if row is not None and content == row.content
        else _hash(owner, identity, content, first, taken)
    )
    holds_from, holds_until = store.validity(by_time)
    if row is not None and row.edited:
        holds_from, holds_until = row.holds_from, row.holds_until
    fields = {
        "content": content,
        "said_at": first.said_at,
        "learned_in": first.chat_id,
        "also_in": [],
        "holds_from": holds_from,
        "holds_until": holds_until,
    }
    confidence = min(MAX_CONFIDENCE, 1 - prod(1 - e.confidence for e in evidence))
    # most have not changed
    if (
        row is None
        or abs(row.confidence - confidence) > CONFIDENCE_TOLERANCE
        or any(row._mapping[n] != fields[n] for n in fields)
    ):
        learned.refresh(connection, id=identity, hash=digest, confidence=confidence, **fields)
    return row is not None and content != row.content
