"""SQL that moves a chat's messages, and all that was made of them, to another chat."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, text

from pipeline.store import jobs, vectors
from pipeline.store.chats import Chat
from schemas.kinds import FORGET, INGEST
from schemas.sessions import Session

_CHAT_OF = text("SELECT chat_id FROM messages WHERE id = :id")
_STILL_THERE = text(
    "SELECT external_id FROM messages WHERE chat_id = :chat AND external_id = ANY(:externals)"
)
_FORMER = text("SELECT chat_id FROM chats WHERE moved_to = :chat ORDER BY chat_id")
_UNFINISHED = text("SELECT EXISTS (SELECT 1 FROM forget_receipts WHERE finished_at IS NULL)")
_ARRIVALS = text("SELECT message_id FROM arrivals WHERE chat_id = :chat ORDER BY message_id LIMIT :limit")
_LEFT = text("SELECT id FROM messages WHERE chat_id = :chat ORDER BY id LIMIT :limit")
_UPDATE_CONVERSATION_SESSIONS = text("UPDATE conversation_sessions SET chat_id = :into WHERE id = ANY(:ids)")
_UPDATE_SESSION_VECTORS = text("UPDATE session_vectors SET chat_id = :into WHERE session_id = ANY(:ids)")


def named(external_id: str) -> str:
    """What a message of `:chat` is called in `:into`, from what it is called there.

    Another chat's messages may have the same ids, so that the former chat stands in front: `telegram:-100/5`. What
    came from elsewhere keeps its name, and what goes back gets its own again.
    """
    return f"""CASE
        WHEN starts_with({external_id}, :into || '/') THEN substr({external_id}, length(:into) + 2)
        WHEN EXISTS (SELECT 1 FROM chats former WHERE former.moved_to = :into
            AND starts_with({external_id}, former.chat_id || '/')) THEN {external_id}
        ELSE :chat || '/' || {external_id} END"""


_ADDRESS = text("""
    SELECT moved_to FROM chats c WHERE chat_id = :chat AND moved_to IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM messages m
        WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id AND m.external_id = :external)
""")


def address(connection: Connection, chat_id: str, external_id: str) -> tuple[str, str]:
    """Where a message stands now that is called so in a chat, which may have another id now."""
    into = connection.scalar(_ADDRESS, {"chat": chat_id, "external": external_id})
    if into is None:
        return chat_id, external_id
    return into, names(connection, chat_id, into, [external_id])[0]


def chat_of(connection: Connection, message_id: int) -> str | None:
    """The chat that a message is in now; None: it is gone."""
    found: str | None = connection.scalar(_CHAT_OF, {"id": message_id})
    return found


_NAMES = text(f"""
    SELECT {named("external_id")} FROM unnest(CAST(:externals AS text[])) WITH ORDINALITY
        AS given (external_id, place) ORDER BY place
""")


def names(connection: Connection, chat_id: str, into: str, external_ids: Sequence[str]) -> list[str]:
    """What messages that are called so in a chat are called where it was moved to."""
    return list(connection.scalars(_NAMES, {"chat": chat_id, "into": into, "externals": list(external_ids)}))


def still_there(connection: Connection, chat_id: str, external_ids: Sequence[str]) -> set[str]:
    """Those of these messages that have not been moved yet."""
    found = connection.scalars(_STILL_THERE, {"chat": chat_id, "externals": list(external_ids)})
    return set(found)


def former(connection: Connection, chat_id: str) -> list[str]:
    """The ids that a chat had before."""
    return list(connection.scalars(_FORMER, {"chat": chat_id}))


_UNDER_WAY = text(f"""
    SELECT EXISTS (SELECT 1 FROM forget_receipts r WHERE kind = 'move' AND finished_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM jobs w WHERE w.tenant_id = r.tenant_id AND w.kind = '{FORGET}'
            AND w.key = CAST(r.id AS text) AND w.dead_at IS NOT NULL))
