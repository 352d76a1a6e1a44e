"""SQL of who is in a chat: whoever has spoken there, as a trigger notes, or whom the bot has named.

An empty sender is somebody whose name is not kept: with such a one there nobody knows who listens.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, text

UNKNOWN = ""

_NOTE_UNKNOWN = text("""
    INSERT INTO chat_members (tenant_id, chat_id, sender_id)
    SELECT :tenant, chat_id, :unknown FROM chats WHERE chat_id = :chat ON CONFLICT DO NOTHING
""")

_DELETE_CHAT_MEMBERS = text(
    "DELETE FROM chat_members WHERE chat_id = :chat AND NOT sender_id = ANY(:senders)"
)
_OF_CHAT = text("SELECT sender_id FROM chat_members WHERE chat_id = :chat ORDER BY sender_id")
_CHATS_OF = text("SELECT DISTINCT chat_id FROM chat_members WHERE sender_id = ANY(:senders) ORDER BY chat_id")


def note_unknown(connection: Connection, tenant_id: str, chat_id: str) -> None:
    """Note that somebody is in a chat whose name is not kept; nothing where there is no such chat."""
    connection.execute(_NOTE_UNKNOWN, {"tenant": tenant_id, "chat": chat_id, "unknown": UNKNOWN})


_REPLACE = text("""
    INSERT INTO chat_members (tenant_id, chat_id, sender_id)
    SELECT :tenant, :chat, sender FROM unnest(CAST(:senders AS text[])) AS sender ORDER BY sender
    ON CONFLICT DO NOTHING
""")


def replace(connection: Connection, tenant_id: str, chat_id: str, senders: Sequence[str]) -> None:
    """Let exactly these be in a chat, whoever was before; `UNKNOWN` may be among them."""
    given = {"tenant": tenant_id, "chat": chat_id, "senders": list(senders)}
    connection.execute(_DELETE_CHAT_MEMBERS, given)
    connection.execute(_REPLACE, given)


def of_chat(connection: Connection, chat_id: str) -> list[str]:
    """The senders that are in a chat."""
    return list(connection.scalars(_OF_CHAT, {"chat": chat_id}))


def chats_of(connection: Connection, senders: Sequence[str]) -> list[str]:
    """The chats that these senders are in."""
    return list(connection.scalars(_CHATS_OF, {"senders": list(senders)}))


_CHATS_TO_UNNAME = text("""
    SELECT DISTINCT chat_id FROM chat_members c WHERE sender_id = ANY(:senders)
        AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.tenant_id = c.tenant_id
            AND m.chat_id = c.chat_id AND m.sender_id = c.sender_id)
    ORDER BY chat_id
""")


def chats_to_unname(connection: Connection, senders: Sequence[str]) -> list[str]:
    """The chats that name these senders though no message of theirs is left there."""
    return list(connection.scalars(_CHATS_TO_UNNAME, {"senders": list(senders)}))


_UNNAME = text("""
    WITH gone AS (
        DELETE FROM chat_members c WHERE sender_id <> :unknown AND chat_id = :chat
            AND (CAST(:senders AS text[]) IS NULL OR sender_id = ANY(:senders))
            AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.tenant_id = c.tenant_id
                AND m.chat_id = c.chat_id AND m.sender_id = c.sender_id)
        RETURNING tenant_id, chat_id
    ), noted AS (
        INSERT INTO chat_members (tenant_id, chat_id, sender_id)
        SELECT DISTINCT tenant_id, chat_id, CAST(:unknown AS text) FROM gone ON CONFLICT DO NOTHING
    )
    SELECT count(*) FROM gone
""")


def unname(connection: Connection, chat_id: str, senders: Sequence[str] | None = None) -> int:
    """Name no more whom no message of a chat is left of, among these senders or all; how many rows that took.

    They may be there still, so that the chat notes somebody unknown instead. To be called while nothing is accepted
    in the chat.
    """
    return int(
        connection.execute(
            _UNNAME,
            {"unknown": UNKNOWN, "senders": senders if senders is None else list(senders), "chat": chat_id},
        ).scalar_one()
    )
