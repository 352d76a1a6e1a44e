"""Set and show the members of a chat, who need not have spoken."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from pipeline.people import suppression
from pipeline.store.chats import chats
from pipeline.store.chats import membership as store
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_list
from schemas.errors import NotFound
from schemas.messages import ChatIn
from schemas.people.users import Members


def set_members(database: Database, tenant_id: str, chat_id: str, senders: Sequence[str]) -> Members:
    """Set the members of a chat; later speakers are added, and people whose memory is off stay unnamed.

    A chat that was kept apart is no longer, if the database serves all chats (`visibility`).
    Raises `NotFound`, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, chat_id, exclusive=True)
        chat = chats.get(connection, chat_id)
        chats.require_unmoved(chat)
        if chat is None:
            raise _unknown(chat_id)
        hidden = suppression.unremembered(connection, senders)
        named = sorted({store.UNKNOWN if sender in hidden else sender for sender in senders})
        store.replace(connection, tenant_id, chat_id, named)
        if not database.only_chats:
            store.rejoin(connection, chat_id)
    return show(database, tenant_id, chat_id)


def change(
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
        named = {store.UNKNOWN if sender in hidden else sender for sender in joined if sender not in stopped}
        store.add(connection, tenant_id, chat.chat_id, sorted(named))
        left_at = at or chats.database_now(connection)
        store.remove(connection, chat.chat_id, left, left_at)
        suppression.put_left(connection, tenant_id, chat.chat_id, left, left_at)


def show(database: Database, tenant_id: str, chat_id: str) -> Members:
    """Return the members of a chat: those who have spoken or were named. Raises `NotFound`, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        chat = chats.get_current(connection, chat_id)
        if chat is None:
            raise _unknown(chat_id)
        members = store.of_chat(connection, chat.chat_id)
        apart = store.is_apart(connection, chat.chat_id)
        names = defaultdict[str, list[str]](list)
        for row in store.names(connection, chat.chat_id):
            if row.sender_name:
                names[row.sender_id].append(row.sender_name)
    named = [member for member in members if member != store.UNKNOWN]
    unnamed = len(named) < len(members)
    return Members(chat_id=chat.chat_id, members=named, names=names, unnamed=unnamed, apart=apart)


def _unknown(chat_id: str) -> NotFound:
    return NotFound(f"there is no chat {chat_id}: see `backscroll chats`")
