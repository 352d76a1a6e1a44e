"""From accepted to embedded: what is summarized, what is embedded, what backfills and pruning do about it."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy import Connection, text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.ingest import accept, session_ranges
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.operations import backfill
from pipeline.operations.retention import prune, retention_of
from pipeline.operations.sweep import sweep
from pipeline.store.connections.database import Database
from pipeline.store.jobs import backfill_rows, jobs
from schemas.backfills import BackfillRequest
from schemas.errors import Permanent
from schemas.messages import ChatIn
from schemas.sessions import Message, Summary
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import TENANT, also_partitioned, message
from tests.harness.pipeline import CHAT, current, embed_all, learns, look, place, rows, run, summarizer


class Counting(DeterministicEmbedder):
    """Remembers the texts that it was asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.texts.extend(texts)
        return super().embed_documents(texts)


def talk(count: int, start: float = 0) -> list[object]:
    return [message(start + n, f"the boiler shows error E{40 + n}", id=f"m{start}-{n}") for n in range(count)]


@pytest.fixture
def two_sessions(database: Database, rules: SessionPolicy, policy: Policy) -> Database:
    """One of five messages, one of two."""
    accept.accept(database, TENANT, CHAT, [*talk(5), *talk(2, 100)])  # type: ignore[list-item]
    place(database, rules, policy)
    return database


def test_a_closed_session_is_summarized_once_until_it_changes_and_a_small_one_skipped(
    two_sessions: Database, rules: SessionPolicy, policy: Policy
) -> None:
    assert run(two_sessions, "summarize", summarizer(two_sessions), policy) == 2
    assert rows(
        two_sessions,
        "SELECT status, summary_model, summary_revision = revision FROM conversation_sessions ORDER BY id",
    ) == [("summarized", "extractive-v1", True), ("skipped", None, None)]
    assert run(two_sessions, "summarize", summarizer(two_sessions), policy) == 0
    # and again when a late message comes
    accept.accept(two_sessions, TENANT, CHAT, [message(2.5, "and the plumber is Beatriz", id="late")])
    place(two_sessions, rules, policy)
    assert run(two_sessions, "summarize", summarizer(two_sessions), policy) == 1
    found = rows(
        two_sessions,
        "SELECT status, message_count, summary_revision FROM conversation_sessions ORDER BY id LIMIT 1",
    )
    assert found == [("summarized", 6, 2)]


class Refusing(ExtractiveSummarizer):
    """A model that will not have it."""

    def summarize(
        self, messages: Sequence[Message], previous: Summary | None = None, **options: object
    ) -> Summary:
        raise Permanent("the model refuses this text")


def test_a_session_that_cannot_be_summarized_says_why_and_is_left(
    two_sessions: Database, policy: Policy
) -> None:
    run(two_sessions, "summarize", summarizer(two_sessions, client=Refusing()), policy)
    assert rows(
        two_sessions, "SELECT status, failure_reason FROM conversation_sessions WHERE message_count = 5"
    ) == [("failed", "the model refuses this text")]
    # and it is among what an operator can replay
    assert rows(
        two_sessions, "SELECT last_error, due_at FROM jobs WHERE kind = 'summarize' AND dead_at IS NOT NULL"
    ) == [("Permanent: the model refuses this text", None)]


