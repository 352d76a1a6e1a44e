"""Tell people apart who share an id only because they share a name: give them an id in each of their chats.

Imports by older versions made everybody of one name one person. Chat by chat, in small transactions, their messages get
the id that they would have today, and finally the derived data does. That last step removes the former id from the
chat's members, so that the next run resumes an interrupted one. Links, forgettings and switched-off memory stay.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from sqlalchemy import Connection

from pipeline.ingest import chat_moves
from pipeline.memories.belief_revision import revise
from pipeline.memories.fact_owners import FactOwner
from pipeline.people import identities, suppression
from pipeline.platforms.identity import PREFIX
from pipeline.platforms.whatsapp.whatsapp_ids import sender_id
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import persistently
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.jobs import jobs, outdated
from pipeline.store.memories import learned
from pipeline.store.memories.memory_ids import new_id
from pipeline.store.people import identities as stored_identities
from pipeline.store.people import names as store
from schemas.base import Frozen

MESSAGES_AT_ONCE = 500
"""Messages renamed in one transaction: about 0.3 s, during which their chat accepts none."""


class NameInChat(Frozen):
    """Somebody known by name, in one chat."""

    chat_id: str
    sender_id: str
    """Their present or future id there."""
    messages: int


class OneByName(Frozen):
    """An id shared by everybody of one name, whatever the chat."""

    sender_id: str
    user_id: str | None
    """The user it was linked to by hand: all stay this one person. None: it was not linked."""
    chats: list[NameInChat]
    elsewhere: bool
    """Whether a bot uses it in other chats, too."""
    memories: int
    """Their memories; after several people were told apart, those learned in none of the chats."""


def to_tell_apart(database: Database, tenant_id: str) -> list[OneByName]:
    """Return everybody who is one by name only. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        by_sender: dict[str, list[store.Member]] = defaultdict(list)
        members = store.members(connection, PREFIX)
        for member in members:
            by_sender[member.sender_id].append(member)
        there = {(member.chat_id, member.sender_id) for member in members}
        return [
            OneByName(
                sender_id=old,
                user_id=_linked_to(connection, old),
                chats=chats_of,
                elsewhere=len(chats_of) < len(memberships),
                memories=store.memories_left(connection, old),
            )
            for old, memberships in by_sender.items()
            if (chats_of := list(_chats(memberships, there)))
        ]


def _chats(members: list[store.Member], there: set[tuple[str, str]]) -> Iterator[NameInChat]:
    """Yield the chats in which an id is only a name."""
    news = {m.chat_id: sender_id(m.chat_id, m.sender_id.removeprefix(store.BEFORE)) for m in members}
    # an interrupted run has already added the new id
    named = [m for m in members if m.by_name or (not m.others and (m.chat_id, news[m.chat_id]) in there)]
    for member in members if named else ():
        if member in named or not member.others:
            yield NameInChat(chat_id=member.chat_id, sender_id=news[member.chat_id], messages=member.by_name)


def _linked_to(connection: Connection, sender_id: str) -> str | None:
    user, *linked = stored_identities.ids_of(connection, sender_id)
    return user if linked else None


def tell_apart(database: Database, tenant_id: str, one: OneByName) -> int:
    """Give somebody an id in each chat; return how many memories stay, as nobody can tell whose they are.

    Raises `Busy` while something is forgotten or moved, and as `Database.tenant` does; the same call may be made again.
    """
    with database.tenant(tenant_id) as connection:
        chat_moves.require_idle(connection)
    for chat in one.chats:
        step = _Step(tenant_id, one.sender_id, chat, alone=len(one.chats) == 1 and not one.elsewhere)
        while persistently(partial(step.run, database)):
            pass
    with database.tenant(tenant_id) as connection:
        return store.memories_left(connection, one.sender_id)


@dataclass(frozen=True)
class _Step:
    """Renames one id in one chat, step by step."""

    tenant_id: str
    old: str
    chat: NameInChat
    # whether the id is in no other chat
    alone: bool

    def run(self, database: Database) -> bool:
        """Rename some messages, or, when none is left, their derived data; return whether messages may be left."""
        chat_id, new = self.chat.chat_id, self.chat.sender_id
        with database.tenant(self.tenant_id) as connection:
            # blocks linking, forgetting and switching memory off meanwhile
            suppression_list.lock(connection, self.tenant_id, exclusive=True)
            if chats.lock_exclusively(connection, chat_id) is None:
                return False
            if store.rename_messages(
                connection, self.tenant_id, chat_id, self.old, new, derived=PREFIX, limit=MESSAGES_AT_ONCE
            ):
                return True
            suppression.carry_over(connection, self.tenant_id, self.old, new)
            identities.link_new_id(connection, self.tenant_id, self.old, new)
            self._memories(connection)
            # a running job has read the former id
            outdated.fence(connection, self.tenant_id, store.rename_made(connection, chat_id, self.old, new))
        return False

    def _memories(self, connection: Connection) -> None:
        chat_id, old, new = self.chat.chat_id, self.old, self.chat.sender_id
        learned.lock_owner(connection, self.tenant_id, stored_identities.user_of(connection, old))
        split: list[UUID] = []
        copies: list[UUID] = []
        for row in store.memories(connection, chat_id, old, alone=self.alone):
            if set(row.chats) <= {chat_id}:
                store.give(connection, row.id, new)
                continue
            copy = new_id()
            store.split(connection, row.id, copy, chat_id, new)
            jobs.enqueue(connection, self.tenant_id, "embed", [f"memory:{copy}"], lane=chat_id)
            if row.learned_by:
                split.append(row.id)
                copies.append(copy)
        store.rename_entities(connection, chat_id, old, new)
        store.give_promoted(connection, chat_id, old, new, alone=self.alone)
        if stored_identities.user_of(connection, old) != stored_identities.user_of(connection, new):
            store.drop_supersessions(connection, old, new)
        for owner, again in ((old, split), (new, copies)):
            if again:
                revise(connection, self.tenant_id, FactOwner(scope="user", user_id=owner), again=again)
