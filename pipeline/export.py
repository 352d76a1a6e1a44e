"""Everything that is known of a user, as plain records: what they said, what is remembered, where they took part."""

from collections.abc import Iterator
from typing import Any

from pipeline.store import export as store
from pipeline.store import forgetting
from pipeline.store.database import Database

BATCH = 500


def of_user(database: Database, tenant_id: str, sender_id: str) -> Iterator[dict[str, Any]]:
    """Records of a sender: first `messages`, then `memories`, then `sessions` that they took part in.

    Each is a dict with its `record` (`message`, `memory` or `session`); times are aware datetimes. Read in
    batches, each in a transaction of its own. Raises `DatabaseUnavailable`.
    """
    after = 0
    while True:
        with database.tenant(tenant_id) as connection:
            rows = store.messages_of(connection, sender_id, after, BATCH)
        for row in rows:
            yield {"record": "message", **row._mapping}
        if len(rows) < BATCH:
            break
        after = rows[-1].id
    with database.tenant(tenant_id) as connection:
        memories = store.memories_of(connection, sender_id)
        names = [*forgetting.names_of(connection, sender_id), sender_id]
        sessions = store.sessions_of(connection, sender_id, names)
    for row in memories:
        yield {"record": "memory", **row._mapping}
    for row in sessions:
        yield {"record": "session", **row._mapping}
