"""Set and show who is in a chat, where not everybody has spoken."""

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
    """Set the senders that are in a chat, until others speak there; who is not to be remembered is not named.

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
    return show(database, tenant_id, chat_id)


def change(
    database: Database,
    tenant_id: str,
    chat_id: str,
    joined: Sequence[str],
    left: Sequence[str],
    at: datetime | None,
) -> None:
    """Add senders to a chat and remove others, as of a time (None: now); who has spoken there since then stays.

    Who was forgotten or has left since then, or whose chat was forgotten, is not added, and who is not to be remembered
    is not named. Raises `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        suppression_list.lock(connection, tenant_id, chat_id, exclusive=True)
        chat = chats.get_current(connection, chat_id)
        if chat is None:
            if suppression.stopped(connection, at, ("chat", chat_id)):
                return
            chat = chats.ensure(connection, tenant_id, ChatIn(chat_id=chat_id))
        elif chat.chat_id != chat_id:
            suppression_list.lock(connection, tenant_id, chat.chat_id, exclusive=True)
        hidden = suppression.unremembered(connection, joined)
        stopped = {
            sender for sender in joined if suppression.stopped(connection, at, ("user", sender), ("tenant",))
        }
        if at is None:
            # they may be there, or were before they were forgotten
            hidden, stopped = hidden | stopped, set()
        else:
            stopped |= {
                sender
                for sender in joined
                if suppression.stopped(connection, at, ("left", chat.chat_id, sender))
            }
        named = {store.UNKNOWN if sender in hidden else sender for sender in joined if sender not in stopped}
        store.add(connection, tenant_id, chat.chat_id, sorted(named))
        left_at = at or chats.database_now(connection)
        store.remove(connection, chat.chat_id, left, left_at)
        suppression.put_left(connection, tenant_id, chat.chat_id, left, left_at)


def show(database: Database, tenant_id: str, chat_id: str) -> Members:
    """Return who is in a chat: who has spoken or was named. Raises `NotFound`, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        chat = chats.get_current(connection, chat_id)
        if chat is None:
            raise _unknown(chat_id)
        members = store.of_chat(connection, chat.chat_id)
        names = defaultdict[str, list[str]](list)
        for row in store.names(connection, chat.chat_id):
            if row.sender_name:
                names[row.sender_id].append(row.sender_name)
    named = [member for member in members if member != store.UNKNOWN]
    return Members(chat_id=chat.chat_id, members=named, names=names, unnamed=len(named) < len(members))


def _unknown(chat_id: str) -> NotFound:
    return NotFound(f"there is no chat {chat_id}: see `backscroll chats`")
