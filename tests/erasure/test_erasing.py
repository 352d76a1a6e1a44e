"""Erasing at size: it looks things up by an index, locks what it must and no more, and is finished by somebody."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event, text

from pipeline.erasure import derived, edits, erase, export, forget, forget_steps
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.memories import statements as memories
from pipeline.people import identities, membership
from pipeline.store import chats, query_log
from pipeline.store import erasure as store
from pipeline.store import identities as users_store
from pipeline.store import membership as store_members
from pipeline.store import suppression as suppression_list
from pipeline.store.database import Database
from schemas.errors import Retryable
from schemas.forgetting import Subject
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.store.test_migrations import owner_url
from tests.test_pipeline import CHAT, place, rows, run

OTHER = ChatIn(chat_id="test:other")


@pytest.fixture
def talked(database: Database, rules: SessionPolicy, policy: Policy) -> Database:
    """Two chats with ten messages each, placed; Ann and Zora in both."""
    for chat in (CHAT, OTHER):
        said = [message(n, f"the boiler shows error number {n} again", id=f"m{n}") for n in range(9)]
        zora = message(9, "my zebrafish lives in the bath", id="z", sender_id="test:zora", sender_name="Zora")
        accept.accept(database, TENANT, chat, [*said, zora])
    place(database, rules, policy)
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


def in_thread(act: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """Do something beside; what it raises is in the list when the thread has ended."""
    errors: list[BaseException] = []

    def run_it() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - told to the test
            errors.append(error)

    thread = threading.Thread(target=run_it)
    thread.start()
    return thread, errors


def until_somebody_waits(database: Database) -> None:
    """Until a transaction of this database waits for a lock."""
    for _ in range(500):
        if rows(
            database,
            "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            "WHERE NOT l.granted AND a.datname = current_database()",
        ) != [(0,)]:
            return
        time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")


@contextmanager
def statements() -> Iterator[list[tuple[str, int]]]:
    """The statements that are executed, each with the rows that it gave or changed."""
    seen: list[tuple[str, int]] = []

    def note(_c: object, cursor: object, statement: str, *_rest: object) -> None:
        seen.append((" ".join(statement.split()), cursor.rowcount))  # type: ignore[attr-defined]

    event.listen(Engine, "after_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "after_cursor_execute", note)


def log(database: Database, context_id: str, query: str, shown: list[str], chat: str = CHAT.chat_id) -> None:
    """Record a context that was answered."""
    with database.tenant(TENANT) as connection:
        connection.execute(
            text("""
                INSERT INTO query_log (tenant_id, context_id, chat_id, user_id, profile, asked_at, query, shown, tokens,
                    chars, used_tokens, budget, latency_ms, degraded, answer, answered_at)
                SELECT 'default', :id, :chat, 'test:ann', 'default', now(), :query,
                    (SELECT coalesce(jsonb_object_agg(item, 'history'), '{}')
                        FROM unnest(CAST(:shown AS text[])) AS item), '{}', '{}', 1, 1, 1, '{}', 'Yes.', now()
            """),
            {"id": context_id, "chat": chat, "query": query, "shown": shown},
        )


# Which locks


IN_ONE_CHAT: dict[str, Callable[[Database, SessionPolicy], object]] = {
    "a deletion": lambda db, rules: edits.delete(db, TENANT, CHAT.chat_id, "m1", rules),
    "forgetting a message": lambda db, _: forget.start(
        db, TENANT, Subject(kind="message", chat_id=CHAT.chat_id, external_id="m1")
    ),
    "forgetting a chat": lambda db, _: forget.start(db, TENANT, Subject(kind="chat", chat_id=CHAT.chat_id)),
    "saying who is in a chat": lambda db, _: membership.set_members(db, TENANT, CHAT.chat_id, ["test:ann"]),
}


@pytest.mark.parametrize("what", IN_ONE_CHAT)
def test_what_is_erased_in_one_chat_holds_up_no_other_while_it_waits_for_an_accept(
    talked: Database, impatient: Database, rules: SessionPolicy, what: str
) -> None:
    # Given a large batch that is being accepted in the chat
    with talked.tenant(TENANT) as accepting:
        suppression_list.lock(accepting, TENANT, CHAT.chat_id)
        # When something of the chat goes, which waits for that
        thread, errors = in_thread(lambda: IN_ONE_CHAT[what](talked, rules))
        until_somebody_waits(talked)
        # Then another chat's messages are accepted meanwhile
        assert accept.accept(impatient, TENANT, OTHER, [message(60, id="new")]).new == 1
    thread.join()
    assert errors == []


CHECKS_A_CHAT: dict[str, Callable[[Database, SessionPolicy, str], object]] = {
    "an edit": lambda db, rules, chat: edits.edit(db, TENANT, chat, "m1", "something else", None, rules),
    "a memory learned there": lambda db, _, chat: memories.remember(
        db, TENANT, MemoryIn(scope="organization", content="old boiler", learned_in=chat)
    ),
    "a message": lambda db, _, chat: accept.accept(db, TENANT, ChatIn(chat_id=chat), [message(70, id="n")]),
}


@pytest.mark.parametrize("what", CHECKS_A_CHAT)
def test_whatever_is_stored_of_a_chat_waits_for_its_forgetting_and_for_that_of_no_other(
    talked: Database, impatient: Database, rules: SessionPolicy, what: str
) -> None:
    with talked.tenant(TENANT) as forgetting_it:
        suppression_list.lock(forgetting_it, TENANT, CHAT.chat_id, exclusive=True)
        with pytest.raises(Retryable):
            CHECKS_A_CHAT[what](impatient, rules, CHAT.chat_id)
        CHECKS_A_CHAT[what](impatient, rules, OTHER.chat_id)


def test_the_query_log_is_searched_and_written_before_the_chat_is_locked(
    talked: Database, rules: SessionPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given contexts that showed a message, and one that quotes it
    (message_id,) = rows(talked, "SELECT id FROM messages WHERE external_id = 'm1' ORDER BY chat_id LIMIT 1")[
        0
    ]
    for number in range(5):
        log(talked, f"ctx_{number}", "what now?", [f"message:{message_id}"])
    log(talked, "ctx_quoting", "why: the boiler shows error number 1 again?", [])
    left: list[object] = []
    lock_exclusively = chats.lock_exclusively

    def looked(connection: Connection, chat_id: str) -> chats.Chat | None:
        left.append(rows(talked, "SELECT count(*) FROM query_log WHERE redacted_at IS NULL")[0][0])
        return lock_exclusively(connection, chat_id)

    monkeypatch.setattr(chats, "lock_exclusively", looked)
    # When it is edited
    edits.edit(talked, TENANT, CHAT.chat_id, "m1", "something else", None, rules)
    # Then they were taken back when the chat was locked
    assert left == [0]


def test_what_is_asked_and_shown_between_the_search_and_the_lock_is_taken_back_too(
    talked: Database, rules: SessionPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = derived.take_back_ahead

    def and_then_somebody_asks(
        connection: Connection, tenant_id: str, chat_id: str, ids: list[int]
    ) -> derived.TakenBack:
        taken = ahead(connection, tenant_id, chat_id, ids)
        log(talked, "ctx_shown", "what now?", [f"message:{ids[0]}"])
        log(talked, "ctx_quoting", "my zebrafish lives in the bath", [])
        return taken

    monkeypatch.setattr(derived, "take_back_ahead", and_then_somebody_asks)
    edits.delete(talked, TENANT, CHAT.chat_id, "z", rules)
    assert rows(talked, "SELECT query, answer, shown FROM query_log ORDER BY context_id") == [
        (None, None, {}),
        ("what now?", None, {}),
    ]


# What is read


def analyze(settings: Settings) -> None:
    """What autovacuum does within a minute."""
    with psycopg.connect(owner_url(settings), autocommit=True) as owner:
        owner.execute("ANALYZE")


@contextmanager
def reading(connection: Connection) -> Iterator[dict[str, int]]:
    """How many rows of each table a transaction reads meanwhile, whether it wants them or not."""

    def counted() -> dict[str, int]:
        found = connection.execute(
            text("SELECT relname, seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables")
        )
        return {str(name): int(count) for name, count in found}

    before, read = counted(), {}
    yield read
    read |= {name: count - before[name] for name, count in counted().items()}


def test_erasing_reads_none_of_the_questions_and_memories_that_have_nothing_to_do_with_it(
    talked: Database, settings: Settings
) -> None:
    # Given two thousand questions, some answers to which are remembered, and two that have to do with a message
    with talked.tenant(TENANT) as connection:
        connection.execute(
            text("""
                INSERT INTO query_log (tenant_id, context_id, chat_id, profile, asked_at, query, shown, tokens, chars,
                    used_tokens, budget, latency_ms, degraded)
                SELECT 'default', 'ctx_' || n, 'test:1', 'default', now(), 'what about number ' || n || '?',
                    jsonb_build_object('message:' || 1000 + n, 'history'), '{}', '{}', 1, 1, 1, '{}'
                FROM generate_series(1, 2000) AS n
            """)
        )
        connection.execute(
            text("""
                INSERT INTO memories (tenant_id, id, scope, type, learned_in, content, content_hash, metadata)
                SELECT 'default', gen_random_uuid(), 'organization', 'qa_turn', 'test:1',
                    'what about ' || n || '? Yes.', sha256(n::text::bytea),
                    jsonb_build_object('question_chars', 12, 'recalled', jsonb_build_array('message:' || 1000 + n))
                FROM generate_series(1, 2000) AS n
            """)
        )
    log(talked, "ctx_shown", "what now?", ["message:7"])
    log(talked, "ctx_quoting", "so my zebrafish lives in the bath?", [])
    analyze(settings)
    # When what was made of the message is taken back
    with talked.tenant(TENANT) as connection, reading(connection) as read:
        taken = derived.take_back(
            connection, TENANT, CHAT.chat_id, message_ids=[7], texts=["My zebrafish lives in the bath."]
        )
    # Then it has found those two, and has looked at few others
    assert taken.queries == 2
    assert {name: count for name, count in read.items() if count > 50} == {}


@pytest.mark.parametrize(
    ("said", "asked", "goes"),
    [
        ("My zebrafish lives in the bath!", "my zebrafish lives in the bath", True),
        ("zebrafish", "where does the ZEBRAFISH live?", True),
        ("old bath", "who cleans the old bath?", True),
        ("my zebrafish lives in the bath, as you know", "zebrafish lives in the bath?", True),
        ("hi", "hi", True),
        ("hi", "hi there, everybody", False),
        ("zebra", "zebra crossings", False),
        ("the zebrafish", "the zebrafishes", False),
        ("the bath in the house", "the house in the bath", False),
        ("私の猫は風呂に住んでいます", "ええと、私の猫は風呂に住んでいますか?", True),
        ("猫", "猫", True),
        ("猫", "私の猫は風呂に住んでいます", False),
        ("моя рыбка живёт в ванной", "Где? МОЯ РЫБКА ЖИВЁТ в ванной", True),
        ("a b c d e f g h", "is it a b c d e f g h or not", True),
        ("  \n", "???", False),
    ],
)
def test_a_question_quotes_a_text_when_it_says_the_same_or_a_long_part_in_whole_words(
    talked: Database, said: str, asked: str, goes: bool
) -> None:
    log(talked, "ctx", asked, [])
    log(talked, "ctx_elsewhere", asked, [], chat=OTHER.chat_id)
    with talked.tenant(TENANT) as connection:
        derived.take_back(connection, TENANT, CHAT.chat_id, texts=["something else", said])
    assert rows(talked, "SELECT context_id FROM query_log WHERE query IS NULL") == (
        [("ctx",)] if goes else []
    )


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


def test_whatever_somebody_writes_into_a_memory_can_be_indexed(talked: Database) -> None:
    for number, metadata in enumerate(
        ({"question_chars": "many"}, {"question_chars": 1e300}, {"question_chars": -1.5}, {"recalled": 7}, {})
    ):
        memory = MemoryIn(
            scope="organization",
            type="qa_turn",
            content=f"{number}?",
            metadata=metadata,
            learned_in=CHAT.chat_id,
        )
        assert memories.remember(talked, TENANT, memory).outcome == "new"
    edits.edit(
        talked, TENANT, CHAT.chat_id, "m1", "something else", None, SessionPolicy.of(Settings(_env_file=None))
    )


def test_beginning_to_forget_somebody_reads_no_messages(talked: Database) -> None:
    with statements() as seen:
        receipt = forget.start(talked, TENANT, Subject(kind="user", sender_id="test:zora"))
    assert [statement for statement, _ in seen if "FROM messages" in statement] == []
    assert receipt.finished_at is None


def test_a_persons_messages_are_found_by_an_index(talked: Database, settings: Settings) -> None:
    # Given many messages of others, in the same chats
    for chat in (CHAT, OTHER):
        others = [message(n, id=f"o{n}", sender_id=f"test:{n % 20}") for n in range(1000)]
        accept.accept(talked, TENANT, chat, others)
    analyze(settings)
    # When somebody's names, chats and messages are looked up, and who is to be named no more
    with talked.tenant(TENANT) as connection, reading(connection) as read:
        assert store.names_of(connection, ["test:zora"]) == ["Zora"]
        spoken_in = store.chats_of(connection, ["test:zora"])
        until = chats.clock(connection)
        for chat_id in spoken_in:
            (said,) = store.messages_to_erase(
                connection, chat_id, until, senders=["test:zora"], external_id=None
            )
            assert said.chars == len("my zebrafish lives in the bath")
        assert store_members.chats_to_unname(connection, ["test:zora"]) == []
    # Then nobody else's were read
    assert spoken_in == [CHAT.chat_id, OTHER.chat_id]
    assert read["messages"] < 50


def test_an_export_holds_no_more_than_a_batch_at_a_time(
    talked: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(25):
        known = MemoryIn(scope="user", user_id="test:ann", content=f"likes number {number}")
        memories.remember(talked, TENANT, known)
        log(talked, f"ctx_{number:02}", f"what of {number}?", [])
    monkeypatch.setattr(export, "BATCH", 7)
    with statements() as seen:
        records = list(export.of_user(talked, TENANT, "test:ann"))
    kinds = [record["record"] for record in records]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "message": 18,
        "memory": 25,
        "chat": 2,
        "session": 2,
        "query": 25,
    }
    read = [
        count
        for statement, count in seen
        if "content" in statement or "summary_text" in statement or "answer" in statement
    ]
    assert max(read) <= 7


# Who finishes it


class Killed(BaseException):
    """The process ends here."""


def test_a_deletion_whose_process_ends_half_way_is_finished_by_a_worker(
    talked: Database, rules: SessionPolicy, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_given: object, **_options: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(erase, "erase_messages", killed)
        with pytest.raises(Killed):
            edits.delete(talked, TENANT, CHAT.chat_id, "z", rules)
    with talked.tenant(TENANT) as connection:
        connection.execute(text("UPDATE jobs SET due_at = now() WHERE kind = 'forget'"))
    run(talked, "forget", forget.forgetter(talked, rules), policy)
    assert rows(talked, "SELECT chat_id FROM messages WHERE external_id = 'z'") == [(OTHER.chat_id,)]


def test_a_deletion_that_is_done_leaves_nothing_owed_and_no_receipt(
    talked: Database, rules: SessionPolicy
) -> None:
    for external in ("z", "z", "never came"):
        edits.delete(talked, TENANT, CHAT.chat_id, external, rules)
    assert rows(talked, "SELECT count(*) FROM forget_receipts") == [(0,)]
    assert rows(talked, "SELECT count(*) FROM jobs WHERE kind = 'forget'") == [(0,)]


def test_a_deletion_that_a_worker_has_taken_over_meanwhile_is_done_once(
    talked: Database, rules: SessionPolicy, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = derived.take_back_ahead

    def slowly(*given: object) -> derived.TakenBack:
        monkeypatch.setattr(derived, "take_back_ahead", ahead)
        with talked.tenant(TENANT) as connection:
            connection.execute(text("UPDATE jobs SET due_at = now() WHERE kind = 'forget'"))
        run(talked, "forget", forget.forgetter(talked, rules), policy)
        return ahead(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(derived, "take_back_ahead", slowly)
    assert edits.delete(talked, TENANT, CHAT.chat_id, "z", rules).outcome == "deleted"
    assert rows(talked, "SELECT count(*) FROM messages WHERE external_id = 'z'") == [(1,)]
    assert rows(talked, "SELECT message_count FROM chats ORDER BY chat_id") == [(9,), (10,)]


def test_a_forgetting_commits_in_batches_of_few_words(
    talked: Database, rules: SessionPolicy, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_steps, "CHARS_AT_ONCE", 80)
    erase_messages, sizes = erase.erase_messages, []

    def sized(
        connection: Connection, tenant: str, chat: chats.Chat, ids: list[int], *rest: object, **more: object
    ) -> erase.Erased:
        sizes.append(len(ids))
        return erase_messages(connection, tenant, chat, ids, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(erase, "erase_messages", sized)
    forget.start(talked, TENANT, Subject(kind="user", sender_id="test:ann"))
    run(talked, "forget", forget.forgetter(talked, rules), policy)
    assert max(sizes) == 2
    assert rows(talked, "SELECT DISTINCT sender_id FROM messages") == [("test:zora",)]


def test_linking_somebody_while_a_tenant_is_forgotten_fails_nobody(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    # Given a person whom a sender is being linked to, and a forgetting of the tenant that comes to the people
    identities.link(database, TENANT, "test:ann", "ann")
    forget.start(database, TENANT, Subject(kind="tenant", confirm=TENANT))
    reached = threading.Event()

    @event.listens_for(Engine, "before_cursor_execute")
    def _met(connection: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        if "INSERT INTO user_senders" in statement and not reached.is_set():
            reached.set()
            begun.append(in_thread(finish))
            # it deletes the person now, or waits for this transaction
            for _ in range(500):
                if not begun[0][0].is_alive() or waits():
                    return
                time.sleep(0.01)

    begun: list[tuple[threading.Thread, list[BaseException]]] = []

    def finish() -> None:
        while runner.run(database, "forget", forget.forgetter(database, rules), policy).claimed:
            pass

    def waits() -> bool:
        return rows(
            database, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
        ) == [(True,)]

    try:
        # When both meet
        linked = identities.link(database, TENANT, "test:bob", "ann")
    finally:
        event.remove(Engine, "before_cursor_execute", _met)
    # Then neither fails
    begun[0][0].join()
    assert (linked.outcome, begun[0][1]) == ("linked", [])
    with database.tenant(TENANT) as connection:
        assert users_store.ids_of(connection, "test:bob")


def test_a_contexts_row_says_which_rows_were_new(talked: Database) -> None:
    log(talked, "ctx", "my zebrafish lives in the bath", ["message:1", "message:2"])
    with talked.tenant(TENANT) as connection:
        first = query_log.redact(connection, ["message:1"], CHAT.chat_id, [])
        second = query_log.redact(connection, ["message:2"], CHAT.chat_id, [])
    assert (first.fresh, second.fresh, second.rows) == (1, 0, 1)
