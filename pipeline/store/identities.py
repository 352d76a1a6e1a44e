"""SQL of users: which senders are one person, and since when.

A user's id is never linked itself, so that one look at `user_senders` tells whose a sender is.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from pipeline.store import tenants

_USER_OF = text("SELECT user_id FROM user_senders WHERE sender_id = :id")
_IDS_OF = text("SELECT sender_id FROM user_senders WHERE user_id = :user ORDER BY sender_id")
_USERS_OF = text("SELECT DISTINCT user_id FROM user_senders WHERE sender_id = ANY(:ids)")
_CREATE_USER = text("INSERT INTO users (tenant_id, user_id) VALUES (:tenant, :user) ON CONFLICT DO NOTHING")
_UNLINK = text("DELETE FROM user_senders WHERE sender_id = :id RETURNING user_id")
_DELETE_LINKS = text("DELETE FROM user_senders WHERE sender_id = ANY(:ids) OR user_id = ANY(:ids)")
_DELETE_PERSON = text("DELETE FROM users WHERE user_id = ANY(:ids)")
_HAS_WRITTEN = text("SELECT EXISTS (SELECT 1 FROM messages WHERE sender_id = :id)")


def user_of(connection: Connection, any_id: str) -> str:
    """The user whom a sender or a merged user belongs to; whoever is linked to nobody is their own."""
    found = connection.scalar(_USER_OF, {"id": any_id})
    return str(found) if found is not None else any_id


def ids_of(connection: Connection, any_id: str) -> list[str]:
    """Every id of the person that one of them belongs to: the user's own first, then the linked ones."""
    user = user_of(connection, any_id)
    linked = connection.scalars(_IDS_OF, {"user": user})
    return [user, *linked]


_MOVE = text("""
    INSERT INTO user_senders (tenant_id, sender_id, user_id)
    SELECT :tenant, id, :user FROM unnest(CAST(:ids AS text[])) AS id ORDER BY id
    ON CONFLICT (tenant_id, sender_id) DO UPDATE SET user_id = excluded.user_id, linked_at = now()
""")


def move(connection: Connection, tenant_id: str, ids: Sequence[str], user: str) -> None:
    """Link these ids to a user, wherever they were linked before; users that nobody is left of go."""
    given = {"tenant": tenant_id, "ids": list(ids), "user": user}
    before = connection.scalars(_USERS_OF, given).all()
    tenants.ensure(connection, tenant_id)
    connection.execute(_CREATE_USER, given)
    connection.execute(_MOVE, given)
    _drop_empty(connection, [*before, *ids])


def unlink(connection: Connection, sender_id: str) -> None:
    """Let a sender be their own user again."""
    before = connection.scalars(_UNLINK, {"id": sender_id}).all()
    _drop_empty(connection, before)


_DROP_EMPTY = text("""
    DELETE FROM users u WHERE user_id = ANY(:users) AND NOT EXISTS (
        SELECT 1 FROM user_senders s WHERE s.tenant_id = u.tenant_id AND s.user_id = u.user_id)
""")


def _drop_empty(connection: Connection, users: Sequence[str]) -> None:
    connection.execute(_DROP_EMPTY, {"users": list(users)})


def forget(connection: Connection, ids: Sequence[str]) -> int:
    """Delete a person with all their links, by all their ids; how many rows that took."""
    given = {"ids": list(ids)}
    links = connection.execute(_DELETE_LINKS, given).rowcount
    return links + connection.execute(_DELETE_PERSON, given).rowcount


_LISTING = text("""
    SELECT u.user_id, u.created_at, array_agg(s.sender_id ORDER BY s.sender_id) AS senders
    FROM (SELECT * FROM users WHERE user_id > :after ORDER BY user_id LIMIT :limit) u
    JOIN user_senders s ON s.tenant_id = u.tenant_id AND s.user_id = u.user_id
    GROUP BY u.user_id, u.created_at ORDER BY u.user_id
""")


def listing(connection: Connection, after: str, limit: int) -> Sequence[Row[Any]]:
    """Users with linked senders and ids after `after`, in their order: `(user_id, created_at, senders)`."""
    return connection.execute(_LISTING, {"after": after, "limit": limit}).all()


_KNOWN = text("""
    SELECT (SELECT count(DISTINCT chat_id) FROM chat_members WHERE sender_id = ANY(:ids)) AS chats,
        (SELECT count(*) FROM memories WHERE scope = 'user' AND user_id = ANY(:ids)) AS memories
""")


def known(connection: Connection, ids: Sequence[str]) -> Row[Any]:
    """How much there is of a person: a row of `chats` and `memories`."""
    return connection.execute(_KNOWN, {"ids": list(ids)}).one()


SEEN = 20_000
"""Ids that a misspelt one is compared with."""


_IS_NAMED = text("""
    SELECT EXISTS (SELECT 1 FROM chat_members WHERE sender_id = :id)
        OR EXISTS (SELECT 1 FROM user_senders WHERE sender_id = :id OR user_id = :id)
        OR EXISTS (SELECT 1 FROM memories WHERE scope = 'user' AND user_id = :id)
""")


def is_named(connection: Connection, any_id: str) -> bool:
    """Whether somebody of this id has spoken as a user, was named or linked, or is known by a memory."""
    return bool(connection.execute(_IS_NAMED, {"id": any_id}).scalar_one())


def has_written(connection: Connection, sender_id: str) -> bool:
    """Whether there is a message of this sender; reads all messages of the tenant where there is none."""
    return bool(connection.execute(_HAS_WRITTEN, {"id": sender_id}).scalar_one())


_SOME_SEEN = text("""
    SELECT sender_id FROM chat_members WHERE sender_id <> '' UNION
    SELECT sender_id FROM user_senders UNION SELECT user_id FROM users
    LIMIT :limit
""")


def some_seen(connection: Connection) -> list[str]:
    """Ids of senders and users, at most `SEEN`."""
    return list(connection.scalars(_SOME_SEEN, {"limit": SEEN}))
