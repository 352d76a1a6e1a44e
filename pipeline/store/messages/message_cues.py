"""SQL of the cues in messages' texts, which ranking reads."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import arrays, run
from pipeline.store.messages.messages import waits
from pipeline.text.cues.message_cues import LONGEST_READ, MessageCues

_PUT = text("""
    INSERT INTO message_cues (tenant_id, message_id, chat_id, asks, flags)
    SELECT :tenant, message_id, chat_id, asks, flags FROM unnest(
        CAST(:ids AS bigint[]), CAST(:chats AS text[]), CAST(:asks AS real[]), CAST(:flags AS smallint[])
    ) AS read (message_id, chat_id, asks, flags) ORDER BY message_id
    ON CONFLICT (tenant_id, message_id) DO UPDATE SET asks = excluded.asks, flags = excluded.flags
""")
# Unplaced messages are read when they are placed.
_OF_SLICE = text(f"""
    SELECT id, chat_id, role, content FROM (
        SELECT tenant_id, id, chat_id, role, left(content, {LONGEST_READ}) AS content FROM messages
        WHERE chat_id = :chat AND external_id > :after ORDER BY external_id LIMIT :limit) m
    WHERE NOT {waits("m")}
""")


class MessageText(NamedTuple):
    """A message to read the cues of."""

    message_id: int
    chat_id: str
    role: str
    # the part of the text that is read
    text: str


def put(connection: Connection, tenant_id: str, cues: Sequence[tuple[MessageText, MessageCues]]) -> None:
    """Store the cues of messages, replacing existing ones."""
    rows = ((message.message_id, message.chat_id, read.asks, read.flags) for message, read in cues)
    run(connection, _PUT, tenant=tenant_id, **arrays("ids chats asks flags", rows))


def texts(connection: Connection, chat_id: str, after: str, limit: int) -> list[MessageText]:
    """Return the placed ones among a chat's next messages, by their external ids."""
    return [MessageText(*row) for row in run(connection, _OF_SLICE, chat=chat_id, after=after, limit=limit)]
