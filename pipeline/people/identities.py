"""Link the senders, on one platform or several, that are one person.

A sender without links is their own user, by the sender's id. Linking rewrites nothing: memories, messages and
suppression keep the id that they came under, and a query for a person asks for all their ids. So unlinking separates
exactly what linking has joined.
"""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from pipeline.people import suppression
from pipeline.store.chats.membership import EVERYWHERE, Visible
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.people import identities as store
from schemas.errors import InvalidInput
from schemas.people.users import User

MAX_IDS = 100
"""Ids of one person: every query for them searches all of these."""


@dataclass(frozen=True, kw_only=True)
class Linked:
    """The outcome of a change, and the person as they are now."""

    outcome: Literal["linked", "unlinked", "merged", "unchanged"]
    user: User


def link(database: Database, tenant_id: str, sender_id: str, user_id: str) -> Linked:
    """Link a sender, with all that is linked to them, to a user, whomever they belonged to before.

    Raises `InvalidInput` when the person would have more than `MAX_IDS` ids, `DatabaseUnavailable`.
    """
    return _join(database, tenant_id, sender_id, user_id, "linked")


def merge(database: Database, tenant_id: str, user_id: str, into: str) -> Linked:
    """Merge a user with all their senders into another; the old id still names the person. Raises as `link` does."""
    return _join(database, tenant_id, user_id, into, "merged")


def _join(
    database: Database, tenant_id: str, any_id: str, into: str, outcome: Literal["linked", "merged"]
) -> Linked:
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, exclusive=True)
        user, former = store.user_of(connection, into), store.user_of(connection, any_id)
        if former == user:
            return Linked(outcome="unchanged", user=_user(connection, user))
        whole = outcome == "merged" or former == any_id
        moving = store.ids_of(connection, former) if whole else [any_id]
        _move(connection, tenant_id, moving, user)
        return Linked(outcome=outcome, user=_user(connection, user))


def unite(connection: Connection, tenant_id: str, sender_id: str, other: str) -> None:
    """Link two ids that mean one person, unless somebody has linked both to different users.

    Call it under the exclusive lock of the tenant's suppression list. Raises `InvalidInput` as `link` does.
    """
    user, linked = store.user_of(connection, sender_id), store.user_of(connection, other)
    if user == linked or (user != sender_id and linked != other):
        return
    # a user whom somebody has linked keeps their id
    into, moving = (linked, user) if user == sender_id else (user, linked)
    _move(connection, tenant_id, store.ids_of(connection, moving), into)


def unlink(database: Database, tenant_id: str, sender_id: str, user_id: str | None = None) -> Linked:
    """Make a sender their own user again, with what was learned under their id; with `user_id`, only if it is theirs.

    Raises `InvalidInput` for a user's own id that others are linked to, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, exclusive=True)
        user = store.user_of(connection, sender_id)
        if user_id is not None and store.user_of(connection, user_id) != user:
            return Linked(outcome="unchanged", user=_user(connection, store.user_of(connection, user_id)))
        if user == sender_id:
            linked = store.ids_of(connection, user)[1:]
            if linked:
                raise InvalidInput(
                    f"{sender_id} is the user's own id: unlink the others from it ({', '.join(linked[:5])}"
                    f"{' …' if len(linked) > 5 else ''})",
                    field="sender_id",
                )
            return Linked(outcome="unchanged", user=_user(connection, user))
        store.unlink(connection, sender_id)
        return Linked(outcome="unlinked", user=_user(connection, user))


def show(database: Database, tenant_id: str, any_id: str) -> User:
    """Return the person of a sender or user; an unknown one is their own. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        return person(connection, any_id)


def person(connection: Connection, any_id: str, visible: Visible = EVERYWHERE) -> User:
    """Return the person of a sender or user, as known in a place; an unknown one is their own."""
    return _user(connection, store.user_of(connection, any_id), visible)


def listing(database: Database, tenant_id: str, *, after: str = "", limit: int = 100) -> list[User]:
    """List the users that have linked senders, by id, from after `after`. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        rows = store.listing(connection, after, limit)
        return [_user(connection, row.user_id) for row in rows]


def _move(connection: Connection, tenant_id: str, ids: list[str], user: str) -> None:
    there = store.ids_of(connection, user)
    if len(there) + len(ids) > MAX_IDS:
        raise InvalidInput(
            f"{user} would have {len(there) + len(ids)} ids; one person may have {MAX_IDS}", field="user_id"
        )
    store.move(connection, tenant_id, ids, user)
    everyone = [*there, *ids]
    # memory that is off for one id is off for all of them
    if suppression.unremembered(connection, everyone):
        suppression.put_unremembered(connection, tenant_id, everyone)


def _user(connection: Connection, user: str, visible: Visible = EVERYWHERE) -> User:
    ids = store.ids_of(connection, user)
    counts = store.known(connection, ids, visible)
    return User(
        user_id=user,
        senders=ids[1:],
        chats=counts.chats,
        memories=counts.memories,
        remembered=not suppression.unremembered(connection, ids),
    )