""")


def under_way(connection: Connection) -> bool:
    """Whether a chat is being moved; not one whose moving was given up."""
    return bool(connection.scalar(_UNDER_WAY))


def unfinished(connection: Connection) -> bool:
    """Whether something is being forgotten, removed or moved."""
    return bool(connection.scalar(_UNFINISHED))


_LEAD = tuple(
    map(
        text,
        (
            "UPDATE chats SET moved_to = NULL WHERE chat_id = :into",
            "UPDATE chats SET moved_to = :into WHERE chat_id = :chat OR moved_to = :chat AND chat_id <> :into",
            """
    INSERT INTO chat_members (tenant_id, chat_id, sender_id)
    SELECT tenant_id, :into, sender_id FROM chat_members WHERE chat_id = :chat ON CONFLICT DO NOTHING
    """,
            # not seen yet: whether they cut a session there is to be looked at
            """
    INSERT INTO session_closes (tenant_id, chat_id, session_key, closed_at)
    SELECT tenant_id, :into, session_key, closed_at FROM session_closes WHERE chat_id = :chat ON CONFLICT DO NOTHING
    """,
            f"UPDATE pending_changes SET chat_id = :into, external_id = {named('external_id')} WHERE chat_id = :chat",
            """
    UPDATE backfills SET filter = filter || jsonb_build_object('chat_id', CAST(:into AS text))
    WHERE filter->>'chat_id' = :chat
    """,
        ),
    )
)


def lead(connection: Connection, chat_id: str, into: str) -> None:
    """Let a chat, and those that led to it, lead to another one, with what is little."""
    for statement in _LEAD:
        connection.execute(statement, {"chat": chat_id, "into": into})


def lock(connection: Connection, chat_ids: Sequence[str]) -> dict[str, Chat]:
    """These chats by id, locked against placing and accepting alike."""
    columns = ", ".join(Chat.__dataclass_fields__)
    rows = connection.execute(
        text(f"SELECT {columns} FROM chats WHERE chat_id = ANY(:chats) ORDER BY chat_id FOR UPDATE"),
        {"chats": list(chat_ids)},
    )
    return {row.chat_id: Chat(**row._mapping) for row in rows}


def arrivals(connection: Connection, chat_id: str, limit: int) -> list[int]:
    """Messages of a chat that wait for their place, those in quarantine among them."""
    return list(connection.scalars(_ARRIVALS, {"chat": chat_id, "limit": limit}))


_SESSIONS = text("""
    SELECT id FROM (
        SELECT id, sum(message_count) OVER (ORDER BY session_key, started_at) AS held,
            row_number() OVER (ORDER BY session_key, started_at) AS place
        FROM (SELECT id, session_key, started_at, message_count FROM conversation_sessions
            WHERE chat_id = :chat AND status <> 'merged'
            ORDER BY session_key, started_at LIMIT :limit) earliest) counted
    WHERE held <= :messages OR place = 1
""")


def sessions(connection: Connection, chat_id: str, messages: int, limit: int) -> list[int]:
    """A chat's earliest sessions by key, at most so many that hold so many messages; one at least."""
    return list(connection.scalars(_SESSIONS, {"chat": chat_id, "messages": messages, "limit": limit}))


_INSIDE = text("""
    SELECT m.id FROM unnest(CAST(:keys AS text[]), CAST(:starts AS timestamptz[]),
        CAST(:ends AS timestamptz[])) AS session (key, start, until)
    JOIN messages m ON m.chat_id = :chat AND m.session_key = session.key
        AND m.sent_at BETWEEN session.start AND session.until
""")


def inside(connection: Connection, chat_id: str, some: Sequence[Session]) -> list[int]:
    """The messages of these sessions of a chat."""
    return list(
        connection.scalars(
            _INSIDE,
            {
                "chat": chat_id,
                "keys": [session.session_key for session in some],
                "starts": [session.started_at for session in some],
                "ends": [session.ended_at for session in some],
            },
        )
    )


def left(connection: Connection, chat_id: str, limit: int) -> list[int]:
    """Messages of a chat in no session, once there are no others."""
    return list(connection.scalars(_LEFT, {"chat": chat_id, "limit": limit}))


_COPIES = text("""
    SELECT counted.messages, counted.copies, m.sender_name, m.content, m.sent_at FROM (
        SELECT count(*) AS messages, count(there.id) AS copies,
            min(here.id) FILTER (WHERE there.id IS NOT NULL) AS first
        FROM messages here LEFT JOIN LATERAL (
            -- one by one, by the whole key: of chats just imported the planner knows no numbers
            SELECT * FROM messages m WHERE m.chat_id = :into AND m.external_id = here.external_id OFFSET 0
        ) there ON there.sender_id = here.sender_id AND there.content = here.content
            AND (there.sent_at = here.sent_at OR starts_with(here.external_id, :derived))
        WHERE here.chat_id = :chat) counted
    LEFT JOIN messages m ON m.id = counted.first
""")


