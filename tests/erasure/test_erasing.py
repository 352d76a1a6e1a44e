"""Erasing at size: it looks things up by an index, locks what it must and no more, and is finished by somebody."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import Connection, event, text

from pipeline.erasure import derived, edits, forget
from pipeline.ingest import accept
from pipeline.memories import statements as memories
from pipeline.people import identities
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_list
from schemas.errors import Retryable
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.pipeline import CHAT, forget_all, place, rows
from tests.waiting import SECONDS, until

OTHER = ChatIn(chat_id="test:other")


@pytest.fixture
def talked(database: Database) -> Database:
    """Two chats with ten messages each, placed; Ann and Zora in both."""
    for chat in (CHAT, OTHER):
        said = [message(n, f"the boiler shows error number {n} again", id=f"m{n}") for n in range(9)]
        zora = message(9, "my zebrafish lives in the bath", id="z", sender_id="test:zora", sender_name="Zora")
        accept.accept(database, TENANT, chat, [*said, zora])
    place(database)
    return database


@pytest.fixture
def impatient(settings: Settings) -> Iterator[Database]:
    """The same database for somebody who waits for no lock."""
    other = Database.from_settings(settings)

    @event.listens_for(other._app, "connect")
    def _soon(connection: psycopg.Connection, _record: object) -> None:
        connection.execute("SET lock_timeout = '300ms'")
        connection.commit()

    yield other
    other.close()


def until_somebody_waits(database: Database, count: int = 1) -> None:
    """Return once `count` transactions of this database wait for a lock."""
    waiting = (
        "SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        "WHERE NOT l.granted AND a.datname = current_database()"
    )
    until(lambda: len(rows(database, waiting)) >= count, f"{count} transactions wait for a lock")


def log(database: Database, context_id: str, query: str, shown: list[str], chat: str = CHAT.chat_id) -> None:
    rows(
        database,
        """
                INSERT INTO query_log (tenant_id, context_id, chat_id, user_id, profile, asked_at, query, shown, tokens,
                    chars, used_tokens, budget, latency_ms, degraded, answer, answered_at)
                SELECT 'default', :id, :chat, 'test:ann', 'default', now(), :query,
                    (SELECT coalesce(jsonb_object_agg(item, 'history'), '{}')
                        FROM unnest(CAST(:shown AS text[])) AS item), '{}', '{}', 1, 1, 1, '{}', 'Yes.', now()
            """,
        id=context_id,
        chat=chat,
        query=query,
        shown=shown,
    )


def test_an_edit_that_waits_for_forgetting_brings_nothing_back(database: Database) -> None:
    accept.accept(database, TENANT, CHAT, [message(0, "der Schlüssel 🔑", id="m", sender_id="test:zora")])
    place(database)
    forget.start(database, TENANT, Subject(kind="user", sender_id="test:zora"))
    with ThreadPoolExecutor(2) as pool:
        with database.tenant(TENANT) as connection:
            chats.lock_exclusively(connection, CHAT.chat_id)
            # Given that her forgetting comes to the chat first, and then an edit of what she said
            forgetting = pool.submit(forget_all, database)
            until_somebody_waits(database)
            new = edits.NewText(CHAT.chat_id, "m", "der Schlüssel 🗝", None)
            edit = pool.submit(edits.edit, database, TENANT, new, SESSION_POLICY)
            until_somebody_waits(database, 2)
        forgetting.result(SECONDS)
        assert edit.result(SECONDS).outcome == "kept_out"
    assert rows(database, "SELECT count(*) FROM pending_changes") == [(0,)]


# Which locks


IN_ONE_CHAT: dict[str, Callable[[Database], object]] = {
    "a deletion": lambda db: edits.delete(db, TENANT, CHAT.chat_id, "m1", SESSION_POLICY),
    "forgetting a chat": lambda db: forget.start(db, TENANT, Subject(kind="chat", chat_id=CHAT.chat_id)),
    "saying who is in a chat": lambda db: identities.set_members(db, TENANT, CHAT.chat_id, ["test:ann"]),
}


@pytest.mark.parametrize("what", IN_ONE_CHAT)
def test_what_is_erased_in_one_chat_holds_up_no_other_while_it_waits_for_an_accept(
    talked: Database, impatient: Database, what: str
) -> None:
    # Given a large batch that is being accepted in the chat
    with ThreadPoolExecutor(1) as pool:
        with talked.tenant(TENANT) as accepting:
            suppression_list.lock(accepting, TENANT, CHAT.chat_id)
            # When something of the chat goes, which waits for that
            erasing = pool.submit(IN_ONE_CHAT[what], talked)
            until_somebody_waits(talked)
            # Then another chat's messages are accepted meanwhile
            assert accept.accept(impatient, TENANT, OTHER, [message(60, id="new")]).new == 1
        erasing.result(SECONDS)


# An edit, a memory that was learned there, and a message.
CHECKS_A_CHAT: list[Callable[[Database, str], object]] = [
    lambda db, chat: edits.edit(
        db, TENANT, edits.NewText(chat, "m1", "something else", None), SESSION_POLICY
    ),
    lambda db, chat: memories.remember(
        db, TENANT, MemoryIn(scope="organization", content="old boiler", learned_in=chat)
    ),
    lambda db, chat: accept.accept(db, TENANT, ChatIn(chat_id=chat), [message(70, id="n")]),
]


def test_whatever_is_stored_of_a_chat_waits_for_its_forgetting_and_for_that_of_no_other(
    talked: Database, impatient: Database
) -> None:
    with talked.tenant(TENANT) as forgetting_it:
        suppression_list.lock(forgetting_it, TENANT, CHAT.chat_id, exclusive=True)
        for store in CHECKS_A_CHAT:
            with pytest.raises(Retryable):
                store(impatient, CHAT.chat_id)
            store(impatient, OTHER.chat_id)


def test_what_is_asked_and_shown_between_the_search_and_the_lock_is_taken_back_too(
    talked: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = derived.remove_ahead

    def and_then_somebody_asks(
        connection: Connection, tenant_id: str, chat_id: str, ids: list[int]
    ) -> derived.Removed:
        taken = ahead(connection, tenant_id, chat_id, ids)
        log(talked, "ctx_shown", "what now?", [f"message:{ids[0]}"])
        log(talked, "ctx_quoting", "my zebrafish lives in the bath", [])
        return taken

    monkeypatch.setattr(derived, "remove_ahead", and_then_somebody_asks)
    edits.delete(talked, TENANT, CHAT.chat_id, "z", SESSION_POLICY)
    assert rows(talked, "SELECT query, answer, shown FROM query_log ORDER BY context_id") == [
        (None, None, {}),
        ("what now?", None, {}),
    ]


# What is read


QUOTED = [
    ("My zebrafish lives in the bath!", "my zebrafish lives in the bath", True),
    ("my zebrafish lives in the bath, as you know", "zebrafish lives in the bath?", True),
    ("hi", "hi there, everybody", False),
    ("the zebrafish", "the zebrafishes", False),
    ("the bath in the house", "the house in the bath", False),
    ("私の猫は風呂に住んでいます", "ええと、私の猫は風呂に住んでいますか?", True),
    ("猫", "私の猫は風呂に住んでいます", False),
    ("моя рыбка живёт в ванной", "Где? МОЯ РЫБКА ЖИВЁТ в ванной", True),
    ("  \n", "???", False),
]


def test_a_question_quotes_a_text_in_whole_words(talked: Database) -> None:
    for number, (said, asked, goes) in enumerate(QUOTED):
        log(talked, f"ctx_{number}", asked, [])
        log(talked, f"ctx_{number}_elsewhere", asked, [], chat=OTHER.chat_id)
        with talked.tenant(TENANT) as connection:
            derived.remove_derived(connection, TENANT, CHAT.chat_id, texts=["something else", said])
        taken_back = rows(talked, "DELETE FROM query_log WHERE query IS NULL RETURNING context_id")
        assert taken_back == ([(f"ctx_{number}",)] if goes else []), said
        rows(talked, "DELETE FROM query_log")


def test_an_index_finds_nothing_of_another_tenants(talked: Database) -> None:
    log(talked, "ctx", "my zebrafish lives in the bath", ["message:1"])
    for tenant, found in ((TENANT, ["ctx"]), ("other", []), ("", [])):
        for given in (
            {"items": ["message:1"], "texts": []},
            {"items": [], "texts": ["my zebrafish lives in the bath"]},
        ):
            with talked.tenant(tenant) as connection:
                seen = connection.scalars(
                    text("SELECT contexts_with('test:1', CAST(:items AS text[]), CAST(:texts AS text[]))"),
                    given,
                ).all()
            assert seen == found


# Who finishes it


class Killed(BaseException):
    """The process ends here."""


def test_a_worker_finishes_a_broken_deletion(talked: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_given: object, **_options: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(derived, "erase_messages", killed)
        with pytest.raises(Killed):
            edits.delete(talked, TENANT, CHAT.chat_id, "z", SESSION_POLICY)
    rows(talked, "UPDATE jobs SET due_at = now() WHERE kind = 'forget'")
    forget_all(talked)
    assert rows(talked, "SELECT chat_id FROM messages WHERE external_id = 'z'") == [(OTHER.chat_id,)]
