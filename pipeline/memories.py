"""Remember durable statements, each once in its scope, and let them be embedded."""

import secrets
import time
from hashlib import blake2b
from uuid import UUID

from sqlalchemy import Connection, text

from pipeline.store import memories, work
from pipeline.store.database import Database
from schemas.memories import MemoryIn
from schemas.messages import DEFAULT_LANGUAGE


def remember(
    database: Database, tenant_id: str, memory: MemoryIn, *, language: str = DEFAULT_LANGUAGE
) -> tuple[UUID, bool]:
    """Write a memory: `(its id, whether it is new)`.

    The same words in the same scope are the same memory; saying it again keeps the higher importance and the
    later expiry. Raises `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        return write(connection, tenant_id, memory, language=language)


def write(
    connection: Connection, tenant_id: str, memory: MemoryIn, *, language: str = DEFAULT_LANGUAGE
) -> tuple[UUID, bool]:
    """Write a memory in a transaction of the caller's: `(its id, whether it is new)`."""
    words = " ".join(memory.content.split()).casefold()
    digest = blake2b(words.encode(), digest_size=16).digest()
    connection.execute(
        text("INSERT INTO tenants (tenant_id) VALUES (:tenant) ON CONFLICT DO NOTHING"),
        {"tenant": tenant_id},
    )
    identity, new = memories.insert(connection, tenant_id, _uuid7(), memory, digest, language)
    if new:
        work.raise_wanted(connection, tenant_id, "embed", [f"memory:{identity}"])
    return identity, new


def _uuid7() -> UUID:
    """A UUID that sorts by the time it was made (RFC 9562, version 7)."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | secrets.randbits(80)
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    return UUID(int=(value & ~(0x3 << 62)) | (0x2 << 62))
