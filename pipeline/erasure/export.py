"""Export everything known of a user as plain records."""

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.store import identities
from pipeline.store.chats import membership
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import batched
from pipeline.store.erasure import erasure

BATCH = 500


def export_user(database: Database, tenant_id: str, sender_id: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a person, by any of their ids: links, messages, memories, chats, sessions and so on.

    Each is a dict with its `record` (`user`, `message`, `memory`, `chat`, `session`, `query`, `rollup` or `entity`);
    times are aware datetimes. The ids of each kind are read first (of messages chat by chat), then the records in
    batches, each in its own transaction: nobody waits for a slow reader, and only one batch of records is in memory.
    Raises `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        senders = identities.ids_of(connection, sender_id)
        spoken_in = erasure.chats_of(connection, senders)
        remembered = identities.ids_to_export(connection, "memory", senders=senders)
    if len(senders) > 1:
        yield {"record": "user", "user_id": senders[0], "senders": senders[1:]}
    for chat_id in spoken_in:
        for sender in senders:
            with database.tenant(tenant_id) as connection:
                said = identities.ids_to_export(connection, "message", sender=sender, chat=chat_id)
            yield from _read(database, tenant_id, "message", said)
    yield from _read(database, tenant_id, "memory", remembered)
    with database.tenant(tenant_id) as connection:
        chats = membership.chats_of(connection, senders)
        sessions = identities.ids_to_export(connection, "session", senders=senders)
        queries = identities.ids_to_export(connection, "query", senders=senders)
    for chat_id in chats:
        yield {"record": "chat", "chat_id": chat_id}
    yield from _read(database, tenant_id, "session", sessions)
    yield from _read(database, tenant_id, "query", queries)
    with database.tenant(tenant_id) as connection:
        rollups = identities.to_export(connection, "rollup", sessions=sessions)
        entities = identities.to_export(connection, "entity", senders=senders)
    yield from (*rollups, *entities)


def _read(database: Database, tenant_id: str, record: str, ids: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for batch in batched(ids, BATCH):
        with database.tenant(tenant_id) as connection:
            records = identities.to_export(connection, record, ids=batch)
        yield from records
