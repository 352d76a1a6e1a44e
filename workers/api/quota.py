"""The messages that a key may hand over in a day (UTC), counted in Postgres for all processes."""

from datetime import UTC, datetime, timedelta

from pipeline.store.connections.database import Database
from pipeline.store.people import api_keys
from schemas.keys import CurrentKey
from workers.api.errors import HttpError


def take_messages(database: Database, key: CurrentKey, messages: int) -> None:
    """Count messages before they are stored. Raises `HttpError` 429 if they are more than the day has left."""
    if key.messages_per_day is None or key.id is None:
        return
    with database.tenant(key.tenant) as connection:
        if api_keys.take_messages(connection, key.id, messages):
            return
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    raise HttpError(
        429,
        "too-many-requests",
        f"The API key may hand over {key.messages_per_day} messages a day (UTC), and these {messages} are more than "
        "are left today. None was stored.",
        headers={"Retry-After": str(int((midnight - now).total_seconds()) + 1)},
    )