def test_every_message_and_summary_gets_one_vector_and_equal_text_is_embedded_once(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    same = [message(n, "ok", id=f"same{n}") for n in range(4)]
    accept.accept(database, TENANT, CHAT, [*talk(4, 10), *same])  # type: ignore[list-item]
    place(database, rules, policy)
    run(database, "summarize", summarizer(database), policy)
    client = Counting()
    run(database, "embed", embed.embedder(database, client), policy)
    assert len(client.texts) == 4 + 1 + 1
    assert rows(database, "SELECT count(*), count(DISTINCT embedding::text) FROM message_vectors") == [(8, 5)]
    assert rows(database, "SELECT count(*) FROM session_vectors") == [(1,)]
    accept.accept(database, TENANT, CHAT, [message(3, "ok", id="once more")])
    place(database, rules, policy)
    before = len(client.texts)
    run(database, "embed", embed.embedder(database, client), policy)
    assert len(client.texts) == before


def test_a_quiet_chats_last_session_is_closed_by_the_sweep(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    accept.accept(database, TENANT, CHAT, talk(5))  # type: ignore[arg-type]
    place(database, rules, policy)
    with database.tenant(TENANT) as connection:
        connection.execute(text("UPDATE conversation_sessions SET status = 'open'"))
        connection.execute(text("DELETE FROM jobs"))
    swept = sweep(database, rules, policy.max_attempts)
    assert swept.sessions_closed == 1
    assert swept.due == {"summarize": 1, "extract": 1}
    assert rows(database, "SELECT status FROM conversation_sessions") == [("closed",)]


def test_arrivals_whose_hint_and_work_were_lost_are_owed_again_by_the_sweep(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    accept.accept(database, TENANT, CHAT, talk(5))  # type: ignore[arg-type]
    with database.maintenance() as connection:
        connection.execute(text("UPDATE jobs SET due_at = NULL"))
    assert sweep(database, rules, policy.max_attempts).due == {"ingest": 1}


# Backfills


def finish(database: Database, rules: SessionPolicy, policy: Policy, version: int = 1) -> None:
    """Let workers do a backfill and what it raises, as long as anything happens."""
    for _ in range(60):
        done = look(database, current(rules, version), policy)
        done += run(database, "summarize", summarizer(database, version), policy)
        done += run(database, "extract", learns(database), policy)
        done += embed_all(database, policy=policy)
        if not done:
            return


def state(database: Database) -> tuple[object, ...]:
    return rows(database, "SELECT state, total, seen, raised FROM backfills ORDER BY id DESC LIMIT 1")[0]


def test_a_backfill_embeds_what_has_no_vector_and_only_that(
    two_sessions: Database, rules: SessionPolicy, policy: Policy
) -> None:
    embed_all(two_sessions)
    rows(two_sessions, "DELETE FROM message_vectors WHERE message_id IN (SELECT id FROM messages LIMIT 3)")
    request = BackfillRequest(kind="embed", batch_size=2)
    assert backfill.plan(two_sessions, TENANT, request, current(rules)).missing == 3
    backfill.start(two_sessions, TENANT, request, current(rules))
    finish(two_sessions, rules, policy)
    assert state(two_sessions) == ("completed", 7, 7, 3)
    assert rows(two_sessions, "SELECT count(*) FROM message_vectors") == [(7,)]


def test_a_backfill_is_complete_when_nothing_is_missing_whoever_asked_for_it_last(
    two_sessions: Database, rules: SessionPolicy, policy: Policy
) -> None:
    # Given a backfill whose rows somebody else has asked for since
    backfill.start(two_sessions, TENANT, BackfillRequest(kind="embed", batch_size=100), current(rules))
    for _ in range(4):
        look(two_sessions, current(rules), policy)
    rows(two_sessions, "UPDATE jobs SET trace_id = 'of-a-bot' WHERE kind = 'embed'")
    # When it looks, then it waits for what is missing
    for _ in range(3):
        look(two_sessions, current(rules), policy)
        assert state(two_sessions)[0] == "running"
    embed_all(two_sessions)
    look(two_sessions, current(rules), policy)
    assert state(two_sessions)[0] == "completed"


def test_a_backfill_goes_behind_live_work_and_does_not_wait_for_what_came_after_it(
    two_sessions: Database, rules: SessionPolicy, policy: Policy
) -> None:
    embed_all(two_sessions)
    backfill.start(two_sessions, TENANT, BackfillRequest(kind="embed", missing_only=False), current(rules))
    for _ in range(4):
        look(two_sessions, current(rules), policy)
    # what it asks for goes behind live work, in the lane of its chat
    owed = rows(two_sessions, "SELECT DISTINCT priority, lane <> 0 FROM jobs WHERE kind = 'embed'")
    assert owed == [(1, True)]
    embed_all(two_sessions)
    # Given that something it has looked at is asked for once more, later
    with two_sessions.tenant(TENANT) as connection:
        jobs.enqueue(connection, TENANT, "embed", ["message:1"])
        connection.execute(
            text("UPDATE jobs SET pending_since = now() + interval '1 min' WHERE kind = 'embed'")
        )
    look(two_sessions, current(rules), policy)
    assert state(two_sessions)[0] == "completed"


def test_a_new_summary_version_makes_the_old_ones_missing(
    two_sessions: Database, rules: SessionPolicy, policy: Policy
) -> None:
    run(two_sessions, "summarize", summarizer(two_sessions), policy)
    request = BackfillRequest(kind="summarize")
    assert backfill.plan(two_sessions, TENANT, request, current(rules)).missing == 0
    assert backfill.plan(two_sessions, TENANT, request, current(rules, 2)).missing == 1
    backfill.start(two_sessions, TENANT, request, current(rules, 2))
    finish(two_sessions, rules, policy, version=2)
    assert rows(
        two_sessions, "SELECT summary_version FROM conversation_sessions WHERE status = 'summarized'"
    ) == [(2,)]
    assert state(two_sessions)[0] == "completed"


def test_after_the_gap_changed_sessions_are_cut_again_and_ids_kept(
    two_sessions: Database, rules: SessionPolicy, policy: Policy
) -> None:
    before = rows(two_sessions, "SELECT id FROM conversation_sessions ORDER BY id")
    longer = SessionPolicy(**{**rules.__dict__, "gap": timedelta(minutes=120)})
    backfill.start(two_sessions, TENANT, BackfillRequest(kind="sessionize"), current(longer))
    finish(two_sessions, longer, policy)
    assert rows(
        two_sessions, "SELECT id, message_count, status FROM conversation_sessions WHERE status <> 'merged'"
    ) == [(before[0][0], 7, "summarized")]
    backfill.start(two_sessions, TENANT, BackfillRequest(kind="sessionize"), current(rules))
    finish(two_sessions, rules, policy)
    counts = rows(
        two_sessions,
        "SELECT message_count FROM conversation_sessions WHERE status <> 'merged' ORDER BY started_at",
    )
    assert counts == [(5,), (2,)]


def test_a_chat_that_cannot_be_cut_anew_is_given_up_and_the_others_are_done(
    two_sessions: Database, rules: SessionPolicy, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept.accept(two_sessions, TENANT, ChatIn(chat_id="test:0"), talk(5))  # type: ignore[arg-type]
    place(two_sessions, rules, policy)
    cut, cut_anew = session_ranges.sessionize_anew, []

    def fails_in_one(connection: Connection, tenant: str, chat: str, rules: SessionPolicy) -> None:
        if chat == "test:0":
            connection.execute(text("SELECT 1 / 0"))
        cut_anew.append(chat)
        cut(connection, tenant, chat, rules)

    monkeypatch.setattr(session_ranges, "sessionize_anew", fails_in_one)
    backfill.start(two_sessions, TENANT, BackfillRequest(kind="sessionize"), current(rules))
    finish(two_sessions, rules, policy)
    assert cut_anew == ["test:1"]
    assert state(two_sessions)[:3] == ("failed", 2, 2)
    (told,) = rows(two_sessions, "SELECT error FROM backfills")
    assert told == ("1 rows were given up: see the worker's log",)


def test_a_backfill_whose_own_job_was_given_up_has_failed_until_it_is_resumed(
    two_sessions: Database, rules: SessionPolicy, policy: Policy
) -> None:
    made = backfill.start(two_sessions, TENANT, BackfillRequest(kind="embed"), current(rules))

    def fails(_tenant: str, _claims: Sequence[runner.Claim]) -> set[str]:
        raise Permanent("no luck")

    runner.run(two_sessions, "backfill", fails, policy)
    with two_sessions.tenant(TENANT) as connection:
        found = backfill_rows.get(connection, made.id)
    assert found is not None
    assert (found.state, found.error) == ("failed", "Permanent: no luck")
    assert backfill.progress(two_sessions) == []
    backfill.change_state(two_sessions, TENANT, made.id, "running")
    finish(two_sessions, rules, policy)
    assert state(two_sessions)[0] == "completed"


def test_a_limit_ends_a_backfill_early(two_sessions: Database, rules: SessionPolicy, policy: Policy) -> None:
    with two_sessions.maintenance() as connection:
        connection.execute(text("UPDATE jobs SET due_at = NULL"))
    backfill.start(two_sessions, TENANT, BackfillRequest(kind="embed", limit=3, batch_size=2), current(rules))
    finish(two_sessions, rules, policy)
    assert state(two_sessions) == ("completed", 3, 3, 3)
    assert rows(two_sessions, "SELECT count(*) FROM message_vectors") == [(3,)]


# Pruning


@also_partitioned
def test_old_messages_go_with_their_vectors_and_sessions_keep_what_they_say(
    two_sessions: Database, settings: Settings, policy: Policy
) -> None:
    run(two_sessions, "summarize", summarizer(two_sessions), policy)
    run(two_sessions, "extract", learns(two_sessions), policy)
    embed_all(two_sessions)
    # nothing by default
    assert not any(prune(two_sessions, TENANT, retention_of(settings)).values())
    kept = settings.model_copy(update={"retention_messages_per_chat": 2})
    assert prune(two_sessions, TENANT, retention_of(kept), dry_run=True)["messages_by_count"] == 5
    told = "SELECT id, revision, message_count, summary_text FROM conversation_sessions ORDER BY id"
    before = rows(two_sessions, told)
    assert prune(two_sessions, TENANT, retention_of(kept), batch=2)["messages_by_count"] == 5
    assert rows(two_sessions, told) == before
    assert rows(
        two_sessions, "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM message_vectors)"
    ) == [(2, 2)]
    assert rows(two_sessions, "SELECT message_count FROM chats") == [(2,)]
    old = settings.model_copy(update={"retention_days": 1})
    assert prune(two_sessions, TENANT, retention_of(old))["messages_by_age"] == 2
