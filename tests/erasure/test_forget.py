"""Forgetting is for good: nothing is left, nothing comes back, and a kill in the middle changes neither."""

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.summaries import rollups, summarize
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.enrich.summaries.summary_policy import SummaryPolicy
from pipeline.enrich.vectors import embed
from pipeline.erasure import edits, erase, forget, forget_job, forget_steps
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.memories.statements import remember
from pipeline.people import api_keys
from pipeline.store.connections.database import Database
from pipeline.store.people import event_sources
from schemas.bots.keys import KeyIn
from schemas.errors import InvalidInput
from schemas.memory.memories import MemoryIn
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import parse_payload
from schemas.people.forgetting import Receipt, Subject
from schemas.settings import Settings
from tests.conftest import MIGRATED, POLICY, TENANT, Templates, message
from tests.erasure.test_edits import at
from tests.llm.chat_models import ScriptedModel, retold, summarizing
from tests.tables import OF_TENANTS, TABLES
from tests.test_pipeline import learns, place, rows, run

GROUP, DIRECT = ChatIn(chat_id="test:group", title="Group"), ChatIn(chat_id="test:direct", title="Direct")
ZORA = Subject(kind="user", sender_id="test:zora")


def conversation(hour: int) -> list[MessageIn]:
    """Zora tells secrets among others, in a group."""
    said = [
        message(hour * 60 + n, f"the boiler shows error E{40 + n} again", id=f"g{hour}-{n}") for n in range(8)
    ]
    for n in (2, 5):
        said[n] = message(
            hour * 60 + n,
            f"my zebrafish number {hour}{n} lives at Rua Augusta {hour}. {NAMES.get((hour, n), '')}",
            id=f"g{hour}-{n}",
            sender_id="test:zora",
            sender_name="Zora",
        )
    return said


# What Zora wants to be called, by hour and number: the later supersedes the earlier.
NAMES = {(0, 5): "Bot, call me Zebrafish Bay.", (2, 5): "Bot, call me Zebrafish Hill."}


def work(database: Database, rules: SessionPolicy, policy: Policy) -> None:
    """Let workers do everything that is owed, forgetting aside."""
    place(database, rules, policy)
    rolling = summarize.summarizer(
        database, ExtractiveSummarizer(), SummaryPolicy(min_messages=4, version=1, rollup_after_seconds=0.0)
    )
    run(database, "summarize", rolling, policy)
    rolling_up = rollups.roller(database, summarizing(database, ScriptedModel(retold)), version=1)
    run(database, "rollup", rolling_up, policy)
    # what is learned is embedded, and then compared with what is known
    for _ in range(2):
        run(database, "extract", learns(database), policy)
        run(database, "embed", embed.embedder(database, DeterministicEmbedder()), policy)


def fill(database: Database) -> None:
    """Twenty sessions of a group with Zora in all of them, a chat of hers alone, and memories of her."""
    rules = SessionPolicy.of(Settings(_env_file=None, summarize_debounce_seconds=0))
    accept.accept(database, TENANT, GROUP, [m for hour in range(20) for m in conversation(2 * hour)])
    zora = [
        message(n, f"zebrafish diary, page {n}", id=f"d{n}", sender_id="test:zora", sender_name="Zora")
        for n in range(5)
    ]
    accept.accept(database, TENANT, DIRECT, zora)
    remember(database, TENANT, MemoryIn(scope="user", user_id="test:zora", content="keeps zebrafish"))
    remember(database, TENANT, MemoryIn(scope="organization", content="The boiler is old."))
    work(database, rules, POLICY)
    with database.tenant(TENANT) as connection:
        # derived from what Zora said
        connection.execute(
            text("""
                INSERT INTO memories (tenant_id, id, scope, type, content, content_hash, source_session_id)
                SELECT 'default', gen_random_uuid(), 'organization', 'fact', 'a zebrafish lives here', '', min(id)
                FROM conversation_sessions
            """)
        )
    work(database, rules, POLICY)
    edits.edit(database, TENANT, GROUP.chat_id, "g0-2", "my zebrafish moved", None, rules)
    assert everywhere(database, "zebrafish")
    assert {"memories.content", "memory_evidence.content"} <= set(everywhere(database, "Zebrafish Bay"))
    assert rows(database, "SELECT count(*) FROM memory_supersessions") == [(1,)]


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("remembered", fill) if "remembered" in request.fixturenames else MIGRATED


