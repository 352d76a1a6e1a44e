"""Read the cues of placed messages and store them, so that no question needs to read the texts again."""

from collections.abc import Iterable

from sqlalchemy import Connection

from pipeline.store.messages import message_cues as store
from pipeline.store.messages.message_cues import MessageText
from pipeline.text.cues import message_cues


def store_cues(connection: Connection, tenant_id: str, messages: Iterable[tuple[MessageText, str]]) -> None:
    """Store the cues of messages, each with its chat's language, in one statement."""
    cues = [
        (message, message_cues.read(message.text, language, of_a_bot=message.role == "assistant"))
        for message, language in messages
    ]
    if cues:
        store.put(connection, tenant_id, cues)
