"""What every command that works on data begins with: the database, and the chat that is meant."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row

from ops import connection
from pipeline.store import chats, sessions
from pipeline.store.chats import Chat
from schemas.errors import InvalidInput, NotFound
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.store.database import Database

SUGGESTIONS = 3


@contextmanager
def opened(data_dir: Path | None, tenant: str | None) -> "Iterator[tuple[Settings, Database]]":
    """The settings and a checked database, closed at the end. Raises as `ops.connection` does."""
    settings = connection.open_stack(data_dir, tenant)
    database = connection.open_database(settings)
    try:
        yield settings, database
    finally:
        database.close()


def find_chat(given_in: Connection, given: str | None) -> Chat:
    """The chat of this id; without one, the only chat there is.

    Raises `NotFound` that names the chats that are alike, and `InvalidInput` when there are several to
    choose from.
    """
    found = chats.followed(given_in, given) if given is not None else None
    if found is not None:
        return found
    known = {row.chat_id: row.title for row in chats.overview(given_in)}
    if not known:
        raise NotFound("there is no chat yet: bring one in with `backscroll import`, or send messages")
    if given is None and len(known) == 1:
        only = chats.get(given_in, next(iter(known)))
        if only is not None:
            return only
    if given is None:
        some = ", ".join(list(known)[:5]) + (" …" if len(known) > 5 else "")
        raise InvalidInput(f"there are {len(known)} chats, say which one: --chat ID ({some})", field="chat")
    alike = close_matches(given, known)
    hint = f"did you mean {' or '.join(alike)}?" if alike else "see `backscroll chats`"
    raise NotFound(f"there is no chat {given}; {hint}")


def find_session(given_in: Connection, session_id: int) -> Row[Any]:
    """The session of this number, or the one that it was joined into. Raises `NotFound`."""
    found = sessions.find(given_in, session_id) if abs(session_id) < 2**63 else None
    if found is None:
        latest = sessions.listing(given_in, None, limit=1)
        hint = f"the latest is {latest[0].id}; " if latest else "there is none yet; "
        raise NotFound(f"there is no session {session_id}: {hint}see `backscroll sessions`")
    return found


def close_matches(given: str, known: dict[str, str]) -> list[str]:
    """Chats, by id and title, whose id or title is like what was given: the most alike first.

    >>> close_matches("telegram:100420", {"telegram:-100420": "Harbour House", "slack:C1": "general"})
    ['telegram:-100420 (Harbour House)']
    """
    wanted = given.casefold()

    def likeness(chat_id: str, title: str) -> float:
        names = [chat_id, chat_id.partition(":")[2], title]
        return max(difflib.SequenceMatcher(None, wanted, name.casefold()).ratio() for name in names if name)

    ranked = sorted(((likeness(*item), item) for item in known.items()), reverse=True)
    near = [item for score, item in ranked if score >= 0.6][:SUGGESTIONS]
    return [f"{chat_id} ({title})" if title else chat_id for chat_id, title in near]
