"""Revise what is believed of one owner, after a session has said something or does not say it any more."""

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
from pipeline.store import derived as store_derived
from pipeline.store import evidence as store
from pipeline.store import identities, jobs, learned
from pipeline.store.evidence import Evidence
from pipeline.store.memory_ids import new_id
from pipeline.text.duplicates import fingerprint, says_the_same
from schemas.facts import Fact
from schemas.memories import MemoryScope

MAX_CONFIDENCE = 0.99
SAME = 1e-4
"""Two confidences that differ by less are the same: Postgres stores six digits."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Whom memories are about: a person, an agent, or those who talk in a group."""

    scope: MemoryScope
    user_id: str | None = None
    agent_id: str | None = None
    # the group
    chat_id: str | None = None

    @classmethod
    def of(cls, row: Row[Any]) -> "Owner":
        """Return the owner of a stored memory."""
        chat_id = row.learned_in if row.scope == "organization" else None
        return cls(scope=row.scope, user_id=row.user_id, agent_id=row.agent_id, chat_id=chat_id)


@dataclass(frozen=True, kw_only=True)
class Said:
    """A fact, and the messages that say it."""

    fact: Fact
    evidence: Evidence
    # of the chat's keyword search
    language: str


def revise(
    connection: Connection,
    tenant_id: str,
    owner: Owner,
    said: Sequence[Said] = (),
    *,
    again: Collection[UUID] = (),
) -> list[UUID]:
    """Add what was said of an owner, and return the memories that are to be embedded.

    Memories to look at `again` have lost evidence, or are about something else now; one without evidence is deleted,
    with what was made of it. Others that say something else stay as they are.
    """
    person = owner.user_id and identities.user_of(connection, owner.user_id)
    learned.lock_owner(connection, tenant_id, person or owner.agent_id or owner.chat_id or "")
    everything = {row.id: row for row in known(connection, owner)}
    new: dict[Statement, Said] = {}
    for each in said:
        new[_stated(each, [*map(_written, everything.values()), *new])] = each
    rows = _concerned(everything, new, again)
    evidence = store.of_memories(connection, [row.id for row in rows.values() if row.learned_by])
    statements = [_statement(each, rows[each.memory_id]) for each in evidence if each.memory_id]
    statements += [_written(row) for row in rows.values() if not row.learned_by]
    statements += new
    found = beliefs.believed(
        statements, {row.id: row.retracted_at for row in rows.values() if row.retracted_at}
    )
    taken = {(row.user_id, bytes(row.content_hash)): row.id for row in everything.values()}
    changed, ids = _write(connection, tenant_id, owner, found, rows, new, taken)
    edges = ((ids[old], ids[by]) for old, one in enumerate(found) for by in one.superseded_by)
    learned.set_supersessions(connection, tenant_id, list({*rows, *ids}), edges)
    by_model = (
        (known, ids[place])
        for place, one in enumerate(found)
        for statement in one.statements
        if statement in new
        for known in new[statement].fact.replaces
        if known != ids[place]
    )
    learned.supersede(connection, tenant_id, by_model)
    believed = set(ids)
    _drop(
        connection, tenant_id, [row.id for row in rows.values() if row.learned_by and row.id not in believed]
    )
    lane = owner.chat_id or ""
    jobs.enqueue(connection, tenant_id, "embed", [f"memory:{each}" for each in changed], lane=lane)
    return changed


def known(connection: Connection, owner: Owner) -> Sequence[Row[Any]]:
    """Return the statements that are stored about an owner."""
    if owner.user_id is not None:
        return learned.of_person(connection, identities.ids_of(connection, owner.user_id))
    if owner.agent_id is not None:
        return learned.of_agent(connection, owner.agent_id)
    return learned.of_group(connection, owner.chat_id or "")


def _concerned(
    rows: Mapping[UUID, Row[Any]], new: Iterable[Statement], again: Collection[UUID]
) -> dict[UUID, Row[Any]]:
    """Return the memories that new statements may be, or contradict, and those to look at again with theirs."""
    attributes = {each.attribute for each in new} | {rows[each].attribute for each in again if each in rows}
    loose = [each.content for each in new if not each.attribute]
    return {
        row.id: row
        for row in rows.values()
        if (row.attribute and row.attribute in attributes)
        or row.id in again
        or (not row.attribute and any(says_the_same(content, row.content) for content in loose))
    }


