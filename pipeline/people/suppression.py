"""Keep forgotten data from coming back: a suppression list of keyed hashes, checked before anything is stored.

A message's entry is permanent. Those of a user, a chat and a tenant keep out what was sent before the forgetting, not
later messages. Users whose memory is off have an entry, too, as long as it is off; so do ended API keys, which backups
may still contain, members who have left, as a platform may repeat that they joined, and ids that somebody has unlinked,
as a platform may show them together again. An entry names nobody: it is an
HMAC under the tenant's own key.
"""

import hmac
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection

from pipeline.platforms.identity import in_other_chat
from pipeline.store import identities
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as store
from pipeline.text.duplicates import fingerprints_ever
from schemas.memories import MemoryIn
from schemas.messages import MessageIn

Kind = Literal[
    "message", "user", "chat", "tenant", "memory", "unremembered", "key", "left", "payload", "apart"
]
Named = tuple[Kind, *tuple[str, ...]]
"""The subject of an entry: its kind, and its names."""


def hash_of(key: bytes, kind: Kind, *names: str) -> bytes:
    """Return the suppression hash of a subject (HMAC-SHA256); no name may contain NUL."""
    return hmac.digest(key, "\0".join([kind, *names]).encode(), "sha256")


def _sender_names(sender_id: str, chat_id: str = "", former: Sequence[str] = ()) -> list[Named]:
    """Return the subjects that would keep out a sender's messages in a chat, also under its `former` ids."""
    ids = {sender_id, *(in_other_chat(sender_id, chat_id, former_chat) for former_chat in former)}
    return [name for sender in ids for name in (("user", sender), ("unremembered", sender))]


def _names_of(chat_id: str, messages: Sequence[MessageIn], former: Sequence[str] = ()) -> list[Named]:
    """Return the subjects whose entries would keep out any of these messages."""
    names: list[Named] = [("tenant",), ("chat", chat_id)]
    for sender in {message.sender_id for message in messages}:
        names += _sender_names(sender, chat_id, former)
    for message in messages:
        address = chat_id, message.external_id
        # the second: its sender deleted it before it came
        names += [("message", *address), ("message", *address, message.sender_id)]
    return names


def hashes_of(key: bytes | None, chat_id: str, messages: Sequence[MessageIn]) -> list[bytes]:
    """Return the hashes that would keep out any of these messages."""
    return hashes(key, *_names_of(chat_id, messages))


def _listed(
    connection: Connection, key: bytes | None, names: Iterable[Named]
) -> dict[Named, datetime | None]:
    """Return those on the suppression list, each with the time up to which it keeps data out (None: always)."""
    if key is None:
        return {}
    hashes = {hash_of(key, *name): name for name in names}
    return {hashes[digest]: row.until for digest, row in store.listed(connection, hashes).items()}


def reaches(until: datetime | None, at: datetime | None) -> bool:
    """Tell whether what is forgotten until a time, None for ever, includes what was said at one."""
    return until is None or (at is not None and at <= until)


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """The messages that may be stored, and the ids of those that may not."""

    messages: list[MessageIn]
    kept_out: list[str]
    # whether a member of the chat among their senders has memory off
    unnamed: bool


def admit(
    connection: Connection,
    key: bytes | None,
    chat_id: str,
    messages: Sequence[MessageIn],
    *,
    former: Sequence[str] = (),
) -> Admitted:
    """Filter out forgotten messages; call it under the chat's lock, with the key read under that lock.

    `former` are the chat's earlier ids: people forgotten by name under them are kept out, too.
    """
    listed = _listed(connection, key, _names_of(chat_id, messages, former))
    out = {
        message.external_id
        for message in messages
        if any(
            reaches(listed[n], message.sent_at) for n in _names_of(chat_id, [message], former) if n in listed
        )
    }
    return Admitted(
        messages=[m for m in messages if m.external_id not in out],
        kept_out=[m.external_id for m in messages if m.external_id in out],
        unnamed=any(
            m.role == "user" and n[0] == "unremembered" and n in listed
            for m in messages
            if m.external_id in out
            for n in _sender_names(m.sender_id, chat_id, former)
        ),
    )


def is_suppressed(connection: Connection, kind: Kind, *names: str) -> bool:
    """Tell whether a subject must not be stored, whenever it was sent."""
    return None in _listed(connection, store.key(connection), [(kind, *names)]).values()


def is_kept_out(connection: Connection, at: datetime | None, *named: Named) -> bool:
    """Tell whether words of that time must not be stored, as one of these subjects was forgotten since.

    Without a time they count as older than any forgetting.
    """
    listed = _listed(connection, store.key(connection), named)
    return any(at is None or reaches(until, at) for until in listed.values())


def kept_out(connection: Connection, known: Sequence[tuple[datetime, Sequence[Named]]]) -> list[bool]:
    """Tell of each of several items, given the time that it is of, whether one of its subjects was forgotten since."""
    listed = _listed(connection, store.key(connection), {name for _, names in known for name in names})
    return [any(reaches(listed[name], at) for name in names if name in listed) for at, names in known]


def forgotten(connection: Connection, senders: Collection[str]) -> dict[str, datetime]:
    """Return until when the words of those among these senders are forgotten who are."""
    names: list[Named] = [("user", sender) for sender in senders]
    listed = _listed(connection, store.key(connection), names)
    return {name[-1]: until for name, until in listed.items() if until is not None}


