"""Pruning goes on: past what may not go yet, past a tenant that fails, and on from where the time was up."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.ingest import accept
from pipeline.memories import statements
from pipeline.memories.statements import remember
from pipeline.operations import retention as pruning
from pipeline.operations.retention import Retention, prune, prune_all, retention_of
from pipeline.people import suppression
from pipeline.store.connections.database import Database
from pipeline.store.memories import memory_rows
from schemas.errors import DatabaseUnavailable
from schemas.memories import MemoryCorrection, MemoryIn
from schemas.messages import ChatIn
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.pipeline import CHAT, forget_all, place, rows
from tests.waiting import rounds

OLD, OLDER = ChatIn(chat_id="test:b"), ChatIn(chat_id="test:a")


@pytest.fixture
def keep() -> Retention:
    """What was sent over a day ago goes, and so do records."""
    return retention_of(Settings(_env_file=None, retention_days=1))


def test_messages_that_wait_for_their_place_do_not_stand_before_those_that_may_go(
    database: Database, keep: Retention
) -> None:
    # Given old messages that are placed, and more and older ones that are not
    accept.accept(database, TENANT, OLD, [message(n, id=f"p{n}") for n in range(8)])
    # messages wait for no summary, and for nobody to learn from them
    place(database, replace(SESSION_POLICY, summaries=False, facts=False))
    accept.accept(database, TENANT, OLDER, [message(n - 100, id=f"w{n}") for n in range(8)])
    accept.accept(database, TENANT, OLD, [message(n - 50, id=f"v{n}") for n in range(8)])
    # When they are pruned in batches that these would fill
    assert prune(database, TENANT, keep, dry_run=True, batch=5)["messages_by_age"] == 8
    assert prune(database, TENANT, keep, batch=5)["messages_by_age"] == 8
    # Then those that wait are there
    assert rows(database, "SELECT count(*) FROM messages") == rows(database, "SELECT count(*) FROM arrivals")
    assert rows(database, "SELECT message_count FROM chats WHERE chat_id = 'test:b'") == [(0,)]


def test_a_run_goes_on_past_a_tenant_that_fails_and_from_where_the_time_was_up(
    database: Database, keep: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant in ("a", "b", "c"):
        accept.accept(database, tenant, OLD, [message(0)])
    whole = pruning.prune

    def failing(database: Database, tenant_id: str, *given: object, **options: object) -> dict[str, int]:
        if tenant_id == "b":
            raise DatabaseUnavailable("canceling statement due to statement timeout")
        return whole(database, tenant_id, *given, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(pruning, "prune", failing)
        done = prune_all(database, keep)
    assert set(done.rows) == {"a", "c"}
    assert done.failed == {"b": "DatabaseUnavailable: canceling statement due to statement timeout"}
    assert done.stopped_at is None
    looked_at: list[str] = []
    after: str | None = ""
    for _ in rounds("no tenant is left"):
        done = prune_all(database, keep, after=after, seconds=0)
        looked_at += done.rows
        after = done.stopped_at
        if after is None:
            break
    assert looked_at == ["a", "b", "c"]


Write = Callable[..., UUID]


@pytest.fixture
def write(database: Database) -> Write:
    """Writes a memory of Ann's, and returns its id."""

    def written(content: str, type_: str = "fact", importance: float = 5, **fields: object) -> UUID:
        given = {"scope": "user", "user_id": "test:ann", "content": content, "type": type_}
        memory = MemoryIn.model_validate(given | {"importance": importance} | fields)
        identity = remember(database, TENANT, memory).id
        assert identity is not None
        return identity

    return written


def test_history_goes_before_what_is_known_and_what_was_said_by_hand_goes_last(
    database: Database, write: Write, keep: Retention
) -> None:
    # Given a page of Ann's: something wrong, a chain of three homes, a document, and what was written by hand
    accept.accept(database, TENANT, OLD, [message(0)])

    homes = [write("Lives in Porto.")]
    for home in ("Lives in Braga.", "Lives in Faro."):
        homes.append(statements.correct(database, TENANT, homes[-1], MemoryCorrection(content=home)).id)
    wrong = write("Has a boat.", importance=10)
    statements.correct(database, TENANT, wrong, MemoryCorrection())
    write("Is 40.", "manual", 0)
    write("Likes tea.")
    write("Where is the key? Under the mat.", "qa_turn", 1)
    write("A lease.", "document", document_id="lease")
    write("Has a cat.", learned_in=OLD.chat_id, importance=9)

    def left(most: int) -> set[str]:
        prune(database, TENANT, Retention(**{**vars(keep), "memories_per_user": most}), batch=1)
        return {
            content for (content,) in rows(database, "SELECT content FROM memories WHERE type <> 'document'")
        }

    by_hand = {"Is 40.", "Lives in Faro."}
    assert "Lives in Porto." not in left(7)
    assert rows(database, "SELECT count(*) FROM memory_supersessions") == [(1,)]
    assert left(5) == by_hand | {"Likes tea.", "Has a cat.", "Where is the key? Under the mat."}
    assert left(4) == by_hand | {"Likes tea.", "Has a cat."}
    assert left(3) == by_hand | {"Has a cat."}
    assert left(1) == {"Lives in Faro."}
    assert rows(database, "SELECT content FROM memories WHERE type = 'document'") == [("A lease.",)]


