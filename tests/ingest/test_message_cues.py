"""What a message is by its text only is stored when it is placed, and is that of its present text and language."""

import pytest
from sqlalchemy import text

from pipeline.erasure import edits
from pipeline.ingest import accept, languages
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from pipeline.store.search import candidate_rows
from pipeline.store.search.filters import Scope
from pipeline.text.cues import message_cues
from pipeline.text.cues.message_cues import MessageCues
from schemas.messages import ChatIn
from tests.conftest import TENANT, message
from tests.ingest.test_chat_moves import move
from tests.test_pipeline import place

CHAT = ChatIn(chat_id="test:1")
TEXTS = {
    "m0": "when does the plumber come?",
    "m1": "ok decided: we take Beatriz, on thursday at 18:30",
    "m2": "wann kommst du",
    "m3": "I don't know.",
}


@pytest.fixture
def said(database: Database, rules: SessionPolicy, policy: Policy) -> Database:
    some = [message(number, each, id=name) for number, (name, each) in enumerate(TEXTS.items())]
    accept.accept(database, TENANT, CHAT, some)
    assert stored(database) == {}
    place(database, rules, policy)
    return database


def stored(database: Database) -> dict[str, MessageCues]:
    """The stored cues of messages, by their external ids."""
    statement = """SELECT m.external_id, c.asks, c.flags FROM message_cues c
        JOIN messages m ON m.id = c.message_id AND m.chat_id = c.chat_id"""
    with database.tenant(TENANT) as connection:
        return {row[0]: MessageCues.stored(row[1], row[2]) for row in connection.execute(text(statement))}


def test_what_is_placed_is_read_once_and_ranking_takes_it_from_there(said: Database) -> None:
    assert stored(said) == {name: message_cues.read(each, "english") for name, each in TEXTS.items()}
    assert stored(said)["m1"] == MessageCues(0.0, True, True, False)
    with said.tenant(TENANT) as connection:
        connection.execute(text("DELETE FROM message_cues WHERE asks = 1"))
        ids = list(connection.execute(text("SELECT id FROM messages")).scalars())
        rows = candidate_rows.with_neighbours(
            connection, Scope(chat_id="test:1", language="english"), ids, 2, [], [None]
        )
    # what is missing is read at the question
    assert {external_id: flags is None for _, external_id, *_, flags, _, _ in rows} == {
        name: message_cues.read(each, "english").asks == 1 for name, each in TEXTS.items()
    }


def test_an_edit_replaces_them_also_one_by_the_version_before(said: Database, rules: SessionPolicy) -> None:
    edits.edit(said, TENANT, "test:1", "m0", "he comes at noon", None, rules)
    assert stored(said)["m0"] == message_cues.read("he comes at noon", "english")
    # which knows of no cues
    with said.tenant(TENANT) as connection:
        connection.execute(text("UPDATE messages SET content = 'does he?' WHERE external_id = 'm0'"))
    assert "m0" not in stored(said)


def test_what_is_deleted_takes_them_with_it(said: Database, rules: SessionPolicy) -> None:
    assert edits.delete(said, TENANT, "test:1", "m1", rules).outcome == "deleted"
    with said.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT count(*) FROM message_cues")) == 3
    assert "m1" not in stored(said)


def test_another_language_of_the_chat_reads_them_anew(said: Database, rules: SessionPolicy) -> None:
    assert stored(said)["m2"].asks == 0
    languages.change(said, TENANT, "test:1", "german", rules)
    assert stored(said) == {name: message_cues.read(each, "german") for name, each in TEXTS.items()}
    assert stored(said)["m2"].asks == 1


def test_a_moved_chat_keeps_them(said: Database, rules: SessionPolicy, policy: Policy) -> None:
    before = stored(said)
    move(said, rules, policy, "test:1", "test:2")
    assert stored(said) == {f"test:1/{name}": cues for name, cues in before.items()}