def _statement(each: Evidence, row: Row[Any]) -> Statement:
    return Statement(
        memory_id=each.memory_id,
        session_id=each.session_id,
        chat_id=each.chat_id,
        said_at=each.said_at,
        content=each.content,
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


def _stated(said: Said, known: Iterable[Statement]) -> Statement:
    """Return a fact as a statement, about the same as what is known and says nearly the same."""
    fact, evidence = said.fact, said.evidence
    alike = beliefs.repeats(fact.content, known)
    if alike is not None and alike.attribute:
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


def _write(
    connection: Connection,
    tenant_id: str,
    owner: Owner,
    found: Sequence[Believed],
    rows: dict[UUID, Row[Any]],
    new: dict[Statement, Said],
    taken: dict[tuple[str | None, bytes], UUID],
) -> tuple[list[UUID], list[UUID]]:
    """Write memories and their evidence; return `(those with new words, the ids of all)`."""
    changed: list[UUID] = []
    ids: list[UUID] = []
    moves: list[tuple[UUID, int, UUID]] = []
    for one in found:
        identity = one.memory_id
        if identity is None:
            identity = new_id()
            _insert(connection, tenant_id, owner, identity, one.statements[0], new, taken)
            changed.append(identity)
        ids.append(identity)
        for each in one.statements:
            if each in new:
                store.put(connection, tenant_id, identity, new[each].evidence)
                if one.memory_id is not None:
                    learned.raise_importance(connection, identity, new[each].fact.importance)
            elif each.memory_id != identity and each.memory_id and each.session_id is not None:
                moves.append((each.memory_id, each.session_id, identity))
    store.move(connection, moves)
    kept: dict[UUID, list[Evidence]] = defaultdict(list)
    for evidence in store.of_memories(connection, [i for i in ids if i not in rows or rows[i].learned_by]):
        if evidence.memory_id is not None:
            kept[evidence.memory_id].append(evidence)
    for identity, resting in kept.items():
        if _refresh(connection, owner, identity, resting, rows.get(identity), taken):
            changed.append(identity)
    return list(dict.fromkeys(changed)), ids


def _insert(
    connection: Connection,
    tenant_id: str,
    owner: Owner,
    identity: UUID,
    statement: Statement,
    new: dict[Statement, Said],
    taken: dict[tuple[str | None, bytes], UUID],
) -> None:
    """Write a memory that is new, or is split off from one whose other statements are before something else."""
    said = new.get(statement)
    if said is None:
        learned.copy(
            connection,
            statement.memory_id,
            identity,
            _hash(owner, identity, statement.content, statement, taken),
        )
        return
    fact = said.fact
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
        learned_in=said.evidence.chat_id,
        learned_by=said.evidence.learned_by,
        said_at=said.evidence.said_at,
        holds_from=fact.holds_from,
        holds_until=fact.holds_until,
        language=said.language,
    )


def _hash(
    owner: Owner,
    identity: UUID,
    content: str,
    said: Statement | Evidence,
    taken: dict[tuple[str | None, bytes], UUID],
) -> bytes:
    """Return what tells a memory from others of its owner: its words, and where these are taken, since when."""
    plain = fingerprint(content)
    if owner.scope == "organization":
        # two groups may decide the same
        plain = blake2b(plain + (said.chat_id or "").encode(), digest_size=16).digest()
    if taken.get((owner.user_id, plain), identity) != identity:
        at = said.said_at.isoformat()
        plain = blake2b(plain + at.encode() + identity.bytes, digest_size=16).digest()
    taken[owner.user_id, plain] = identity
    return plain


def _refresh(
    connection: Connection,
    owner: Owner,
    identity: UUID,
    resting: Sequence[Evidence],
    row: Row[Any] | None,
    taken: dict[tuple[str | None, bytes], UUID],
) -> bool:
    """Set what a memory has from its evidence; return whether its words are others now."""
    by_time = sorted(resting, key=lambda each: (each.said_at, each.session_id))
    first = by_time[0]
    content = first.content
    # the words of one chat are not shown in another
    if row is not None and (row.edited or len({each.chat_id for each in by_time}) == 1):
        content = row.content if row.edited or row.content in {e.content for e in by_time} else content
    digest = (
        bytes(row.content_hash)
        if row is not None and content == row.content
        else _hash(owner, identity, content, first, taken)
    )
    given = {
        "content": content,
        "said_at": first.said_at,
        "learned_in": first.chat_id,
        "also_in": sorted({e.chat_id for e in by_time if e.content == content} - {first.chat_id}),
    }
    confidence = min(MAX_CONFIDENCE, 1 - prod(1 - each.confidence for each in resting))
    # most are as they were
    if (
        row is None
        or abs(row.confidence - confidence) > SAME
        or any(row._mapping[n] != given[n] for n in given)
    ):
        learned.refresh(connection, id=identity, hash=digest, confidence=confidence, **given)
    return row is not None and content != row.content


def _drop(connection: Connection, tenant_id: str, ids: Sequence[UUID]) -> None:
    """Delete memories that rest on nothing any more, and what was made of them."""
    if ids:
        gone = store_derived.drop(connection, tenant_id, ids)
        derived.take_back_memories(connection, tenant_id, gone)
