"""Forgetting is for good: nothing is left, nothing comes back, and a kill in the middle changes neither."""

import pytest
from sqlalchemy import text

from pipeline.erasure import derived, edits, forget, forget_steps
from pipeline.erasure.forget import forget_again, suppressed
from pipeline.ingest import accept
from pipeline.memories import statements
from pipeline.memories.statements import remember
from pipeline.operations import transfer
from pipeline.people import api_keys, suppression
from pipeline.store.api_keys import add_source, find
from pipeline.store.connections.database import Database
from schemas.bots import KeyIn, Rotation, SourceIn
from schemas.memories import MemoryCorrection, MemoryIn, MemoryPromotion
from schemas.people import Subject
from tests.conftest import MIGRATED, SESSION_POLICY, TENANT, Templates, also_partitioned, at, message
from tests.harness.forgetting import (
    DIRECT,
    GROUP,
    ZORA,
    conversation,
    everywhere,
    fill,
    forgotten,
    work,
)
from tests.harness.pipeline import forget_all, rows
from tests.tables import OF_TENANTS


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("remembered", fill) if "remembered" in request.fixturenames else MIGRATED


@pytest.fixture
def remembered(database: Database) -> Database:
    """This test's database, in which everything of `fill` is in memory."""
    return database


@also_partitioned
def test_nothing_of_a_forgotten_user_stands_in_any_column_of_any_table(remembered: Database) -> None:
    assert forget.plan(remembered, TENANT, ZORA) == {"messages": 25, "chats": 2, "memories": 3, "queries": 0}
    receipt = forgotten(remembered, ZORA)
    for _ in ("at once", "and when all is summarized and embedded again"):
        for words in ("zebrafish", "Rua Augusta", "zora"):
            assert everywhere(remembered, words) == []
        work(remembered)
    assert receipt.finished_at is not None
    assert {k: receipt.counts[k] for k in ("messages", "sessions", "memories")} == {
        "messages": 25,
        "sessions": 11,
        "memories": 4,
    }
    assert "jobs" in receipt.counts
    assert receipt.counts["looked_for"] > 0
    assert (receipt.counts["found_again_texts"], receipt.counts["found_again_vectors"]) == (0, 0)
    # what others said beside her stays, and is summarized anew
    assert rows(
        remembered,
        """SELECT count(*), min(message_count), min(status), count(summary_text), count(v.session_id)
        FROM conversation_sessions s LEFT JOIN session_vectors v ON v.session_id = s.id""",
    ) == [(10, 6, "summarized", 10, 10)]
    assert rows(remembered, "SELECT count(*) FROM message_vectors") == [(60,)]
    assert rows(
        remembered,
        """SELECT message_count, lexeme_count = (SELECT coalesce(sum(length(tsv)), 0) FROM messages m
            WHERE m.chat_id = c.chat_id) FROM chats c ORDER BY chat_id""",
    ) == [(0, True), (60, True)]
    assert rows(remembered, "SELECT content FROM memories") == [("The boiler is old.",)]
    # and what she had sent never comes back
    again = accept.accept(remembered, TENANT, GROUP, conversation(0))
    assert (again.new, again.duplicates, again.kept_out) == (0, 6, 2)
    # nor by another id, nor by an edit
    renamed = conversation(0)[2].model_copy(update={"external_id": "imported"})
    assert accept.accept(remembered, TENANT, GROUP, [renamed]).kept_out == 1
    edited = edits.edit(
        remembered, TENANT, edits.NewText(GROUP.chat_id, "g0-2", "zebrafish", None), SESSION_POLICY
    )
    assert edited.outcome == "kept_out"
    assert everywhere(remembered, "zebrafish") == []
    now = rows(remembered, "SELECT now()")[0][0]
    later = renamed.model_copy(update={"external_id": "later", "sent_at": now, "content": "hello again"})
    assert accept.accept(remembered, TENANT, GROUP, [later]).new == 1


def test_a_message_that_said_it_was_sent_in_the_future_stays_forgotten(database: Database) -> None:
    ahead = message(60 * 24 * 365 * 50, "zebrafish of the future", id="f", sender_id="test:zora")
    accept.accept(database, TENANT, GROUP, [ahead])
    for subject in (Subject(kind="chat", chat_id=GROUP.chat_id), ZORA):
        forgotten(database, subject)
        assert accept.accept(database, TENANT, GROUP, [ahead]).kept_out == 1


class Killed(BaseException):
    """The process ends here."""


def test_a_killed_forgetting_is_finished(remembered: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget_steps, "BATCH", 4)
    erase_messages, calls = derived.erase_messages, 0

    def until_killed(*given: object, **options: object) -> derived.Erased:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise Killed
        return erase_messages(*given, **options)  # type: ignore[arg-type]

    receipt = forget.start(remembered, TENANT, ZORA)
    monkeypatch.setattr(derived, "erase_messages", until_killed)
    with pytest.raises(Killed):
        forget_all(remembered)
    left = rows(remembered, "SELECT count(*) FROM messages WHERE sender_id = 'test:zora'")[0][0]
    assert 0 < left < 25  # type: ignore[operator]
    # meanwhile nothing comes back
    assert accept.accept(remembered, TENANT, GROUP, conversation(0)).kept_out == 2
    forget_all(remembered)
    work(remembered)
    assert everywhere(remembered, "zora") == everywhere(remembered, "zebrafish") == []
    assert forget.get(remembered, TENANT, receipt.id).counts["messages"] == 25


