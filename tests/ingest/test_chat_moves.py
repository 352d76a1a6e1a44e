"""A chat that gets another id, or goes into another one, keeps everything, and what still comes under the former id."""

import threading

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.erasure import edits, forget
from pipeline.ingest import accept as ingest
from pipeline.ingest import chat_moves
from pipeline.llm.gateway import Gateway, ModelCall
from pipeline.memories.statements import remember
from pipeline.people import api_keys
from pipeline.recall import build_context
from pipeline.store.connections.database import Database
from schemas.bots import KeyIn
from schemas.errors import Busy, NotFound
from schemas.memories import MemoryIn
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.people import Subject
from schemas.sessions import key_of
from schemas.settings import Settings
from tests.conftest import HELLO, SESSION_POLICY, TENANT, also_partitioned, message
from tests.harness.pipeline import forget_all, place, rows, work
from tests.harness.sessions import expected, stored
from tests.llm.chat_models import ScriptedModel, asking
from tests.waiting import rounds

OLD, NEW = ChatIn(chat_id="test:1", title="The house"), ChatIn(chat_id="test:2")
FINAL = "test:3"


def accept(database: Database, chat: ChatIn, *said: MessageIn) -> ingest.Accepted:
    return ingest.accept(database, TENANT, ChatIn(chat_id=chat.chat_id), said)


def move(database: Database, chat: str, into: str) -> None:
    chat_moves.start(database, TENANT, chat, into)
    forget_all(database)


def talk(start: float, count: int = 6) -> list[MessageIn]:
    return [
        message(start + n, f"the boiler shows error E{40 + n} again", id=str(n + 1)) for n in range(count)
    ]


@pytest.fixture
def remembered(database: Database) -> Database:
    """A chat with a summarized session, a memory that was learned there, and a context that was asked there."""
    ingest.accept(database, TENANT, OLD, talk(0))
    work(database)
    remember(database, TENANT, MemoryIn(scope="organization", content="Likes tea.", learned_in=OLD.chat_id))
    return database


def everything(database: Database) -> list[list[tuple[object, ...]]]:
    """All that was made of a chat, without what names it."""
    return [
        rows(database, statement)
        for statement in (
            "SELECT id, content, sent_at FROM messages ORDER BY id",
            "SELECT id, started_at, message_count, status, summary_text FROM conversation_sessions ORDER BY id",
            "SELECT message_id FROM message_vectors ORDER BY 1",
            "SELECT session_id FROM session_vectors ORDER BY 1",
            "SELECT content FROM memories",
            "SELECT sender_id FROM chat_members",
        )
    ]


NAMING = """
    messages conversation_sessions message_vectors session_vectors arrivals chat_members session_closes
    pending_changes query_log memory_evidence llm_calls
""".split()


@also_partitioned
def test_a_renamed_chat_keeps_everything_under_its_new_id(remembered: Database, settings: Settings) -> None:
    ask = ContextQuery(chat_id=OLD.chat_id, query="what does the boiler show?")
    build_context(remembered, TENANT, ask, embedder=DeterministicEmbedder(), settings=settings)
    call = ModelCall(tenant_id=TENANT, chat_id=OLD.chat_id, purpose="hyde")
    Gateway(remembered, ScriptedModel()).complete(call, asking(), timeout_seconds=5)
    before = everything(remembered)
    move(remembered, OLD.chat_id, NEW.chat_id)
    assert everything(remembered) == before
    for table in NAMING:
        assert {row[0] for row in rows(remembered, f"SELECT chat_id FROM {table}")} <= {NEW.chat_id}, table
    assert rows(remembered, "SELECT learned_in FROM memories") == [(NEW.chat_id,)]
    assert rows(remembered, "SELECT chat_id, title, message_count, moved_to FROM chats ORDER BY chat_id") == [
        (OLD.chat_id, "The house", 0, NEW.chat_id),
        (NEW.chat_id, "The house", 6, None),
    ]
    # and nothing is owed but what looks whether anything is
    work(remembered)
    # only to look whether what came is indexed in the language of where it is
    assert rows(remembered, "SELECT kind FROM jobs WHERE due_at IS NOT NULL") == [("language",)]


def test_a_key_for_a_renamed_chat_is_for_its_new_id_too(database: Database) -> None:
    accept(database, ChatIn(chat_id="test:гурт"), message(1))
    for chats in (["test:гурт"], ["test:another"], None):
        api_keys.create(database, TENANT, KeyIn(label="бот", scopes=["ingest"], chats=chats))
    for _ in range(2):
        move(database, "test:гурт", "test:супергурт")
    assert [key.chats for key in reversed(api_keys.listing(database, TENANT))] == [
        ["test:гурт", "test:супергурт"],
        ["test:another"],
        None,
    ]


def stored_after(database: Database, chat_id: str) -> list[tuple[object, ...]]:
    place(database)
    return stored(database, chat_id)


def test_what_was_deleted_or_waits_to_be_edited_is_so_after_a_move(database: Database) -> None:
    accept(database, OLD, message(0, id="1"))
    edits.delete(database, TENANT, OLD.chat_id, "2", SESSION_POLICY)
    edits.edit(
        database, TENANT, edits.NewText(OLD.chat_id, "3", "edited before it came", None), SESSION_POLICY
    )
    move(database, OLD.chat_id, NEW.chat_id)
    move(database, NEW.chat_id, FINAL)
    accepted = accept(database, OLD, message(1, id="2"), message(2, "as it was", id="3", reply_to="1"))
    assert (accepted.new, accepted.kept_out) == (1, 1)
    assert rows(
        database, "SELECT chat_id, external_id, content, reply_to FROM messages ORDER BY sent_at"
    ) == [
        (FINAL, "test:1/1", HELLO, None),
        (FINAL, "test:1/3", "edited before it came", "test:1/1"),
    ]


