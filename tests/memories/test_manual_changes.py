"""What is known is put right by hand: other words, a wider scope, what is true instead; history stays."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.ingest import accept
from pipeline.jobs import runner
from pipeline.memories import statements
from pipeline.people import suppression
from pipeline.store.connections.database import Database
from pipeline.store.memories import memory_rows
from schemas.errors import Conflict, InvalidInput, NotFound
from schemas.memories import MemoryCorrection, MemoryEdit, MemoryIn, MemoryPromotion
from schemas.messages import ChatIn
from tests.conftest import POLICY, TENANT, message
from tests.harness.pipeline import place, rows
from tests.memories.learned import change, evidence

HOUSE, ALONE = ChatIn(chat_id="test:house"), ChatIn(chat_id="test:alone", kind="direct")
ANN = "test:ann"
LONG_AGO = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)

Say = Callable[..., UUID]


@pytest.fixture
def say(database: Database) -> Say:
    """Writes a memory of Ann's that was said in March, and returns its id."""
    for chat in (HOUSE, ALONE):
        accept.accept(database, TENANT, chat, [message(0)])

    def write(content: str = "Ann lives in Porto.", **fields: Any) -> UUID:
        given = {"scope": "user", "user_id": ANN, "said_at": LONG_AGO, "content": content} | fields
        written = statements.remember(database, TENANT, MemoryIn.model_validate(given))
        assert written.id is not None
        return written.id

    return write


def edges(database: Database) -> set[tuple[UUID, UUID]]:
    return {
        (old, new) for old, new in rows(database, "SELECT memory_id, superseded_by FROM memory_supersessions")
    }


def of(database: Database, identity: UUID, columns: str) -> Any:
    with database.tenant(TENANT) as connection:
        return connection.execute(
            text(f"SELECT {columns} FROM memories WHERE id = :id"), {"id": identity}
        ).one()


def edit(database: Database, identity: UUID, **fields: Any) -> statements.MemoryChange:
    return statements.edit(database, TENANT, identity, MemoryEdit(**fields))


def correct(database: Database, identity: UUID, **fields: Any) -> statements.MemoryChange:
    return statements.correct(database, TENANT, identity, MemoryCorrection(**fields))


def promote(database: Database, identity: UUID, **fields: Any) -> statements.MemoryChange:
    return statements.promote(database, TENANT, identity, MemoryPromotion(**fields))


def learned(database: Database, identity: UUID) -> None:
    """Let a memory be one that was learned from a message."""
    change(database, identity, learned_by="rules-v1", attribute="home")
    evidence(database, identity, f"{HOUSE.chat_id}/m0")


def test_other_words_are_embedded_again_and_keep_their_evidence(database: Database, say: Say) -> None:
    tea = say("Ann likes tea.", type="preference")
    learned(database, tea)
    embedding = embed.embedder(database, DeterministicEmbedder())
    runner.run(database, "embed", embedding, POLICY)
    before = rows(database, "SELECT content_hash FROM memory_vectors")
    changed = edit(database, tea, content="Ann likes green tea.", importance=8, metadata={"by": "me"})
    assert (changed.outcome, changed.id) == ("edited", tea)
    kept = ("Ann likes green tea.", "preference", "rules-v1", 8, {"by": "me"}, True)
    assert of(database, tea, "content, type, learned_by, importance, metadata, edited_at IS NOT NULL") == kept
    assert rows(database, "SELECT count(*) FROM memory_evidence") == [(1,)]
    # the former words are not found by their meaning any more
    assert rows(database, "SELECT count(*) FROM memory_vectors") == [(0,)]
    runner.run(database, "embed", embedding, POLICY)
    after = rows(database, "SELECT content_hash FROM memory_vectors")
    assert len(after) == 1
    assert after != before


def test_a_change_that_cannot_be_says_why(database: Database, say: Say) -> None:
    porto, braga = say(), say("Ann lives in Braga.")
    with pytest.raises(Conflict, match=f"memory {braga} of the same user says this already"):
        edit(database, porto, content="ann  lives in BRAGA.")
    answer = say("Where? Porto.", type="qa_turn", metadata={"recalled": ["memory:1"]})
    for wrong in ({"content": "Braga."}, {"metadata": {"recalled": []}}):
        with pytest.raises(InvalidInput, match="question and answer"):
            edit(database, answer, **wrong)
    chunk = say("Rule 1.", type="document", document_id="rules")
    with pytest.raises(InvalidInput, match="part of a document"):
        edit(database, chunk, importance=1)
    with pytest.raises(InvalidInput, match="said_at: must be after 2026-03-02T18:00:00"):
        correct(database, porto, said_at=LONG_AGO)
    with pytest.raises(InvalidInput, match="content: these are the memory's own words"):
        correct(database, porto, content="Ann lives in PORTO.")
    suppression.remember_user(database, TENANT, ANN, remembered=False)
    assert edit(database, porto, content="Ann lives in Lisbon.").outcome == "kept_out"
    assert of(database, porto, "content") == ("Ann lives in Porto.",)