def test_a_forgotten_chat_leaves_no_trace_and_the_others_stay(remembered: Database) -> None:
    edits.edit(
        remembered, TENANT, edits.NewText(DIRECT.chat_id, "never comes", "secret", None), SESSION_POLICY
    )
    remember(remembered, TENANT, MemoryIn(scope="organization", content="secret", learned_in=DIRECT.chat_id))
    receipt = forgotten(remembered, Subject(kind="chat", chat_id=DIRECT.chat_id))
    assert (receipt.counts["messages"], receipt.counts["chats"]) == (5, 1)
    assert everywhere(remembered, "test:direct") == everywhere(remembered, "secret") == []
    assert rows(remembered, "SELECT count(*) FROM messages") == [(80,)]
    again = accept.accept(remembered, TENANT, DIRECT, [message(1, "an old message", id="d1")])
    assert again.kept_out == 1
    late = edits.edit(
        remembered, TENANT, edits.NewText(DIRECT.chat_id, "d1", "an old edit", at(2)), SESSION_POLICY
    )
    assert late.outcome == "kept_out"
    assert everywhere(remembered, "test:direct") == []
    now = rows(remembered, "SELECT now()")[0][0]
    assert accept.accept(remembered, TENANT, DIRECT, [message(0, "new", sent_at=now)]).new == 1


def test_a_forgotten_tenant_keeps_its_receipts_alone(remembered: Database) -> None:
    accept.accept(remembered, "other", GROUP, conversation(0))
    receipt = forgotten(remembered, Subject(kind="tenant"))
    assert receipt.counts["messages"] == 85
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


def test_keys_and_sources_name_nothing_that_was_forgotten(remembered: Database) -> None:
    def kept() -> list[tuple[str, list[str] | None]]:
        return [(key.label, key.chats) for key in reversed(api_keys.listing(remembered, TENANT))]

    with remembered.tenant(TENANT) as connection:
        for name, given in (("hook", None), ("her hook", [DIRECT.chat_id])):
            hook = SourceIn(platform="telegram", label="Zora's group", chats=given)
            add_source(connection, TENANT, name, hook, "a secret of its own", None)
    chats = [DIRECT.chat_id, GROUP.chat_id]
    for label, given in (("Зора's own", chats[:1]), ("zora's", chats), ("everybody's", None)):
        api_keys.create(remembered, TENANT, KeyIn(label=label, scopes=["ingest"], chats=given))
    # a chat that is only removed may be imported again
    receipt = forget.remove(remembered, TENANT, DIRECT.chat_id)
    forget_all(remembered)
    assert kept() == [("Зора's own", chats[:1]), ("zora's", chats), ("everybody's", None)]
    accept.accept(remembered, TENANT, DIRECT, [message(2, "again", id="again")])
    forgotten(remembered, Subject(kind="chat", chat_id=DIRECT.chat_id))
    assert kept() == [("Зора's own", []), ("zora's", [GROUP.chat_id]), ("everybody's", None)]
    assert rows(remembered, "SELECT source_id, chats FROM sources ORDER BY chats") == [
        ("her hook", []),
        ("hook", None),
    ]
    forgotten(remembered, Subject(kind="tenant"))
    assert kept() == [("", None)]
    assert rows(remembered, "SELECT source_id, label FROM sources") == [("hook", "")]
    assert forget.get(remembered, TENANT, receipt.id).finished_at


def test_keys_that_have_ended_end_again_where_an_older_copy_is_restored(database: Database) -> None:
    # Given a key that was revoked, one whose secret was replaced, and one that goes on
    keys = [api_keys.create(database, TENANT, KeyIn(label=label, scopes=["read"])) for label in "abc"]
    api_keys.revoke(database, TENANT, keys[0].id)
    api_keys.rotate(database, TENANT, keys[1].id, Rotation(keep_hours=0))
    suppression.remember_user(database, TENANT, "test:dee", remembered=False)
    listed = suppressed(database, TENANT)
    assert listed is not None
    # When a copy of before comes back
    before = "UPDATE api_keys SET revoked_at = NULL, digest = coalesce(former_digest, digest)"
    rows(database, before)
    rows(database, "DELETE FROM suppression_list")
    forget_again(database, listed)
    with database.tenant("") as connection:
        found = find(connection, [api_keys.digest_of(key.key) for key in keys])
    assert [key.label for key in found.values()] == ["c"]


ANN = Subject(kind="user", sender_id="test:ann")
DIABETES = MemoryIn(scope="user", user_id="test:ann", content="Ann has diabetes.")


def test_what_everybody_may_know_of_somebody_and_what_corrects_it_goes_with_them(database: Database) -> None:
    # Given a memory of Ann's that an agent got, and then everybody, and which is corrected
    accept.accept(database, TENANT, GROUP, [message(0)])
    written = remember(database, TENANT, DIABETES)
    remember(database, TENANT, MemoryIn(scope="organization", content="The boiler is old."))
    assert written.id is not None
    for wanted in (MemoryPromotion(scope="agent", agent_id="helper"), MemoryPromotion(scope="organization")):
        assert statements.promote(database, TENANT, written.id, wanted).outcome == "promoted"
    since_may = MemoryCorrection(content="Ann has had diabetes since May.")
    statements.correct(database, TENANT, written.id, since_may)
    # Then her export has it, and nobody else's
    records = transfer.export_user(database, TENANT, "test:ann")
    told = {r["content"] for r in records if r["record"] == "memory"}
    assert told == {DIABETES.content, since_may.content}
    assert all(r["record"] != "memory" for r in transfer.export_user(database, TENANT, "test:bob"))
    # and it is forgotten with her
    assert forget.plan(database, TENANT, ANN)["memories"] == 2
    assert forgotten(database, ANN).counts["memories"] == 2
    assert everywhere(database, "diabetes") == []
    assert rows(database, "SELECT content FROM memories") == [("The boiler is old.",)]
    for again in (DIABETES, MemoryIn(scope="organization", content=DIABETES.content)):
        assert remember(database, TENANT, again).outcome == "kept_out"