@st.composite
def two_chats(draw: st.DrawFn) -> tuple[list[MessageIn], list[MessageIn]]:
    minutes = st.one_of(st.integers(0, 300), st.sampled_from([0, 30, 30.01, 60, 60.01, 90, 120]))

    def said(prefix: str) -> list[MessageIn]:
        return [
            message(
                minute,
                id=f"{prefix}{number}",
                session_key=(key := draw(st.sampled_from(["", "", "k"]))),
                thread=draw(st.sampled_from([None, None, "7"])),
                closes_session=bool(key) and draw(st.integers(0, 3)) == 0,
            )
            for number, minute in enumerate(draw(st.lists(minutes, min_size=1, max_size=15)))
        ]

    return said("a"), said("b")


@given(chats=two_chats(), placed=st.booleans(), at_once=st.sampled_from([1, 3, 500]))
@hypothesis_settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_chats_that_are_merged_have_the_sessions_of_all_their_messages(
    database: Database, chats: tuple[list[MessageIn], list[MessageIn]], *, placed: bool, at_once: int
) -> None:
    with database.tenant(TENANT) as connection:
        connection.execute(text("DELETE FROM chats"))
        connection.execute(text("DELETE FROM jobs"))
        connection.execute(text("DELETE FROM forget_receipts"))
    for chat, said in zip((OLD, NEW), chats, strict=True):
        accept(database, chat, *said)
        if placed:
            place(database)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_moves, "MESSAGES_AT_ONCE", at_once)
        move(database, OLD.chat_id, NEW.chat_id)
    place(database)
    assert stored(database, NEW.chat_id) == expected([*chats[0], *chats[1]])
    assert stored(database, OLD.chat_id) == []
    counted = rows(database, "SELECT chat_id, message_count FROM chats ORDER BY chat_id")
    assert counted == [(OLD.chat_id, 0), (NEW.chat_id, len(chats[0]) + len(chats[1]))]
    keys = {key_of(m.session_key, m.thread) for m in (*chats[0], *chats[1])}
    assert {row[0] for row in rows(database, "SELECT DISTINCT session_key FROM messages")} == keys


def test_messages_may_come_under_both_ids(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_moves, "MESSAGES_AT_ONCE", 3)
    said = [message(n * 40, f"number {n}", id=str(n)) for n in range(15)]
    accept(database, OLD, *said)
    place(database)
    chat_moves.start(database, TENANT, OLD.chat_id, NEW.chat_id)

    def come() -> None:
        for n in range(15):
            # once more what is there, and what is new
            accept(database, OLD, said[n], message(n * 40 + 1, f"more {n}", id=f"m{n}"))
            accept(database, NEW, message(n * 40 + 2, f"here {n}", id=str(n)))

    coming = threading.Thread(target=come)
    coming.start()
    for _ in rounds("all have come"):
        forget_all(database)
        place(database)
        if not coming.is_alive():
            break
    forget_all(database)
    assert [row[3] for row in stored_after(database, NEW.chat_id)] == [3] * 15
    assert rows(database, "SELECT count(*) FROM messages WHERE chat_id = 'test:2'") == [(45,)]


def test_changes_reach_a_message_on_its_way(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    accept(database, OLD, *(message(n * 40, "one by one", id=str(n)) for n in range(4)))
    place(database)
    receipt = chat_moves.start(database, TENANT, OLD.chat_id, NEW.chat_id)
    steps = chat_moves.steps(database, TENANT, receipt.id, OLD.chat_id, NEW.chat_id, SESSION_POLICY)
    monkeypatch.setattr(chat_moves, "MESSAGES_AT_ONCE", 1)
    next(steps)
    next(steps)
    for each in ("0", "3"):
        assert (
            edits.edit(
                database, TENANT, edits.NewText(OLD.chat_id, each, "edited", None), SESSION_POLICY
            ).outcome
            == "edited"
        )
    for each in ("1", "2"):
        edits.delete(database, TENANT, OLD.chat_id, each, SESSION_POLICY)
    for _ in steps:
        pass
    assert rows(database, "SELECT external_id, content FROM messages ORDER BY sent_at") == [
        ("test:1/0", "edited"),
        ("test:1/3", "edited"),
    ]
    assert accept(database, OLD, message(40, id="1"), message(80, id="2")).kept_out == 2


def test_forgetting_waits_until_a_chat_is_where_it_goes(database: Database) -> None:
    accept(database, OLD, *talk(0))
    place(database)
    chat_moves.start(database, TENANT, OLD.chat_id, NEW.chat_id)
    with pytest.raises(Busy):
        chat_moves.start(database, TENANT, NEW.chat_id, FINAL)
    with pytest.raises(NotFound, match=f"is {NEW.chat_id} now"):
        forget.start(database, TENANT, Subject(kind="chat", chat_id=OLD.chat_id))
    receipt = forget.start(database, TENANT, Subject(kind="user", sender_id="test:ann"))
    for _ in rounds("she is forgotten"):
        if forget.get(database, TENANT, receipt.id).finished_at is not None:
            break
        rows(database, "UPDATE jobs SET due_at = now() WHERE kind = 'forget'")
        forget_all(database)
    assert rows(database, "SELECT count(*) FROM messages") == [(0,)]
    assert accept(database, OLD, *talk(0)).kept_out == 6
    # nor does a forgotten chat come back under an id that it had
    forget.start(database, TENANT, Subject(kind="chat", chat_id=NEW.chat_id))
    forget_all(database)
    assert rows(database, "SELECT chat_id FROM chats") == []
    assert accept(database, OLD, message(0, id="9", sender_id="test:bob")).kept_out == 1
