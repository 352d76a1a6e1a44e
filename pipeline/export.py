"""Everything that is known of a user, as plain records: what they said, what is remembered, where they took part."""

from collections.abc import Iterator
from typing import Any

from pipeline.store import export as store
from pipeline.store import forgetting, members, users
from pipeline.store.database import Database

BATCH = 500


def of_user(database: Database, tenant_id: str, sender_id: str) -> Iterator[dict[str, Any]]:
    """Records of a person, by any of their ids: what is linked to them, `messages`, `memories`, and where they are.

    Each is a dict with its `record` (`user`, `message`, `memory`, `chat`, `session` or `query`); times are aware
    datetimes. Read in batches, each in a transaction of its own. Raises `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        senders = users.ids_of(connection, sender_id)
    if len(senders) > 1:
        yield {"record": "user", "user_id": senders[0], "senders": senders[1:]}
    after = 0
    while True:
        with database.tenant(tenant_id) as connection:
            rows = store.messages_of(connection, senders, after, BATCH)
        for row in rows:
            yield {"record": "message", **row._mapping}
        if len(rows) < BATCH:
            break
        after = rows[-1].id
    with database.tenant(tenant_id) as connection:
        memories = store.memories_of(connection, senders)
        chats = members.chats_of(connection, senders)
        names = [*forgetting.names_of(connection, senders), *senders]
        sessions = store.sessions_of(connection, senders, names)
        queries = store.queries_of(connection, senders)
    for row in memories:
        yield {"record": "memory", **row._mapping}
    for chat_id in chats:
        yield {"record": "chat", "chat_id": chat_id}
    for row in sessions:
        yield {"record": "session", **row._mapping}
    for row in queries:
        yield {"record": "query", **row._mapping}
