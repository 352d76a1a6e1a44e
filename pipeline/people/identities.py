"""Link the senders that are one person, and set the members of a chat, who need not have spoken.

A sender without links is their own user, by the sender's id. Linking rewrites nothing: memories, messages and
suppression keep the id that they came under, and a query for a person asks for all their ids. So unlinking separates
exactly what linking has joined.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Connection

from pipeline.people import suppression
from pipeline.store import identities as store
from pipeline.store.chats import chats, membership
from pipeline.store.chats.membership import EVERYWHERE, Visible
from pipeline.store.connections.database import Database
from pipeline.store.erasure import erasure
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.numbers import of_chat
from schemas.errors import InvalidInput
from schemas.messages import ChatIn
from schemas.people import Members, User

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


@dataclass(frozen=True, kw_only=True)
class ShownTogether:
    """What it means that a platform shows two ids together."""

    # they are one person's; not if somebody has unlinked them, or linked them to different people
    joined: bool
    # the number that the person was shown with before, which may be somebody else's by now
    former: str | None = None


def link_shown(
    database: Database, tenant_id: str, other: str, any_id: str, at: datetime | None
) -> ShownTogether:
    """Link a second id to the one that a platform showed with it at a time (None: now).

    Raises `InvalidInput` as `link` does, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        if store.user_of(connection, other) == store.user_of(connection, any_id):
            # most often so, as each message shows both
            return ShownTogether(joined=True)
        suppression_list.lock(connection, tenant_id, exclusive=True)
        at = at or chats.clock(connection)
        ids = [store.ids_of(connection, each) for each in (other, any_id)]
        if suppression.are_apart(connection, *ids):
            return ShownTogether(joined=False)
        before = store.shown_with(connection, other)
        if before is not None and before.user_id not in ids[1]:
            return ShownTogether(joined=False, former=before.user_id if before.shown_at < at else None)
        unite(connection, tenant_id, other, any_id, at)
        return ShownTogether(joined=store.user_of(connection, other) == store.user_of(connection, any_id))


def merge(database: Database, tenant_id: str, user_id: str, into: str) -> Linked:
    """Merge a user with all their senders into another; the old id still names the person. Raises as `link` does."""
    return _join(database, tenant_id, user_id, into, "merged")


def _join(
    database: Database, tenant_id: str, any_id: str, into: str, outcome: Literal["linked", "merged"]
) -> Linked:
    with database.tenant(tenant_id) as connection:
        user, former = store.user_of(connection, into), store.user_of(connection, any_id)
        if former == user:
            # most often so, where a platform shows two ids with each message
            return Linked(outcome="unchanged", user=_user(connection, user))
        suppression_list.lock(connection, tenant_id, exclusive=True)
        user, former = store.user_of(connection, into), store.user_of(connection, any_id)
        if former == user:
            return Linked(outcome="unchanged", user=_user(connection, user))
        whole = outcome == "merged" or former == any_id
        moving = store.ids_of(connection, former) if whole else [any_id]
        there = store.ids_of(connection, user)
        suppression.set_apart(connection, tenant_id, moving, there, apart=False)
        _move(connection, tenant_id, moving, user)
        return Linked(outcome=outcome, user=_user(connection, user))


def unite(
    connection: Connection, tenant_id: str, sender_id: str, other: str, shown: datetime | None = None
) -> None:
    """Link two ids that mean one person, unless somebody has linked both to different users.

    Call it under the exclusive lock of the tenant's suppression list. Raises `InvalidInput` as `link` does.
    """
    user, linked = store.user_of(connection, sender_id), store.user_of(connection, other)
    if user == linked or (user != sender_id and linked != other):
        return
    # a user whom somebody has linked keeps their id
    into, moving = (linked, user) if user == sender_id else (user, linked)
    _move(connection, tenant_id, store.ids_of(connection, moving), into, shown)


