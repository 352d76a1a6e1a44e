"""Revise one owner's memories after a session states something, or no longer does; unite those that say the same.

They are written with their evidence. `pipeline.memories.statements` makes changes by hand.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.erasure import derived
from pipeline.memories import beliefs
from pipeline.memories.beliefs import Believed, Statement
from pipeline.store import identities, vectors
from pipeline.store.erasure import derived as store_derived
from pipeline.store.jobs import jobs
from pipeline.store.memories import entity_graph, learned
from pipeline.store.memories.entity_graph import EntityRow
from pipeline.store.memories.learned import MemoryEvidence
from pipeline.store.memories.memory_rows import new_id
from pipeline.text.duplicates import differs_only_in_words, fingerprint
from schemas.facts import Fact, is_denial
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
    evidence: MemoryEvidence
    # the language of the chat's keyword search
    language: str
    # the entities of a language model's fact
    entities: Sequence[EntityRow] = ()


@dataclass(frozen=True, kw_only=True)
class _Writing:
    """What is written of an owner's memories."""

    connection: Connection
    tenant_id: str
    owner: FactOwner
    # the memories that may change, and the facts that are new
    rows: Mapping[UUID, Row[Any]]
    new: Mapping[Statement, LearnedFact]
    # memories by user and hash; those written are added
    taken: dict[tuple[str | None, bytes], UUID]

    def write(self, memories: Sequence[Believed]) -> tuple[list[UUID], list[UUID]]:
        """Write memories and their evidence; return `(ids with new words, all ids)`."""
        changed: list[UUID] = []
        ids: list[UUID] = []
        moves: list[tuple[UUID, int, UUID]] = []
        for memory in memories:
            identity = memory.memory_id
            if identity is None:
                identity = new_id()
                self._insert(identity, memory.statements[0])
                changed.append(identity)
            ids.append(identity)
            for statement in memory.statements:
                if fact := self.new.get(statement):
                    learned.put_evidence(self.connection, self.tenant_id, identity, fact.evidence)
                    entity_graph.note(self.connection, self.tenant_id, identity, fact.entities)
                    if memory.memory_id is not None:
                        learned.raise_importance(self.connection, identity, fact.fact.importance)
                elif (
                    statement.memory_id != identity
                    and statement.memory_id
                    and statement.session_id is not None
                ):
                    moves.append((statement.memory_id, statement.session_id, identity))
        learned.move_evidence(self.connection, moves)
        kept: dict[UUID, list[MemoryEvidence]] = defaultdict(list)
        resting = [i for i in ids if i not in self.rows or self.rows[i].learned_by]
        for evidence in learned.evidence_of_memories(self.connection, resting):
            if evidence.memory_id is not None:
                kept[evidence.memory_id].append(evidence)
        changed += [identity for identity, said in kept.items() if self._refresh(identity, said)]
        return list(dict.fromkeys(changed)), ids

    def _insert(self, identity: UUID, statement: Statement) -> None:
        """Write a new memory, or one split off from another whose other statements precede a change."""
        digest = self._hash(identity, statement.content, statement)
        learned_fact = self.new.get(statement)
        if learned_fact is None:
            learned.copy(self.connection, statement.memory_id, identity, digest)
            if statement.memory_id is not None:
                entity_graph.copy(self.connection, statement.memory_id, identity)
            return
        fact, evidence = learned_fact.fact, learned_fact.evidence
        learned.insert(
            self.connection,
            self.tenant_id,
            id=identity,
            scope=self.owner.scope,
            type=fact.category,
            user_id=self.owner.user_id,
            agent_id=self.owner.agent_id,
            content=fact.content,
            hash=digest,
            importance=fact.importance,
            confidence=fact.confidence,
            subject=fact.subject,
            attribute=statement.attribute,
            value=statement.value,
            learned_in=evidence.chat_id,
            learned_by=evidence.learned_by,
            said_at=evidence.said_at,
            holds_from=fact.holds_from,
            holds_until=fact.holds_until,
            language=learned_fact.language,
        )

    def _hash(self, identity: UUID, content: str, origin: Statement | MemoryEvidence) -> bytes:
        """Return a hash that is unique for the owner: of chat and words, and of the time and id if these are taken."""
        plain = fingerprint(content, origin.chat_id)
        if self.taken.get((self.owner.user_id, plain), identity) != identity:
            at = origin.said_at.isoformat()
            plain = blake2b(plain + at.encode() + identity.bytes, digest_size=16).digest()
        self.taken[self.owner.user_id, plain] = identity
        return plain

    def _refresh(self, identity: UUID, evidence: Sequence[MemoryEvidence]) -> bool:
        """Set a memory's fields from its evidence, of one chat; return whether its words have changed."""
        row = self.rows.get(identity)
        by_time = sorted(evidence, key=lambda e: (e.said_at, e.session_id))
        first = by_time[0]
        content = first.content
        if row is not None and (row.edited or row.content in {e.content for e in by_time}):
            content = row.content
        is_new = row is None or content != row.content
        digest = self._hash(identity, content, first) if row is None or is_new else bytes(row.content_hash)
        holds_from, holds_until = learned.validity(by_time)
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
            learned.refresh(self.connection, id=identity, hash=digest, confidence=confidence, **fields)
        return row is not None and is_new


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
    everything = {row.id: row for row in statements_known(connection, owner)}
    known = {memory: _written(row) for memory, row in everything.items()}
    new: dict[Statement, LearnedFact] = {}
    for fact in facts:
        new[_as_statement(fact, [*known.values(), *new])] = fact
    rows = {memory: everything[memory] for memory in _affected(known, new, again)}
    evidence = learned.evidence_of_memories(connection, [row.id for row in rows.values() if row.learned_by])
    statements = [_statement(item, rows[item.memory_id]) for item in evidence if item.memory_id]
    statements += [known[row.id] for row in rows.values() if not row.learned_by]
    statements += new
    memories = beliefs.believed(
        statements, {row.id: row.retracted_at for row in rows.values() if row.retracted_at}
    )
    taken = {(row.user_id, bytes(row.content_hash)): row.id for row in everything.values()}
    writing = _Writing(
        connection=connection, tenant_id=tenant_id, owner=owner, rows=rows, new=new, taken=taken
    )
    changed, ids = writing.write(memories)
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


def _statement(evidence: MemoryEvidence, row: Row[Any]) -> Statement:
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
