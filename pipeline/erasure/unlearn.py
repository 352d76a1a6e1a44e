"""Remove the evidence of deleted or edited messages, and memories left without any."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from hashlib import blake2b
from uuid import UUID

from sqlalchemy import Connection

from pipeline.store.erasure import derived
from pipeline.store.jobs import jobs
from pipeline.store.memories import evidence, learned
from pipeline.store.memories.evidence import Evidence
from pipeline.text.duplicates import fingerprint


def unlearn(
    connection: Connection, tenant_id: str, message_ids: Sequence[int], session_ids: Sequence[int]
) -> list[UUID]:
    """Remove these messages' evidence; return the memories deleted with it, including those made of them."""
    return settle(connection, tenant_id, evidence.drop_of_messages(connection, message_ids, session_ids))


def settle(connection: Connection, tenant_id: str, ids: Collection[UUID]) -> list[UUID]:
    """Delete and return memories left without evidence; give the others the wording of what is left."""
    if not ids:
        return []
    left: dict[UUID, list[Evidence]] = defaultdict(list)
    for item in evidence.of_memories(connection, list(ids)):
        if item.memory_id is not None:
            left[item.memory_id].append(item)
    orphans = [memory for memory in ids if memory not in left]
    again = set(learned.superseded_by(connection, orphans)) | left.keys()
    gone = derived.drop(connection, tenant_id, orphans)
    keys = []
    for row in learned.by_id(connection, list(left)):
        resting = left[row.id]
        first = resting[0]
        same = [e for e in resting if e.content == row.content]
        shown = same[0] if same else first
        holds_from, holds_until = (
            (row.holds_from, row.holds_until) if row.edited else evidence.validity(resting)
        )
        learned.refresh(
            connection,
            id=row.id,
            content=shown.content,
            hash=bytes(row.content_hash) if same else _hash(row.id, shown.content),
            confidence=max(e.confidence for e in resting),
            said_at=first.said_at,
            learned_in=shown.chat_id,
            also_in=sorted({e.chat_id for e in resting if e.content == shown.content} - {shown.chat_id}),
            holds_from=holds_from,
            holds_until=holds_until,
        )
        if not same:
            keys.append(f"memory:{row.id}")
    jobs.enqueue(connection, tenant_id, "embed", keys)
    jobs.enqueue(connection, tenant_id, "extract", [f"memory:{memory}" for memory in again - set(gone)])
    return gone


def _hash(memory_id: UUID, content: str) -> bytes:
    """Return a hash that no other memory of the owner has."""
    return blake2b(fingerprint(content) + memory_id.bytes, digest_size=16).digest()