def test_history_and_answers_that_nobody_was_shown_go_after_their_time(
    database: Database, write: Write, keep: Retention
) -> None:
    accept.accept(database, TENANT, OLD, [message(0)])
    accept.accept(database, TENANT, OLDER, [message(0)])

    # Given what was superseded and wrong long ago, and what was superseded in private only
    home, boat = write("Lives in Porto."), write("Has a boat.")
    cat = write("Has a cat.", learned_in=OLD.chat_id)
    statements.correct(database, TENANT, home, MemoryCorrection(content="Lives in Braga."))
    statements.correct(database, TENANT, boat, MemoryCorrection())
    statements.correct(
        database, TENANT, cat, MemoryCorrection(content="Has two cats.", chat_id=OLDER.chat_id)
    )
    old_answer, shown_answer = write("Old?", "qa_turn"), write("Shown?", "qa_turn")
    with database.tenant(TENANT) as connection:
        connection.execute(
            text("""
                UPDATE memories SET created_at = created_at - interval '401 days',
                    said_at = said_at - interval '401 days', retracted_at = retracted_at - interval '401 days'
            """)
        )
        memory_rows.touch(connection, [str(shown_answer)])
    ended = write("It rains.", expires_at="2026-03-02T18:00Z")
    lately = write("Has a dog.")
    statements.correct(database, TENANT, lately, MemoryCorrection(content="Has a parrot."))
    # When that is pruned
    pruned = prune(database, TENANT, keep, batch=1)
    # Then what others still know, and what became history lately, is there
    assert (pruned["memories_history"], pruned["memories_unused_answers"], pruned["memories_expired"]) == (
        2,
        1,
        1,
    )
    gone = {home, boat, old_answer, ended}
    assert not gone & {id_ for (id_,) in rows(database, "SELECT id FROM memories")}
    assert {lately, cat, shown_answer} <= {id_ for (id_,) in rows(database, "SELECT id FROM memories")}


def test_what_is_done_long_ago_goes_and_tombstones_stay(database: Database, keep: Retention) -> None:
    # Given receipts and backfills, done long ago and lately, and what an agent closed long ago
    for external in ("a", "b"):
        forget.start(database, TENANT, Subject(kind="message", chat_id=CHAT.chat_id, external_id=external))
    forget_all(database)
    suppression.remember_user(database, TENANT, "test:ann", remembered=False)
    said = [
        message(n, id=f"{key}{n}", sender_id="test:bob", session_key=key, closes_session=n == 1)
        for key in ("gone", "kept")
        for n in range(2)
    ]
    accept.accept(database, TENANT, CHAT, said)
    place(database)
    with database.tenant(TENANT) as connection:
        for statement in (
            "UPDATE forget_receipts SET finished_at = now() - interval '401 days' WHERE id = 1",
            "UPDATE suppression_list SET created_at = now() - interval '4000 days'",
            """INSERT INTO backfills (tenant_id, kind, filter, batch_size, state, finished_at)
                SELECT 'default', 'embed', '{}', 100, 'completed', now() - days * interval '1 day'
                FROM unnest(ARRAY[1, 401]) AS days""",
            "DELETE FROM messages WHERE session_key = 'gone'",
        ):
            connection.execute(text(statement))
    stones = rows(database, "SELECT hash FROM suppression_list ORDER BY hash")
    # When all is pruned that is to be
    pruned = prune(database, TENANT, Retention(**{**vars(keep), "message_age": None}))
    # Then what is young, or keeps something out or apart, is there
    assert (pruned["forget_receipts"], pruned["backfills"], pruned["session_closes"]) == (1, 1, 1)
    assert rows(database, "SELECT id FROM forget_receipts") == [(2,)]
    assert rows(database, "SELECT count(*) FROM backfills") == [(1,)]
    assert rows(database, "SELECT session_key FROM session_closes") == [("kept",)]
    assert rows(database, "SELECT hash FROM suppression_list ORDER BY hash") == stones
    assert len(stones) == 3
    assert keep.record_age == timedelta(days=400)