def test_a_correction_supersedes_and_is_shown_where_that_was(database: Database, say: Say) -> None:
    porto = say(type="fact", learned_in=HOUSE.chat_id, importance=7)
    learned(database, porto)
    done = correct(database, porto, content="Ann lives in Braga.")
    assert done.outcome == "corrected"
    assert edges(database) == {(porto, done.id)}
    assert of(
        database, done.id, "content, user_id, type, attribute, source, importance, learned_in, learned_by"
    ) == ("Ann lives in Braga.", ANN, "fact", "home", "correction", 7, HOUSE.chat_id, "")
    assert of(database, porto, "content, retracted_at") == ("Ann lives in Porto.", None)
    # When that is wrong, too
    third = correct(database, done.id, content="Ann lives in Faro.", chat_id=ALONE.chat_id)
    assert of(database, third.id, "learned_in, also_in") == (ALONE.chat_id, [])
    # Then the first stays superseded even when the second is removed
    assert edges(database) == {(porto, done.id), (done.id, third.id), (porto, third.id)}
    statements.delete(database, TENANT, done.id)
    assert edges(database) == {(porto, third.id)}


def test_what_is_wrong_stays_as_history_and_gives_back(database: Database, say: Say) -> None:
    porto = say()
    braga = correct(database, porto, content="Ann lives in Braga.").id
    say("Where does Ann live? In Braga.", type="qa_turn", metadata={"recalled": [f"memory:{braga}"]})
    other = say("When is tea? At four.", type="qa_turn", metadata={"recalled": ["message:1"]})
    done = correct(database, braga)
    assert (done.outcome, done.id) == ("retracted", braga)
    assert edges(database) == set()
    (since,) = of(database, braga, "retracted_at")
    assert since is not None
    # and answers that rest on it go
    assert rows(database, "SELECT id FROM memories WHERE type = 'qa_turn'") == [(other,)]
    with pytest.raises(Conflict, match="known to be wrong since"):
        edit(database, braga, importance=1)


def test_a_memory_gets_a_wider_scope_and_stays_where_it_was_learned(database: Database, say: Say) -> None:
    mine = say("The key is under the mat.", learned_in=HOUSE.chat_id)
    same = say("Tea is at four.", scope="organization", user_id=None)
    with pytest.raises(InvalidInput, match="scope user, and can be promoted to agent or organization"):
        promote(database, mine, scope="user", user_id=ANN)
    promote(database, mine, scope="agent", agent_id="helper")
    assert of(database, mine, "scope, user_id, agent_id") == ("agent", None, "helper")
    assert promote(database, mine, scope="organization").outcome == "promoted"
    assert of(database, mine, "scope, agent_id, learned_in") == ("organization", None, HOUSE.chat_id)
    with pytest.raises(Conflict, match=f"memory {same} of the same organization says this already"):
        promote(database, say("Tea is at four."), scope="organization")


def test_a_sessions_memory_lives_on_while_it_is_used(database: Database, say: Say) -> None:
    place(database)
    ((session,),) = rows(database, "SELECT id FROM conversation_sessions WHERE chat_id = 'test:house'")
    note = MemoryIn(scope="session", session_id=session, content="The code is 4711.")
    in_an_hour = datetime.now(UTC) + timedelta(minutes=60)
    ends = note.model_copy(update={"content": "The door is open.", "expires_at": in_an_hour})

    def left() -> list[int]:
        minutes = "round(extract(epoch FROM expires_at - now()) / 60)"
        return [int(of(database, identity, minutes)[0]) for identity in (sliding, fixed)]

    def pass_time(minutes: int) -> None:
        earlier = f"UPDATE memories SET expires_at = expires_at - interval '{minutes} min'"
        rows(database, earlier)

    sliding, fixed = (
        statements.remember(database, TENANT, memory, session_lifetime=timedelta(minutes=60)).id
        for memory in (note, ends)
    )
    assert sliding is not None
    assert fixed is not None
    # Given half of their hour has passed, when both are shown
    pass_time(30)
    assert left() == [30, 30]
    with database.tenant(TENANT) as connection:
        memory_rows.touch(connection, [str(sliding), str(fixed)])
    # Then only the one without an expiry of its own has another hour
    assert left() == [60, 30]
    # but what is the user's does not end with the session
    promote(database, sliding, scope="user", user_id=ANN)
    assert of(database, sliding, "session_id, expires_at, learned_in") == (None, None, HOUSE.chat_id)
    # what has expired is not there to be changed
    pass_time(60)
    with pytest.raises(NotFound):
        promote(database, fixed, scope="user", user_id=ANN)


@pytest.mark.parametrize(
    ("content", "again"),
    [
        ("Ann drinks tea.", "ann drinks  TEA"),
        ("Анна живёт в Порту", "анна живёт в порту."),
        ("アンは猫が好き。", "アンは猫が好き"),
        ("آنا تحب القطط", "آنا تحب القطط ۔"),
    ],
)
def test_statements_that_differ_in_case_and_full_stop_are_one(say: Say, content: str, again: str) -> None:
    assert say(content) == say(again)
    assert say(content) != say(f"{content}?")