@pytest.fixture
def remembered(database: Database) -> Database:
    """This test's database, in which everything of `fill` is in memory."""
    return database


def everywhere(database: Database, words: str) -> list[str]:
    """The columns, of all tables that Postgres knows of, in which a text stands."""
    with database.tenant(TENANT) as connection:
        columns = connection.execute(
            text("""
                SELECT table_name, column_name, data_type FROM information_schema.columns
                WHERE table_schema = 'public' AND udt_name <> 'halfvec' ORDER BY 1, 2
            """)
        ).all()
        assert {table for table, _, _ in columns} >= set(TABLES)
        found = []
        for table, column, kind in columns:
            shown = f"encode({column}, 'escape')" if kind == "bytea" else f"CAST({column} AS text)"
            count = connection.scalar(
                text(f"SELECT count(*) FROM {table} WHERE {shown} ILIKE :words"), {"words": f"%{words}%"}
            )
            if count:
                found.append(f"{table}.{column}")
    return found


def finish(database: Database, rules: SessionPolicy, policy: Policy) -> None:
    run(database, "forget", forget.forgetter(database, rules), policy)


def forgotten(database: Database, subject: Subject, rules: SessionPolicy, policy: Policy) -> Receipt:
    receipt = forget.start(database, TENANT, subject)
    finish(database, rules, policy)
    return forget.get(database, TENANT, receipt.id)


