"""Accepting: in slices, with what is owed and how soon, and beside whoever edits, places or counts."""

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.erasure import edits
from pipeline.ingest import accept as ingest
from pipeline.ingest.accept import Accepted
from pipeline.store.connections.database import Database
from pipeline.store.messages import message_rows
from pipeline.text.fencing import CLOSE, OPEN
from schemas.messages import MAX_POSITION, ChatIn
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.pipeline import rows
from tests.waiting import ended, until

CHAT = ChatIn(chat_id="test:house")


def test_messages_of_one_moment_are_in_the_order_in_which_they_came_unless_something_else_orders_them(
    database: Database,
) -> None:
    for given in (
        [message(0, id="z"), message(0, id="7"), message(0, id="0"), message(0, id="a")],
        [message(0, id="b", position=MAX_POSITION - 1), message(1, id="c"), message(0, id="d")],
        [message(0, id="a"), message(0, id="f")],
        [message(0, id="e")],
    ):
        ingest.accept(database, TENANT, CHAT, given)
    with database.tenant(TENANT) as connection:
        newest = message_rows.recent(connection, CHAT.chat_id, 100)
    assert [said.external_id for said in newest[::-1]] == [*"z07adbfec"]


CALLS = {"tool_calls": [{"name": "now", "args": {}}]}


@pytest.mark.parametrize(
    ("content", "metadata", "stored"),
    [
        ("Hi.", {}, "Hi."),
        # what was called is the text of a turn that has no other
        (" ", CALLS, "[now()]"),
        (" ", {}, " "),
        ("Hi.", CALLS, "Hi."),
        # what was recalled is stored already
        (f"{OPEN}Old.{CLOSE}Hi.", {}, "Hi."),
        ("Hi. " * 20_000, {"mood": "odd"}, None),
    ],
)
def test_a_message_is_stored_as_what_was_said(
    content: str, metadata: dict[str, Any], stored: str | None
) -> None:
    said = message(0).model_copy(update={"content": content, "metadata": metadata})
    ((_, kept),) = ingest._unique([said]).items()
    if stored is None:
        assert kept.content.endswith("… [cut: 80000 bytes]")
        assert kept.metadata == metadata | {"original_bytes": 80_000}
    else:
        assert (kept.content, kept.metadata) == (stored, metadata)


def in_the_background(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def wait_for_a_lock(observer: psycopg.Connection) -> int:
    """The number of the server process that waits for somebody."""
    waiting = "SELECT pid FROM pg_locks WHERE NOT granted"
    found = until(lambda: observer.execute(waiting).fetchone(), "somebody waits for a lock")
    assert found is not None
    return int(found[0])


def test_an_edit_that_comes_while_its_message_is_stored_is_applied(
    database: Database, postgres: EmbeddedPostgres, database_name: str
) -> None:
    ingest.accept(database, TENANT, CHAT, [message(0)])
    with psycopg.connect(postgres.superuser_dsn(database_name)) as editor:
        # Given an edit of a message that has not come, and is not committed
        editor.execute("SELECT 1 FROM chats FOR UPDATE")
        accepting = in_the_background(
            lambda: ingest.accept(database, TENANT, CHAT, [message(1, "old", id="m")])
        )
        with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as observer:
            # When the message comes and waits for the edit
            wait_for_a_lock(observer)
        editor.execute(
            """
            INSERT INTO pending_changes (tenant_id, chat_id, external_id, content, token_count, edited_at)
            VALUES (%s, %s, 'm', 'new', 1, now())
            """,
            [TENANT, CHAT.chat_id],
        )
        editor.commit()
    ended(accepting)
    row = "SELECT content, revision, edited_at IS NOT NULL FROM messages WHERE external_id = 'm'"
    assert rows(database, row) == [("new", 2, True)]
    assert rows(database, "SELECT 1 FROM pending_changes") == []


def test_a_session_is_closed_by_a_message_that_is_there_already(database: Database) -> None:
    said = message(0, session_key="task")
    ingest.accept(database, TENANT, CHAT, [said])
    rows(database, "DELETE FROM jobs")
    again = said.model_copy(update={"closes_session": True})
    accepted = ingest.accept(database, TENANT, CHAT, [again])
    assert (accepted.new, accepted.duplicates) == (0, 1)
    assert rows(database, "SELECT kind, key FROM jobs") == [("ingest", CHAT.chat_id)]
    # and what was stored is counted apart from what was known
    counted = rows(database, "SELECT name, value FROM daily_counters ORDER BY name")
    assert counted == [("messages_accepted", 1), ("messages_known", 1)]


def test_a_first_deletion_elsewhere_while_a_message_is_stored_takes_nothing_from_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a tenant in which nothing was deleted so far, and a message of a new chat
    ingest.accept(database, TENANT, CHAT, [message(8)])
    ensure = ingest.chats.ensure

    def meanwhile(*given: Any) -> Any:
        made = ensure(*given)
        edits.delete(database, TENANT, "test:elsewhere", "m9", SESSION_POLICY)
        return made

    monkeypatch.setattr(ingest.chats, "ensure", meanwhile)
    titled = ChatIn(chat_id="test:titled", title="House")
    assert ingest.accept(database, TENANT, titled, [message(0)]) == Accepted(new=1, duplicates=0)
    assert ingest.accept(database, TENANT, titled, [message(0)]) == Accepted(new=0, duplicates=1)
