"""SQL of users: the senders that are one person, and everything known of them.

A user's id is never linked itself, so that one look at `user_senders` tells whose a sender is.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store.chats import chats
from pipeline.store.chats.membership import Visible
from pipeline.store.connections.statements import column, holds, run
from pipeline.store.erasure.erasure import OF_PERSON
from pipeline.store.memories.memory_conditions import learned_visibly
from pipeline.store.sessions.session_rows import IN_SESSIONS
from schemas.sessions import THREAD

_USER_OF = text("SELECT user_id FROM user_senders WHERE sender_id = :id")
_IDS_OF = text("SELECT sender_id FROM user_senders WHERE user_id = :user ORDER BY sender_id")
_USERS_OF = text("SELECT DISTINCT user_id FROM user_senders WHERE sender_id = ANY(:ids)")
_ENSURE_USER = text("INSERT INTO users (tenant_id, user_id) VALUES (:tenant, :user) ON CONFLICT DO NOTHING")
_MOVE = text("""
    INSERT INTO user_senders (tenant_id, sender_id, user_id, shown_at)
    SELECT :tenant, id, :user, :shown FROM unnest(CAST(:ids AS text[])) AS id ORDER BY id
    ON CONFLICT (tenant_id, sender_id) DO UPDATE SET user_id = excluded.user_id, linked_at = now(),
        shown_at = coalesce(excluded.shown_at, user_senders.shown_at)
""")
_SHOWN_WITH = text("""
    SELECT user_id, shown_at FROM user_senders WHERE sender_id = :id AND shown_at IS NOT NULL
        AND split_part(user_id, ':', 1) = split_part(:id, ':', 1)
""")
_UNLINK = text("DELETE FROM user_senders WHERE sender_id = :id RETURNING user_id")
_DROP_EMPTY = text("""
    DELETE FROM users u WHERE user_id = ANY(:users) AND NOT EXISTS (
        SELECT 1 FROM user_senders s WHERE s.tenant_id = u.tenant_id AND s.user_id = u.user_id)
""")
_FORGET_LINKS = text("DELETE FROM user_senders WHERE sender_id = ANY(:ids) OR user_id = ANY(:ids)")
_FORGET_USERS = text("DELETE FROM users WHERE user_id = ANY(:ids)")
_LISTING = text("""
    SELECT u.user_id, u.created_at, array_agg(s.sender_id ORDER BY s.sender_id) AS senders
    FROM (SELECT * FROM users WHERE user_id > :after ORDER BY user_id LIMIT :limit) u
    JOIN user_senders s ON s.tenant_id = u.tenant_id AND s.user_id = u.user_id
    GROUP BY u.user_id, u.created_at ORDER BY u.user_id
""")
_KNOWN = text(f"""
    SELECT (SELECT count(DISTINCT chat_id) FROM chat_members
            WHERE sender_id = ANY(:ids) AND (:everywhere OR chat_id = ANY(:chats))) AS chats,
        (SELECT count(*) FROM memories m WHERE scope = 'user' AND user_id = ANY(:ids) AND type <> 'document'
            AND {learned_visibly("m")}) AS memories
""")
_IS_NAMED = text("""
    SELECT EXISTS (SELECT 1 FROM chat_members WHERE sender_id = :id)
        OR EXISTS (SELECT 1 FROM user_senders WHERE sender_id = :id OR user_id = :id)
        OR EXISTS (SELECT 1 FROM memories WHERE scope = 'user' AND user_id = :id)
        OR EXISTS (SELECT 1 FROM memories WHERE promoted_from = :id)
        OR EXISTS (SELECT 1 FROM pruned_senders WHERE sender_id = :id)
""")
_SEEN = """
    SELECT sender_id FROM chat_members WHERE sender_id <> '' UNION
    SELECT sender_id FROM user_senders UNION SELECT user_id FROM users
"""
_SOME_SEEN = text(f"{_SEEN} LIMIT :limit")
# a bot is not a member, and a memory may be about a person who never wrote
_OF_ALL = text(f"""
    {_SEEN} UNION SELECT sender_id FROM messages
    UNION SELECT user_id FROM memories WHERE user_id IS NOT NULL
""")


def user_of(connection: Connection, any_id: str) -> str:
    """Return the user that a sender or a merged user belongs to; without a link, the id itself."""
    return next(iter(column(connection, _USER_OF, id=any_id)), any_id)


def ids_of(connection: Connection, any_id: str) -> list[str]:
    """Return every id of the person that has one of them: the user's own first, then the linked ones."""
    user = user_of(connection, any_id)
    return [user, *column(connection, _IDS_OF, user=user)]


def shown_with(connection: Connection, any_id: str) -> Row[Any] | None:
    """Return `(user_id, shown_at)` of the id that the platform has shown beside this one, and that it is linked to."""
    return run(connection, _SHOWN_WITH, id=any_id).one_or_none()


def move(
    connection: Connection, tenant_id: str, ids: Sequence[str], user: str, shown: datetime | None = None
) -> None:
    """Link ids to a user, wherever they were linked before, `shown` by the platform; delete users without any."""
    values = {"tenant": tenant_id, "ids": ids, "user": user, "shown": shown}
    before = column(connection, _USERS_OF, **values)
    chats.ensure_tenant(connection, tenant_id)
    run(connection, _ENSURE_USER, **values)
    run(connection, _MOVE, **values)
    _drop_empty(connection, [*before, *ids])


