"""Apply a suppression list to another database of the same tenant, as after a restore, and forget there again.

An entry names nobody, so every stored subject is hashed with the list's key and looked up. That finds what was
forgotten since the backup, and API keys that have ended since, and nothing else.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from pipeline.erasure import forget
from pipeline.people import api_keys, suppression
from pipeline.store.connections.database import Database
from pipeline.store.erasure import erasure as store
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.people import identities
from schemas.people.forgetting import Forgotten, ForgottenEntry, Receipt, Subject


@dataclass(frozen=True, kw_only=True)
class ForgottenAgain:
    """The result of applying a suppression list."""

    # entries that are new to this database
    taken_over: int
    # entries under another key that match nothing stored here: they cannot be taken over
    lost: int
    # a forgetting for each matching subject that is stored here
    receipts: list[Receipt]


def suppressed(database: Database, tenant_id: str) -> Forgotten | None:
    """Return a tenant's suppression list; None if nothing was ever forgotten."""
    with database.tenant(tenant_id) as connection:
        key = suppression_list.key(connection)
        if key is None:
            return None
        entries = [
            ForgottenEntry.model_validate({"hash": digest.hex(), "kind": kind, "until": until})
            for digest, kind, until in suppression_list.entries(connection)
        ]
    return Forgotten(tenant=tenant_id, key=key.hex(), entries=entries)


def forget_again(database: Database, forgotten: Forgotten) -> ForgottenAgain:
    """Apply a suppression list, and begin to forget the stored subjects on it. Raises `DatabaseUnavailable`."""
    key = bytes.fromhex(forgotten.key)
    with database.tenant(forgotten.tenant) as connection:
        suppression_list.lock(connection, forgotten.tenant, exclusive=True)
        same_key = suppression_list.put_key(connection, forgotten.tenant, key) == key
        known = {digest: until for digest, _, until in suppression_list.entries(connection)}
        listed = {bytes.fromhex(entry.hash): entry for entry in forgotten.entries}
        new = {
            digest: entry
            for digest, entry in listed.items()
            if not (same_key and digest in known and _covers(known[digest], entry.until))
        }
        if same_key:
            for digest, entry in new.items():
                suppression_list.put(connection, forgotten.tenant, entry.kind, [digest], entry.until)
        kinds = {entry.kind for entry in new.values()}
        keys = api_keys.end_again(connection, key, {digest: entry.until for digest, entry in new.items()})
        subjects = {
            digest: subject
            for subject in _stored(connection, kinds)
            if (digest := suppression.hash_of(key, subject.kind, *subject.names)) in new
        }
    receipts = [
        forget.repeat(database, forgotten.tenant, subject, new[digest].until)
        for digest, subject in subjects.items()
    ]
    lost = 0 if same_key else len(new) - len(subjects) - keys
    return ForgottenAgain(taken_over=len(new) - lost, lost=lost, receipts=receipts)


def _covers(listed: datetime | None, until: datetime | None) -> bool:
    return listed is None or (until is not None and until <= listed)


def _stored(connection: Connection, kinds: Collection[str]) -> Iterator[Subject]:
    """Yield every stored subject of these kinds."""
    if "tenant" in kinds:
        yield Subject(kind="tenant")
    if "chat" in kinds:
        yield from (Subject(kind="chat", chat_id=chat_id) for chat_id in store.chat_ids(connection))
    if "user" in kinds:
        yield from (Subject(kind="user", sender_id=user) for user in identities.of_all(connection) if user)
    if "message" in kinds:
        for chat_id, external_id in store.names_of_messages(connection):
            yield Subject(kind="message", chat_id=chat_id, external_id=external_id)
