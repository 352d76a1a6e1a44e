"""Export everything known of a user as plain records."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Row

from pipeline.store import identities
from pipeline.store import identities as store
from pipeline.store.chats import membership
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import batched
from pipeline.store.erasure import erasure

BATCH = 500

Id = TypeVar("Id")


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
        remembered = store.memory_ids_of(connection, senders)
    if len(senders) > 1:
        yield {"record": "user", "user_id": senders[0], "senders": senders[1:]}
    for chat_id in spoken_in:
        for sender in senders:
            with database.tenant(tenant_id) as connection:
                message_ids = store.message_ids_of(connection, sender, chat_id)
            yield from _read(database, tenant_id, "message", message_ids, store.messages_to_export)
    yield from _read(database, tenant_id, "memory", remembered, store.memories_to_export)
    with database.tenant(tenant_id) as connection:
        chats = membership.chats_of(connection, senders)
        sessions = store.session_ids_of(connection, senders)
        queries = store.query_ids_of(connection, senders)
    for chat_id in chats:
        yield {"record": "chat", "chat_id": chat_id}
    yield from _read(database, tenant_id, "session", sessions, store.sessions_to_export)
    yield from _read(database, tenant_id, "query", queries, store.queries_to_export)
    with database.tenant(tenant_id) as connection:
        rollups = [
            {"record": "rollup", **row._mapping} for row in store.rollups_to_export(connection, sessions)
        ]
        entities = [
            {"record": "entity", **row._mapping} for row in store.entities_to_export(connection, senders)
        ]
    yield from rollups
    yield from entities


def _read(
    database: Database,
    tenant_id: str,
    record: str,
    ids: Sequence[Id],
    read: Callable[[Connection, Sequence[Id]], Sequence[Row[Any]]],
) -> Iterator[dict[str, Any]]:
    for batch in batched(ids, BATCH):
        with database.tenant(tenant_id) as connection:
            rows = read(connection, batch)
        for row in rows:
            yield {"record": record, **row._mapping}
