"""Pruning goes on: past what may not go yet, past a tenant that fails, and on from where the time was up."""

import threading
import time
from datetime import timedelta

import pytest
from sqlalchemy import text

from pipeline.erasure import forget
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.operations import retention as pruning
from pipeline.operations.retention import Retention, prune, prune_all, retention_of
from pipeline.people import suppression
from pipeline.store import chats, counters, ranges
from pipeline.store.database import Database
from schemas.errors import BackscrollError, DatabaseUnavailable
from schemas.forgetting import Subject
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.hostile.victims import fill
from tests.test_pipeline import CHAT, place, rows, run
from workers.tasks import prune as task

OLD, OLDER = ChatIn(chat_id="test:b"), ChatIn(chat_id="test:a")


@pytest.fixture
def keep() -> Retention:
    """What was sent over a day ago goes, and so do records."""
    return retention_of(Settings(_env_file=None, retention_days=1))


def test_messages_that_wait_for_their_place_do_not_stand_before_those_that_may_go(
    database: Database, rules: SessionPolicy, policy: Policy, keep: Retention
) -> None:
    # Given old messages that are placed, and more and older ones that are not
    accept.accept(database, TENANT, OLD, [message(n, id=f"p{n}") for n in range(8)])
    place(database, rules, policy)
    accept.accept(database, TENANT, OLDER, [message(n - 100, id=f"w{n}") for n in range(8)])
    accept.accept(database, TENANT, OLD, [message(n - 50, id=f"v{n}") for n in range(8)])
    # When they are pruned in batches that these would fill
    assert prune(database, TENANT, keep, dry_run=True, batch=5)["messages_by_age"] == 8
    assert prune(database, TENANT, keep, batch=5)["messages_by_age"] == 8
    # Then those that wait are there
    assert rows(database, "SELECT count(*) FROM messages") == rows(database, "SELECT count(*) FROM arrivals")
    assert rows(database, "SELECT message_count FROM chats WHERE chat_id = 'test:b'") == [(0,)]


def test_a_chat_is_locked_before_its_messages_as_whoever_edits_one_does(
    database: Database, rules: SessionPolicy, policy: Policy, keep: Retention
) -> None:
    accept.accept(database, TENANT, OLD, [message(n) for n in range(3)])
    place(database, rules, policy)
    pruned: list[int] = []
    with database.tenant(TENANT) as editing:
        # Given somebody who has the chat and comes to its messages next
        chats.lock_exclusively(editing, OLD.chat_id)
        thread = threading.Thread(
            target=lambda: pruned.append(prune(database, TENANT, keep)["messages_by_age"])
        )
        thread.start()
        while not rows(database, "SELECT 1 FROM pg_locks WHERE NOT granted"):
            time.sleep(0.01)
        # When pruning waits for them, then it has not locked what they need
        editing.execute(text("SELECT 1 FROM messages FOR UPDATE NOWAIT"))
    thread.join()
    assert pruned == [3]


