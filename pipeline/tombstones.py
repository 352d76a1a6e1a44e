"""What keeps forgotten things from coming back: keyed hashes that everything is compared with before it is stored.

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

from pipeline.store import tombstones as store
from pipeline.store.database import Database
from schemas.messages import MessageIn

Kind = Literal["message", "user", "chat", "tenant", "unremembered"]


def hash_of(key: bytes, kind: Kind, *names: str) -> bytes:
    """The tombstone of what has these names (HMAC-SHA256); no name holds NUL."""
    return hmac.digest(key, "\0".join([kind, *names]).encode(), "sha256")


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """What may be stored of what was handed over, and the ids of what may not."""

    messages: list[MessageIn]
    kept_out: list[str]


def admit(connection: Connection, chat_id: str, given: Sequence[MessageIn]) -> Admitted:
    """Keep out what was forgotten; to be called under the tenant's lock."""
    key = store.key(connection)
    if key is None:
        return Admitted(messages=list(given), kept_out=[])
    around = [hash_of(key, "tenant"), hash_of(key, "chat", chat_id)]
    senders = {
        m.sender_id: (hash_of(key, "user", m.sender_id), hash_of(key, "unremembered", m.sender_id))
        for m in given
    }
    own = {m.external_id: hash_of(key, "message", chat_id, m.external_id) for m in given}
    stones = store.among(
        connection, [*around, *own.values(), *(h for pair in senders.values() for h in pair)]
    )

    def stopped(message: MessageIn) -> bool:
        mine = (*around, *senders[message.sender_id], own[message.external_id])
        return any(_reaches(stones[h].until, message.sent_at) for h in mine if h in stones)

    kept_out = [m.external_id for m in given if stones and stopped(m)]
    out = set(kept_out)
    return Admitted(messages=[m for m in given if m.external_id not in out], kept_out=kept_out)


def _reaches(until: datetime | None, sent_at: datetime) -> bool:
    return until is None or sent_at <= until


def stands(connection: Connection, kind: Kind, *names: str) -> bool:
    """Whether something of these names must not be stored, whenever it was sent."""
    key = store.key(connection)
    if key is None:
        return False
    stone = hash_of(key, kind, *names)
    found = store.among(connection, [stone]).get(stone)
    return found is not None and found.until is None


def remember_user(database: Database, tenant_id: str, sender_id: str, *, remembered: bool) -> None:
    """Switch a sender's memory on or off: while it is off nothing that they say is kept.

    What there is already stays until it is forgotten.
    """
    with database.tenant(tenant_id) as connection:
        store.lock(connection, tenant_id, alone=True)
        stone = hash_of(store.ensure_key(connection, tenant_id), "unremembered", sender_id)
        if remembered:
            store.remove(connection, stone)
        else:
            store.put(connection, tenant_id, "unremembered", [stone], None)


def is_remembered(database: Database, tenant_id: str, sender_id: str) -> bool:
    """Whether what a sender says is kept."""
    with database.tenant(tenant_id) as connection:
        return not stands(connection, "unremembered", sender_id)