def copies(connection: Connection, chat_id: str, into: str, derived: str) -> Row[Any]:
    """`(messages, copies, sender_name, content, sent_at)`: how many a chat has, how many of them another chat has too.

    The last three are of the first copy. By its id, sender and text, and by its time where the id is not `derived`,
    as one with that in front tells the time as it was read off a clock.
    """
    return connection.execute(_COPIES, {"chat": chat_id, "into": into, "derived": derived}).one()


class Moved(NamedTuple):
    """Messages that were moved."""

    messages: int
    # those that have their place, and their distinct lexemes added up
    placed: int
    lexemes: int


def messages(connection: Connection, chat_id: str, into: str, ids: Sequence[int]) -> Moved:
    """Move messages with their vectors and arrivals, in one statement: references to partitions name the chat."""
    also = """, embedded AS (
        UPDATE message_vectors v SET chat_id = :into FROM moved
        WHERE v.tenant_id = moved.tenant_id AND v.message_id = moved.id)"""
    row = connection.execute(
        text(f"""
            WITH moved AS (
                UPDATE messages m SET chat_id = :into, external_id = {named("m.external_id")},
                    reply_to = {named("m.reply_to")}
                WHERE m.chat_id = :chat AND m.id = ANY(:ids)
                RETURNING m.tenant_id, m.id, length(m.tsv) AS lexemes
            ), waiting AS (
                UPDATE arrivals a SET chat_id = :into FROM moved
                WHERE a.tenant_id = moved.tenant_id AND a.message_id = moved.id RETURNING a.message_id
            ){also if vectors.exist(connection) else ""}
            SELECT count(*), count(*) FILTER (WHERE placed), coalesce(sum(lexemes) FILTER (WHERE placed), 0)
            FROM (SELECT lexemes, id NOT IN (SELECT message_id FROM waiting) AS placed FROM moved) counted
        """),
        {"chat": chat_id, "into": into, "ids": list(ids)},
    ).one()
    return Moved(int(row[0]), int(row[1]), int(row[2]))


def move_sessions(connection: Connection, into: str, session_ids: Sequence[int]) -> None:
    """Move sessions with their vectors."""
    given = {"into": into, "ids": list(session_ids)}
    connection.execute(_UPDATE_CONVERSATION_SESSIONS, given)
    if vectors.exist(connection):
        connection.execute(_UPDATE_SESSION_VECTORS, given)


_REST = tuple(
    map(
        text,
        (
            # pointers to sessions that were joined
            """
    UPDATE conversation_sessions SET chat_id = :into WHERE id = ANY(ARRAY(
        SELECT id FROM conversation_sessions WHERE chat_id = :chat ORDER BY id LIMIT :limit))
    """,
            """
    UPDATE query_log SET chat_id = :into WHERE context_id = ANY(ARRAY(
        SELECT context_id FROM query_log WHERE chat_id = :chat ORDER BY context_id LIMIT :limit))
    """,
            """
    UPDATE memories SET learned_in = :into
    WHERE id = ANY(ARRAY(SELECT id FROM memories WHERE learned_in = :chat ORDER BY id LIMIT :limit))
    """,
        ),
    )
)


def rest(connection: Connection, chat_id: str, into: str, limit: int) -> bool:
    """Move what names a chat beside its messages and sessions, at most so many rows; whether there was any."""
    given = {"chat": chat_id, "into": into, "limit": limit}
    return any(connection.execute(statement, given).rowcount for statement in _REST)


def clear(connection: Connection, tenant_id: str, chat_id: str) -> None:
    """Delete what was copied from a chat, and what is owed to it: nothing of it is left."""
    given = {"tenant": tenant_id, "chat": chat_id}
    for statement in (
        "DELETE FROM chat_members WHERE chat_id = :chat AND tenant_id = :tenant",
        "DELETE FROM session_closes WHERE chat_id = :chat AND tenant_id = :tenant",
    ):
        connection.execute(text(statement), given)
    jobs.drop(connection, tenant_id, [INGEST], [chat_id])