def unlink(connection: Connection, sender_id: str) -> None:
    """Unlink a sender, who is their own user again."""
    _drop_empty(connection, column(connection, _UNLINK, id=sender_id))


def _drop_empty(connection: Connection, users: Sequence[str]) -> None:
    run(connection, _DROP_EMPTY, users=users)


def forget(connection: Connection, ids: Sequence[str]) -> int:
    """Delete a person with all their links, by all their ids; return how many rows that took."""
    return run(connection, _FORGET_LINKS, ids=ids).rowcount + run(connection, _FORGET_USERS, ids=ids).rowcount


def listing(connection: Connection, after: str, limit: int) -> Sequence[Row[Any]]:
    """Return users with linked senders and ids after `after`, in order: `(user_id, created_at, senders)`."""
    return run(connection, _LISTING, after=after, limit=limit).all()


def known(connection: Connection, ids: Sequence[str], visible: Visible) -> Row[Any]:
    """Count the `chats` and `memories` of a person that may be shown in a place."""
    return run(connection, _KNOWN, ids=ids, **visible.parameters()).one()


SEEN = 20_000
"""Ids that a misspelt one is compared with."""


def is_named(connection: Connection, any_id: str) -> bool:
    """Tell whether an id has written as a user, was named or linked, or has or had a memory."""
    return holds(connection, _IS_NAMED, id=any_id)


def has_written(connection: Connection, sender_id: str) -> bool:
    """Tell whether a sender has a message; reads all messages of the tenant if not."""
    return holds(connection, "SELECT EXISTS (SELECT 1 FROM messages WHERE sender_id = :id)", id=sender_id)


def some_seen(connection: Connection) -> list[str]:
    """Return ids of senders and users, up to `SEEN`."""
    return column(connection, _SOME_SEEN, limit=SEEN)


def of_all(connection: Connection) -> list[str]:
    """Return every id of a sender or user with stored data; reads all messages."""
    return column(connection, _OF_ALL)


_IDS_TO_EXPORT = {
    "message": text("SELECT id FROM messages WHERE sender_id = :sender AND chat_id = :chat ORDER BY id"),
    "memory": text(f"SELECT id FROM memories WHERE {OF_PERSON} ORDER BY id"),
    # also those that retention has pruned since
    "session": text(f"""
        SELECT id FROM conversation_sessions WHERE id IN (
            SELECT session.id FROM {IN_SESSIONS} AND m.sender_id = ANY(:senders)
            UNION SELECT session_id FROM pruned_senders WHERE sender_id = ANY(:senders))
        ORDER BY started_at, id
    """),
    "query": text(
        "SELECT context_id FROM query_log WHERE user_id = ANY(:senders) ORDER BY asked_at, context_id"
    ),
}
_TO_EXPORT = {
    "message": text(f"""
        SELECT id, chat_id, external_id, sender_id, sender_name, role, content, sent_at, received_at, edited_at,
            CASE WHEN starts_with(session_key, '{THREAD}') THEN '' ELSE session_key END AS session_key,
            agent_id, reply_to, thread, metadata
        FROM messages WHERE id = ANY(:ids) ORDER BY id
    """),
    "memory": text("""
        SELECT id, scope, type, content, importance, source, learned_in, created_at, expires_at, document_id,
            chunk_index, metadata
        FROM memories WHERE id = ANY(:ids) ORDER BY id
    """),
    "session": text("""
        SELECT id, chat_id, session_key, started_at, ended_at, message_count, status, summary_text, topic_tags,
            decisions, open_questions, action_items
        FROM conversation_sessions WHERE id = ANY(:ids) ORDER BY started_at, id
    """),
    "query": text("""
        SELECT context_id, chat_id, user_id, asked_at, query, answer, answered_at FROM query_log
        WHERE context_id = ANY(:ids) ORDER BY asked_at, context_id
    """),
    "rollup": text("""
        SELECT id, chat_id, week, summary_text, topic_tags, decisions, open_questions, action_items FROM rollups
        WHERE session_ids && CAST(:sessions AS bigint[]) ORDER BY chat_id, week
    """),
    # with every name of theirs and the memories that name them
    "entity": text("""
        SELECT user_id, 'person' AS kind, array_agg(DISTINCT name ORDER BY name) AS names,
            array_agg(DISTINCT memory_id ORDER BY memory_id) AS named_in
        FROM memory_entities WHERE user_id = ANY(:senders) GROUP BY user_id ORDER BY user_id
    """),
}


def ids_to_export(connection: Connection, record: str, **whose: Any) -> list[Any]:
    """Return the ids of a person's records of a kind, in order: by `senders`, of messages by `sender` and `chat`."""
    return column(connection, _IDS_TO_EXPORT[record], **whose)


def to_export(connection: Connection, record: str, **which: Any) -> list[dict[str, Any]]:
    """Return records of a kind as they are exported: by `ids`, rollups by `sessions` and entities by `senders`."""
    return [{"record": record, **row._mapping} for row in run(connection, _TO_EXPORT[record], **which)]
