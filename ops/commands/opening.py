"""What every command that works on data begins with: the database, and the chat that is meant."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops import connection
from schemas.errors import NotFound
from schemas.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from pipeline.store.chats import Chat
    from pipeline.store.database import Database

UnseenOption = Annotated[
    bool, typer.Option("--unseen", help="Also for an id that was never seen, of somebody still to come.")
]


@contextmanager
def opened(data_dir: Path | None, tenant: str | None) -> "Iterator[tuple[Settings, Database]]":
    """The settings and a checked database, closed at the end. Raises as `ops.connection` does."""
    settings = connection.open_stack(data_dir, tenant)
    database = connection.open_database(settings)
    try:
        yield settings, database
    finally:
        database.close()


def find_chat(given_in: "Connection", given: str | None) -> "Chat":
    """The chat of this id; without one, the only chat there is. Raises as `pipeline.operations.lookup.find_chat`
    does."""
    from pipeline.operations import lookup

    return lookup.find_chat(given_in, given)


def find_session(given_in: "Connection", session_id: int) -> "Row[Any]":
    """The session of this number, or the one that it was joined into. Raises `NotFound`."""
    from pipeline.operations import lookup

    return lookup.find_session(given_in, session_id)


def require_seen(look_up: Callable[[], None], *, unseen: bool) -> None:
    """Look something up that is about to be changed, unless it may never have been seen.

    Raises `NotFound`, which says how to do it all the same.
    """
    if unseen:
        return
    try:
        look_up()
    except NotFound as error:
        raise NotFound(f"{error} (for somebody who is still to come: --unseen)") from None