def keeps_out_sender(
    database: Database, tenant_id: str, chat_id: str, sender_id: str | None, at: datetime | None
) -> bool:
    """Tell whether a sender's words of that time in a chat must not be stored; without a sender they may."""
    if sender_id is None:
        return False
    with database.tenant(tenant_id) as connection:
        return is_kept_out(connection, at, *_sender_names(sender_id, chat_id))


def hashes(key: bytes | None, *named: Named) -> list[bytes]:
    """Return the hashes of these under a tenant's key; none while the tenant has no key, and so no entries."""
    return [] if key is None else [hash_of(key, *name) for name in named]


def entries(connection: Connection, tenant_id: str, *named: Named) -> list[bytes]:
    """Return the hashes of these under the tenant's key, which is created if missing."""
    return hashes(store.ensure_key(connection, tenant_id), *named)


def put(
    connection: Connection, tenant_id: str, named: Sequence[Named], until: datetime | None
) -> list[bytes]:
    """Put subjects of one kind on the suppression list, and return their hashes.

    They keep out what was sent up to `until` (None: always).
    """
    if not named:
        return []
    hashed = entries(connection, tenant_id, *named)
    store.put(connection, tenant_id, named[0][0], hashed, until)
    return hashed


def deleted(connection: Connection, chat_id: str, external_ids: Sequence[str]) -> set[str]:
    """Return which of these ids of a chat were deleted for good."""
    names: list[Named] = [("message", chat_id, external_id) for external_id in external_ids]
    return {name[-1] for name in _listed(connection, store.key(connection), names)}


def keeps_out(connection: Connection, memory: MemoryIn) -> bool:
    """Tell whether a memory must not be written, as its person or place was forgotten or switched off.

    Call it under the lock of the chat that it was learned in. A memory that does not say when it was learned counts
    as learned now, unless the same one was forgotten: then it counts as that one coming back.
    """
    owner = memory.scope, memory.user_id, memory.agent_id
    entries: list[Named] = [
        ("memory", *memory_names(*owner, words)) for words in fingerprints_ever(memory.content)
    ]
    around: list[Named] = [("tenant",)]
    if memory.learned_in is not None:
        around.append(("chat", memory.learned_in))
    if memory.user_id is not None:
        around += _sender_names(memory.user_id)
    listed = _listed(connection, store.key(connection), [*entries, *around])
    at = memory.said_at
    if any(entry in listed and (at is None or reaches(listed[entry], at)) for entry in entries):
        return True
    return any(reaches(listed[name], at) for name in around if name in listed)


def memory_names(
    scope: str, user_id: str | None, agent_id: str | None, content_hash: bytes
) -> tuple[str, ...]:
    """Return the names of a memory in the suppression list."""
    return scope, user_id or "", agent_id or "", content_hash.hex()


def unremembered(connection: Connection, ids: Collection[str]) -> set[str]:
    """Return the senders whose memory is off."""
    names: dict[Named, str] = {("unremembered", sender): sender for sender in ids}
    return {names[name] for name in _listed(connection, store.key(connection), names)}


def put_unremembered(connection: Connection, tenant_id: str, ids: Sequence[str]) -> None:
    """Switch the memory of these senders off."""
    put(connection, tenant_id, [("unremembered", sender) for sender in ids], None)


def put_left(
    connection: Connection, tenant_id: str, chat_id: str, senders: Sequence[str], at: datetime
) -> None:
    """Ignore repeated events, up to `at`, of these senders joining a chat."""
    put(connection, tenant_id, [("left", chat_id, sender) for sender in senders], at)


def are_apart(connection: Connection, one: Sequence[str], others: Sequence[str]) -> bool:
    """Tell whether somebody has said that two of these ids are not one person's."""
    return bool(_listed(connection, store.key(connection), _pairs(one, others)))


def set_apart(
    connection: Connection, tenant_id: str, one: Sequence[str], others: Sequence[str], *, apart: bool
) -> None:
    """Note that these ids are not one person's, or that they are, whatever a platform shows together."""
    if apart:
        put(connection, tenant_id, _pairs(one, others), None)
    else:
        for entry in hashes(store.key(connection), *_pairs(one, others)):
            store.remove(connection, entry)


def _pairs(one: Sequence[str], others: Sequence[str]) -> list[Named]:
    return [("apart", *sorted((first, second))) for first in one for second in others]


def remember_user(database: Database, tenant_id: str, any_id: str, *, remembered: bool) -> None:
    """Switch a person's memory on or off under all their ids; existing data stays until it is forgotten."""
    with database.tenant(tenant_id) as connection:
        store.lock(connection, tenant_id, exclusive=True)
        ids = identities.ids_of(connection, any_id)
        if remembered:
            for entry in entries(connection, tenant_id, *(("unremembered", sender) for sender in ids)):
                store.remove(connection, entry)
        else:
            put_unremembered(connection, tenant_id, ids)


def is_remembered(database: Database, tenant_id: str, any_id: str) -> bool:
    """Tell whether a person's messages are kept."""
    with database.tenant(tenant_id) as connection:
        return not unremembered(connection, identities.ids_of(connection, any_id))
