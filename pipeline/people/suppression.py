"""Keep forgotten things from coming back, by keyed hashes that are checked before anything is stored.

A message's tombstone stands for good. Those of a user, a chat and a tenant stop what was sent before the
forgetting, not what is said later. A user who is not to be remembered has one too, for as long as that holds.
A tombstone names nobody: it is an HMAC under a key of the tenant's own.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection

from pipeline.store import identities
from pipeline.store import suppression as store
from pipeline.store.database import Database
from schemas.memories import MemoryIn
from schemas.messages import MessageIn

Kind = Literal["message", "user", "chat", "tenant", "memory", "unremembered"]
Named = tuple[Kind, *tuple[str, ...]]
"""What a tombstone may stand for: its kind, and its names."""


def hash_of(key: bytes, kind: Kind, *names: str) -> bytes:
    """Return the suppression hash of what has these names (HMAC-SHA256); no name holds NUL."""
    return hmac.digest(key, "\0".join([kind, *names]).encode(), "sha256")


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """The messages that may be stored, and the ids of those that may not."""

    messages: list[MessageIn]
    kept_out: list[str]
    # of somebody among them who is in the chat and will not be remembered
    unnamed: bool = False


def hashes_of(key: bytes | None, chat_id: str, given: Sequence[MessageIn]) -> list[bytes]:
    """Return every hash that would keep one of these messages out."""
    if key is None:
        return []
    senders = {m.sender_id for m in given}
    return [
        hash_of(key, "tenant"),
        hash_of(key, "chat", chat_id),
        *(hash_of(key, kind, each) for each in senders for kind in ("user", "unremembered")),
        *(hash_of(key, "message", chat_id, m.external_id) for m in given),
    ]


def admit(connection: Connection, key: bytes | None, chat_id: str, given: Sequence[MessageIn]) -> Admitted:
    """Filter out what was forgotten; call it under the chat's lock, with the key read under it."""
    if key is None:
        return Admitted(messages=list(given), kept_out=[])
    around = [hash_of(key, "tenant"), hash_of(key, "chat", chat_id)]
    senders = {
        m.sender_id: (hash_of(key, "user", m.sender_id), hash_of(key, "unremembered", m.sender_id))
        for m in given
    }
    own = {m.external_id: hash_of(key, "message", chat_id, m.external_id) for m in given}
    stones = store.listed(
        connection, [*around, *own.values(), *(h for pair in senders.values() for h in pair)]
    )

    def stopped(message: MessageIn) -> bool:
        mine = (*around, *senders[message.sender_id], own[message.external_id])
        return any(_reaches(stones[h].until, message.sent_at) for h in mine if h in stones)

    kept_out = [m.external_id for m in given if stones and stopped(m)]
    out = set(kept_out)
    unnamed = any(
        m.role == "user" and senders[m.sender_id][1] in stones for m in given if m.external_id in out
    )
    admitted = [m for m in given if m.external_id not in out]
    return Admitted(messages=admitted, kept_out=kept_out, unnamed=unnamed)


def _reaches(until: datetime | None, sent_at: datetime) -> bool:
    return until is None or sent_at <= until


def stands(connection: Connection, kind: Kind, *names: str) -> bool:
    """Tell whether something of these names must not be stored, whenever it was sent."""
    key = store.key(connection)
    if key is None:
        return False
    stone = hash_of(key, kind, *names)
    found = store.listed(connection, [stone]).get(stone)
    return found is not None and found.until is None


def deleted(connection: Connection, chat_id: str, external_ids: Sequence[str]) -> set[str]:
    """Return which of these ids of a chat were deleted for good."""
    key = store.key(connection)
    if key is None or not external_ids:
        return set()
    hashes = {hash_of(key, "message", chat_id, each): each for each in external_ids}
    return {hashes[stone] for stone in store.listed(connection, hashes)}


def stopped(connection: Connection, at: datetime, *named: Named) -> bool:
    """Tell whether what was said or asked then must not be stored, as one of these was forgotten since."""
    key = store.key(connection)
    if key is None:
        return False
    found = store.listed(connection, [hash_of(key, *each) for each in named])
    return any(_reaches(stone.until, at) for stone in found.values())


def keeps_out(connection: Connection, memory: MemoryIn, content_hash: bytes) -> bool:
    """Tell whether a memory must not be written, as its person or place was forgotten or switched off.

    To be called under the lock of the chat that it was learned in. A memory that does not say when it was learned
    counts as learned now, unless the same was there when it was forgotten: then it is that which comes again.
    """
    key = store.key(connection)
    if key is None:
        return False
    own = hash_of(key, "memory", *memory_names(memory.scope, memory.user_id, memory.agent_id, content_hash))
    around = [hash_of(key, "tenant")]
    if memory.learned_in is not None:
        around.append(hash_of(key, "chat", memory.learned_in))
    if memory.user_id is not None:
        around += [hash_of(key, "user", memory.user_id), hash_of(key, "unremembered", memory.user_id)]
    stones = store.listed(connection, [own, *around])
    at = memory.said_at
    if own in stones and (at is None or _reaches(stones[own].until, at)):
        return True
    return any(
        stones[stone].until is None or (at is not None and _reaches(stones[stone].until, at))
        for stone in around
        if stone in stones
    )


def memory_names(
    scope: str, user_id: str | None, agent_id: str | None, content_hash: bytes
) -> tuple[str, ...]:
    """Return the names of a memory in the suppression list."""
    return scope, user_id or "", agent_id or "", content_hash.hex()


def unremembered(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Return which of these senders are not to be remembered."""
    key = store.key(connection)
    if key is None:
        return set()
    hashes = {hash_of(key, "unremembered", each): each for each in ids}
    return {hashes[stone] for stone in store.listed(connection, hashes)}


def put_unremembered(connection: Connection, tenant_id: str, ids: Sequence[str]) -> None:
    """Remember none of these senders from now on."""
    key = store.ensure_key(connection, tenant_id)
    hashes = [hash_of(key, "unremembered", each) for each in ids]
    store.put(connection, tenant_id, "unremembered", hashes, None)


def remember_user(database: Database, tenant_id: str, any_id: str, *, remembered: bool) -> None:
    """Switch a person's memory on or off, under all their ids; while it is off, nothing of theirs is kept.

    What there is already stays until it is forgotten.
    """
    with database.tenant(tenant_id) as connection:
        store.lock(connection, tenant_id, alone=True)
        ids = identities.ids_of(connection, any_id)
        if remembered:
            key = store.ensure_key(connection, tenant_id)
            for each in ids:
                store.remove(connection, hash_of(key, "unremembered", each))
        else:
            put_unremembered(connection, tenant_id, ids)


def is_remembered(database: Database, tenant_id: str, any_id: str) -> bool:
    """Tell whether a person's messages are kept."""
    with database.tenant(tenant_id) as connection:
        return not unremembered(connection, identities.ids_of(connection, any_id))