def unlink(database: Database, tenant_id: str, sender_id: str, user_id: str | None = None) -> Linked:
    """Make a sender their own user again, with what was learned under their id; with `user_id`, only if it is theirs.

    A platform that shows the ids together does not link them again, and what the sender writes directly is in a chat of
    its own again.
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
        others = [other for other in store.ids_of(connection, user) if other != sender_id]
        suppression.set_apart(connection, tenant_id, [sender_id], others, apart=True)
        for chat_id in chats.direct_with(connection, sender_id):
            chat = chats.get(connection, chat_id)
            if chat is not None and chat.moved_to is not None and of_chat(chat.moved_to)[0] in others:
                erasure.delete_chat(connection, tenant_id, chat_id)
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


def _move(
    connection: Connection, tenant_id: str, ids: list[str], user: str, shown: datetime | None = None
) -> None:
    there = store.ids_of(connection, user)
    if len(there) + len(ids) > MAX_IDS:
        raise InvalidInput(
            f"{user} would have {len(there) + len(ids)} ids; one person may have {MAX_IDS}", field="user_id"
        )
    store.move(connection, tenant_id, ids, user, shown)
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


def set_members(database: Database, tenant_id: str, chat_id: str, senders: Sequence[str]) -> Members:
    """Set the members of a chat, whom others have left; later speakers are added, people without memory stay unnamed.

    A chat that was kept apart is no longer, if the database serves all chats (`visibility`).
    Raises `NotFound`, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, chat_id, exclusive=True)
        chat = chats.get(connection, chat_id)
        chats.require_unmoved(chat)
        if chat is None:
            raise chats.unknown(chat_id)
        hidden = suppression.unremembered(connection, senders)
        named = sorted({membership.UNKNOWN if sender in hidden else sender for sender in senders})
        before, now = membership.of_chat(connection, chat_id), chats.database_now(connection)
        membership.replace(connection, tenant_id, chat_id, named)
        _note_left(connection, tenant_id, chat_id, {*before} - {*senders, membership.UNKNOWN}, now)
        told = membership.changes(connection, chat_id, now - timedelta(days=membership.CHANGES_DAYS), now)
        back = [sender for sender in named if not told.get(sender, True)]
        membership.note_changes(connection, tenant_id, chat_id, back, now, joined=True)
        if not database.only_chats:
            membership.rejoin(connection, chat_id)
    return show_members(database, tenant_id, chat_id)


def change_members(
    database: Database,
    tenant_id: str,
    chat_id: str,
    joined: Sequence[str],
    left: Sequence[str],
    at: datetime | None,
) -> None:
    """Add members to a chat and remove others, as of a time (None: now); those who have spoken since then stay.

    Senders who were forgotten or have left since then, or whose chat was forgotten, are not added; those whose memory
    is off stay unnamed. Raises `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, chat_id, exclusive=True)
        chat = chats.get_current(connection, chat_id)
        if chat is None:
            if suppression.is_kept_out(connection, at, ("chat", chat_id)):
                return
            chat = chats.ensure(connection, tenant_id, ChatIn(chat_id=chat_id))
        elif chat.chat_id != chat_id:
            suppression_list.lock(connection, tenant_id, chat.chat_id, exclusive=True)
        hidden = suppression.unremembered(connection, joined)
        stopped = {
            sender
            for sender in joined
            if suppression.is_kept_out(connection, at, ("user", sender), ("tenant",))
        }
        if at is None:
            # a forgotten sender may have joined since: they are added unnamed
            hidden, stopped = hidden | stopped, set()
        else:
            stopped |= {
                sender
                for sender in joined
                if suppression.is_kept_out(connection, at, ("left", chat.chat_id, sender))
            }
        named = {
            membership.UNKNOWN if sender in hidden else sender for sender in joined if sender not in stopped
        }
        membership.add(connection, tenant_id, chat.chat_id, sorted(named))
        left_at = at or chats.database_now(connection)
        membership.remove(connection, chat.chat_id, left, left_at)
        came = sorted(named - {membership.UNKNOWN})
        membership.note_changes(connection, tenant_id, chat.chat_id, came, left_at, joined=True)
        _note_left(connection, tenant_id, chat.chat_id, left, left_at)


def _note_left(
    connection: Connection, tenant_id: str, chat_id: str, left: Collection[str], at: datetime
) -> None:
    """Note who has left a chat, by name only who may be named."""
    suppression.put_left(connection, tenant_id, chat_id, sorted(left), at)
    gone = [
        sender
        for sender in sorted({*left} - suppression.unremembered(connection, left))
        if not suppression.is_kept_out(connection, at, ("user", sender))
    ]
    membership.note_changes(connection, tenant_id, chat_id, gone, at, joined=False)


def set_moderators(
    database: Database, tenant_id: str, chat_id: str, people: Sequence[str], former: Sequence[str] | None
) -> None:
    """Note which members of a chat may delete what others wrote, and which may not any more (None: all others)."""
    with database.tenant(tenant_id) as connection:
        if (chat := chats.get_current(connection, chat_id)) is not None:
            membership.set_moderators(connection, chat.chat_id, people, former)


def show_members(database: Database, tenant_id: str, chat_id: str) -> Members:
    """Return the members of a chat: those who have spoken or were named. Raises `NotFound`, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        chat = chats.require_current(connection, chat_id)
        members = membership.of_chat(connection, chat.chat_id)
        apart = membership.is_apart(connection, chat.chat_id)
        names = defaultdict[str, list[str]](list)
        for row in membership.names(connection, chat.chat_id):
            if row.sender_name:
                names[row.sender_id].append(row.sender_name)
    named = [member for member in members if member != membership.UNKNOWN]
    unnamed = len(named) < len(members)
    return Members(chat_id=chat.chat_id, members=named, names=names, unnamed=unnamed, apart=apart)