def test_nothing_of_a_forgotten_user_stands_in_any_column_of_any_table(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    assert forget.plan(remembered, TENANT, ZORA) == {"messages": 45, "chats": 2, "memories": 3, "queries": 0}
    receipt = forgotten(remembered, ZORA, rules, policy)
    for _ in ("at once", "and when all is summarized and embedded again"):
        for words in ("zebrafish", "Rua Augusta", "zora"):
            assert everywhere(remembered, words) == []
        work(remembered, rules, policy)
    assert receipt.finished_at is not None
    assert {k: receipt.counts[k] for k in ("messages", "sessions", "memories")} == {
        "messages": 45,
        "sessions": 21,
        "memories": 4,
    }
    assert "jobs" in receipt.counts
    assert receipt.counts["looked_for"] > 0
    assert (receipt.counts["found_again_texts"], receipt.counts["found_again_vectors"]) == (0, 0)


def test_what_others_said_beside_a_forgotten_user_stays_and_is_summarized_anew(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    forgotten(remembered, ZORA, rules, policy)
    work(remembered, rules, policy)
    assert rows(
        remembered,
        """SELECT count(*), min(message_count), min(status), count(summary_text), count(v.session_id)
        FROM conversation_sessions s LEFT JOIN session_vectors v ON v.session_id = s.id""",
    ) == [(20, 6, "summarized", 20, 20)]
    assert rows(remembered, "SELECT count(*) FROM message_vectors") == [(120,)]
    assert rows(
        remembered,
        """SELECT message_count, lexeme_count = (SELECT coalesce(sum(length(tsv)), 0) FROM messages m
            WHERE m.chat_id = c.chat_id) FROM chats c ORDER BY chat_id""",
    ) == [(0, True), (120, True)]
    assert rows(remembered, "SELECT content FROM memories") == [("The boiler is old.",)]


def test_what_a_forgotten_user_had_sent_never_comes_back_and_what_they_say_later_is_kept(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    forgotten(remembered, ZORA, rules, policy)
    again = accept.accept(remembered, TENANT, GROUP, conversation(0))
    assert (again.new, again.duplicates, again.kept_out) == (0, 6, 2)
    # nor by another id, nor by an edit
    renamed = conversation(0)[2].model_copy(update={"external_id": "imported"})
    assert accept.accept(remembered, TENANT, GROUP, [renamed]).kept_out == 1
    assert (
        edits.edit(remembered, TENANT, GROUP.chat_id, "g0-2", "zebrafish", None, rules).outcome == "kept_out"
    )
    assert everywhere(remembered, "zebrafish") == []
    now = rows(remembered, "SELECT now()")[0][0]
    later = renamed.model_copy(update={"external_id": "later", "sent_at": now, "content": "hello again"})
    assert accept.accept(remembered, TENANT, GROUP, [later]).new == 1


def test_a_message_that_said_it_was_sent_in_the_future_stays_forgotten(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    ahead = message(60 * 24 * 365 * 50, "zebrafish of the future", id="f", sender_id="test:zora")
    accept.accept(database, TENANT, GROUP, [ahead])
    for subject in (Subject(kind="chat", chat_id=GROUP.chat_id), ZORA):
        forgotten(database, subject, rules, policy)
        assert accept.accept(database, TENANT, GROUP, [ahead]).kept_out == 1


class Killed(BaseException):
    """The process ends here."""


def test_a_forgetting_that_was_killed_is_finished_by_the_next_run(
    remembered: Database, rules: SessionPolicy, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_steps, "BATCH", 7)
    erase_messages, calls = erase.erase_messages, 0

    def until_killed(*given: object, **options: object) -> erase.Erased:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise Killed
        return erase_messages(*given, **options)  # type: ignore[arg-type]

    receipt = forget.start(remembered, TENANT, ZORA)
    monkeypatch.setattr(erase, "erase_messages", until_killed)
    with pytest.raises(Killed):
        finish(remembered, rules, policy)
    left = rows(remembered, "SELECT count(*) FROM messages WHERE sender_id = 'test:zora'")[0][0]
    assert 0 < left < 45  # type: ignore[operator]
    # meanwhile nothing comes back
    assert accept.accept(remembered, TENANT, GROUP, conversation(0)).kept_out == 2
    finish(remembered, rules, policy)
    work(remembered, rules, policy)
    assert everywhere(remembered, "zora") == everywhere(remembered, "zebrafish") == []
    assert forget.get(remembered, TENANT, receipt.id).counts["messages"] == 45


def test_a_forgetting_that_takes_long_goes_on_in_turns(
    remembered: Database, rules: SessionPolicy, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_steps, "BATCH", 20)
    monkeypatch.setattr(forget_job, "SECONDS_AT_ONCE", 0.0)
    forget.start(remembered, TENANT, ZORA)
    outcome = runner.run(remembered, "forget", forget.forgetter(remembered, rules), policy)
    assert "forget" in outcome.follows
    finish(remembered, rules, policy)
    assert everywhere(remembered, "zora") == []


def test_a_forgotten_chat_leaves_no_trace_and_the_others_stay(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    edits.edit(remembered, TENANT, DIRECT.chat_id, "never comes", "secret", None, rules)
    remember(remembered, TENANT, MemoryIn(scope="organization", content="secret", learned_in=DIRECT.chat_id))
    receipt = forgotten(remembered, Subject(kind="chat", chat_id=DIRECT.chat_id), rules, policy)
    assert (receipt.counts["messages"], receipt.counts["chats"]) == (5, 1)
    assert everywhere(remembered, "test:direct") == everywhere(remembered, "secret") == []
    assert rows(remembered, "SELECT count(*) FROM messages") == [(160,)]
    again = accept.accept(remembered, TENANT, DIRECT, [message(1, "an old message", id="d1")])
    assert again.kept_out == 1
    late = edits.edit(remembered, TENANT, DIRECT.chat_id, "d1", "an old edit", at(2), rules)
    assert late.outcome == "kept_out"
    assert everywhere(remembered, "test:direct") == []
    now = rows(remembered, "SELECT now()")[0][0]
    assert accept.accept(remembered, TENANT, DIRECT, [message(0, "new", sent_at=now)]).new == 1


def test_a_forgotten_tenant_keeps_its_receipts_alone(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    accept.accept(remembered, "other", GROUP, conversation(0))
    receipt = forgotten(remembered, Subject(kind="tenant"), rules, policy)
    assert receipt.counts["messages"] == 165
    left = {name: rows(remembered, f"SELECT count(*) FROM {name}")[0][0] for name in OF_TENANTS}
    assert {name for name, count in left.items() if count} == {
        "tenants",
        "tenant_keys",
        "suppression_list",
        "forget_receipts",
        "daily_counters",
    }
    assert rows(remembered, "SELECT DISTINCT name FROM daily_counters") == [("forgotten",)]
    with remembered.tenant("other") as connection:
        assert connection.scalar(text("SELECT count(*) FROM messages")) == 8


def test_keys_name_no_forgotten_chat_and_those_of_a_whole_tenant_go_on_without_their_labels(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    def kept() -> list[tuple[str, list[str] | None]]:
        return [(key.label, key.chats) for key in reversed(api_keys.listing(remembered, TENANT))]

    chats = [DIRECT.chat_id, GROUP.chat_id]
    for label, given in (("Зора's own", chats[:1]), ("zora's", chats), ("everybody's", None)):
        api_keys.create(remembered, TENANT, KeyIn(label=label, scopes=["ingest"], chats=given))
    # a chat that is only removed may be imported again
    receipt = forget.remove(remembered, TENANT, DIRECT.chat_id)
    finish(remembered, rules, policy)
    assert kept() == [("Зора's own", chats[:1]), ("zora's", chats), ("everybody's", None)]
    accept.accept(remembered, TENANT, DIRECT, [message(2, "again", id="again")])
    forgotten(remembered, Subject(kind="chat", chat_id=DIRECT.chat_id), rules, policy)
    assert kept() == [("Зора's own", []), ("zora's", [GROUP.chat_id]), ("everybody's", None)]
    forgotten(remembered, Subject(kind="tenant"), rules, policy)
    assert kept() == [("", None)]
    assert forget.get(remembered, TENANT, receipt.id).finished_at


def test_the_sources_of_a_forgotten_tenant_go_on_without_their_labels(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    with remembered.tenant(TENANT) as connection:
        event_sources.add(connection, TENANT, "hook", "telegram", "Zora's group", "a secret of its own")
    forgotten(remembered, Subject(kind="tenant"), rules, policy)
    assert rows(remembered, "SELECT source_id, label FROM sources") == [("hook", "")]


def test_a_single_message_can_be_forgotten_with_a_receipt(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    subject = Subject(kind="message", chat_id=DIRECT.chat_id, external_id="d3")
    assert forget.plan(remembered, TENANT, subject) == {
        "messages": 1,
        "chats": 1,
        "memories": 0,
        "queries": 0,
    }
    receipt = forgotten(remembered, subject, rules, policy)
    assert receipt.counts["messages"] == 1
    assert everywhere(remembered, "page 3") == []
    # what is forgotten twice was not there the second time
    assert forgotten(remembered, subject, rules, policy).counts.get("messages", 0) == 0


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "user"},
        {"kind": "user", "sender_id": ""},
        {"kind": "chat", "sender_id": "test:zora"},
        {"kind": "tenant", "chat_id": "test:1"},
        {"kind": "message", "chat_id": "test:1"},
    ],
)
def test_what_is_to_be_forgotten_must_be_said_in_full(given: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        parse_payload(Subject, given)