def test_a_tenant_that_cannot_be_pruned_costs_the_others_nothing_and_is_told(
    database: Database, keep: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant in ("a", "b", "c"):
        accept.accept(database, tenant, OLD, [message(0)])
    whole = pruning.prune

    def failing(database: Database, tenant_id: str, *given: object, **options: object) -> dict[str, int]:
        if tenant_id == "b":
            raise DatabaseUnavailable("canceling statement due to statement timeout")
        return whole(database, tenant_id, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(pruning, "prune", failing)
    done = prune_all(database, keep)
    assert set(done.rows) == {"a", "c"}
    assert done.failed == {"b": "DatabaseUnavailable: canceling statement due to statement timeout"}
    assert done.stopped_at is None


def test_a_run_that_is_out_of_time_is_gone_on_with_from_the_next_tenant(
    database: Database, keep: Retention
) -> None:
    for tenant in ("a", "b", "c"):
        accept.accept(database, tenant, OLD, [message(0)])
    looked_at: list[str] = []
    after: str | None = ""
    while after is not None:
        done = prune_all(database, keep, after=after, seconds=0)
        looked_at += done.rows
        after = done.stopped_at
    assert looked_at == ["a", "b", "c"]


def test_the_task_asks_for_the_rest_and_fails_in_the_end_when_a_tenant_did(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Held:
        database = Database.from_settings(settings)

    held = Held()
    held.settings = settings  # type: ignore[attr-defined]
    asked: list[object] = []
    monkeypatch.setattr(task.resources, "current", lambda: held)
    monkeypatch.setattr(
        task,
        "prune_all",
        lambda *_given, **_options: pruning.Pruned(rows={}, failed={"b": "no luck"}, stopped_at="b"),
    )
    monkeypatch.setattr(task.prune, "apply_async", lambda args, **_options: asked.append(args))
    with pytest.raises(
        BackscrollError, match="1 tenants could not be pruned, the others were; of b: no luck"
    ):
        task.prune.run("a")
    assert asked == [["b"]]
    held.database.close()


def test_a_pointer_stays_for_a_month_after_its_session_was_joined_however_old_that_is(
    database: Database, rules: SessionPolicy, policy: Policy, keep: Retention
) -> None:
    accept.accept(database, TENANT, CHAT, [message(n * 600, id=f"m{n}") for n in range(3)])
    place(database, rules, policy)
    with database.tenant(TENANT) as connection:
        connection.execute(
            text("UPDATE conversation_sessions SET created_at = created_at - interval '90 days'")
        )
        ranges.merge(connection, {2: 1, 3: 1})
        connection.execute(
            text("UPDATE conversation_sessions SET merged_at = merged_at - interval '31 days' WHERE id = 3")
        )
    assert prune(database, TENANT, keep)["merged_sessions"] == 1
    assert rows(database, "SELECT id FROM conversation_sessions ORDER BY id") == [(1,), (2,)]


def test_figures_of_past_days_become_one_row_each_and_old_ones_go(
    database: Database, keep: Retention
) -> None:
    accept.accept(database, TENANT, CHAT, [message(0)])
    with database.tenant(TENANT) as connection:
        counters.add(connection, TENANT, {"contexts": 1})
        connection.execute(
            text("""
                INSERT INTO daily_counters (tenant_id, day, name, slot, value)
                SELECT 'default', current_date - age, name, slot, slot + 1
                FROM unnest(ARRAY[3, 5, 500]) AS age, unnest(ARRAY['contexts', 'tokens']) AS name,
                    generate_series(0, 7) AS slot
            """)
        )
    with database.tenant(TENANT) as connection:
        before = counters.totals(connection, 400)
    pruned = prune(database, TENANT, keep, batch=7)
    assert (pruned["daily_counters"], pruned["daily_counters_apart"]) == (16, 28)
    with database.tenant(TENANT) as connection:
        assert counters.totals(connection, 400) == before
    assert rows(database, "SELECT count(*) FROM daily_counters WHERE day < current_date") == [(4,)]
    assert prune(database, TENANT, keep)["daily_counters_apart"] == 0


def test_what_is_done_long_ago_goes_and_tombstones_stay(
    database: Database, rules: SessionPolicy, policy: Policy, keep: Retention
) -> None:
    # Given receipts and backfills, done long ago and lately, and what an agent closed long ago
    for external in ("a", "b"):
        forget.start(database, TENANT, Subject(kind="message", chat_id=CHAT.chat_id, external_id=external))
    run(database, "forget", forget.forgetter(database, rules), policy)
    suppression.remember_user(database, TENANT, "test:ann", remembered=False)
    said = [
        message(n, id=f"{key}{n}", sender_id="test:bob", session_key=key, closes_session=n == 1)
        for key in ("gone", "kept")
        for n in range(2)
    ]
    accept.accept(database, TENANT, CHAT, said)
    place(database, rules, policy)
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


def test_records_of_calls_go_after_their_time_and_answers_that_no_job_came_for_after_a_day(
    database: Database, rules: SessionPolicy, policy: Policy, keep: Retention
) -> None:
    fill(database, {TENANT: "boiler"}, rules, policy)
    with database.tenant(TENANT) as connection:
        connection.execute(
            text("""
                INSERT INTO llm_calls (tenant_id, purpose, model, provider, input_tokens, output_tokens, called_at)
                SELECT tenant_id, purpose, model, provider, 1, 1, now() - days * interval '1 day'
                FROM llm_calls, unnest(ARRAY[89, 91]) AS days
            """)
        )
    pruned = prune(database, TENANT, keep)
    assert (pruned["llm_calls"], pruned["llm_answers"]) == (1, 0)
    with database.tenant(TENANT) as connection:
        connection.execute(text("UPDATE llm_answers SET kept_at = now() - interval '25 hours'"))
    assert prune(database, TENANT, keep)["llm_answers"] == 1
    assert rows(database, "SELECT count(*) FROM llm_calls") == [(2,)]
