"""Recognize messages that retention removed and that come again, as with a longer export."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from pipeline.store.messages import pruned as store
from pipeline.store.messages.pruned import Sent
from schemas.messages import MessageIn
from schemas.sessions import key_of
from schemas.settings import Settings

RECENT = timedelta(days=1)
"""Younger messages count as new: retention is by days, and live messages keep their fast path."""


@dataclass(frozen=True, kw_only=True)
class MessageLimits:
    """Limits of the messages that retention keeps; None: no limit."""

    # the oldest, by the sender's time
    age: timedelta | None = None
    # the newest messages of each chat
    per_chat: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> "MessageLimits":
        """Return the limits of the settings."""
        age = timedelta(days=settings.retention_days) if settings.retention_days else None
        return cls(age=age, per_chat=settings.retention_messages_per_chat)

    def may_concern(self, messages: Sequence[MessageIn]) -> bool:
        """Tell whether any of these may have been pruned."""
        if self.age is None and self.per_chat is None:
            return False
        until = datetime.now(UTC) - RECENT
        return any(message.sent_at < until for message in messages)

    def came_again(self, connection: Connection, chat_id: str, messages: Sequence[MessageIn]) -> set[str]:
        """Return the ids of messages that would be pruned, inside sessions that have lost messages already."""
        if not self.may_concern(messages):
            return set()
        sent = [Sent(m.external_id, key_of(m.session_key, m.thread), m.sent_at) for m in messages]
        return store.pruned(connection, chat_id, sent, age=self.age, per_chat=self.per_chat)


UNLIMITED = MessageLimits()
