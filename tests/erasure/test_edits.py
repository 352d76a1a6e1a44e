"""Edits and deletions, whenever they come: what is stored is what was said last, and nothing is made of what was."""

import itertools

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.erasure import edits
from pipeline.ingest import accept
from pipeline.jobs import runner
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.conftest import POLICY, SESSION_POLICY, TENANT, also_partitioned, at, message
from tests.harness.pipeline import CHAT, Meanwhile, embed_all, place, rows, work


def edit(database: Database, id: str, content: str, minute: float) -> edits.Changed:  # noqa: A002
    return edits.edit(database, TENANT, edits.NewText(CHAT.chat_id, id, content, at(minute)), SESSION_POLICY)


def delete(database: Database, id: str) -> edits.Changed:  # noqa: A002
    return edits.delete(database, TENANT, CHAT.chat_id, id, SESSION_POLICY)


@pytest.fixture
def remembered(database: Database) -> Database:
    """One session of nine messages, summarized and embedded; the plumber is in the middle of it."""
    said = [message(n, f"the boiler shows error E{40 + n} again", id=f"m{n}") for n in range(9)]
    said[4] = message(4, "the plumber is called Beatriz and costs 90 euros", id="m4")
    accept.accept(database, TENANT, CHAT, said)
    work(database)
    assert "Beatriz" in str(rows(database, "SELECT summary_text FROM conversation_sessions"))
    return database


# Edits


def test_a_late_edit_takes_the_place_of_the_old_text_everywhere(remembered: Database) -> None:
    done = edit(remembered, "m4", "the plumber is called Carlota and costs 70 euros", 60)
    assert (done.outcome, done.follows) == ("edited", {"embed", "extract", "summarize"})
    # at once nothing speaks of the old text
    assert rows(remembered, "SELECT summary_text, search_text, status FROM conversation_sessions") == [
        (None, "", "closed")
    ]
    assert rows(remembered, "SELECT count(*) FROM message_vectors") == [(8,)]
    assert rows(remembered, "SELECT count(*) FROM session_vectors") == [(0,)]
    assert rows(
        remembered, "SELECT count(*) FROM messages WHERE tsv @@ to_tsquery('english', 'carlota')"
    ) == [(1,)]
    # and then everything of the new one
    work(remembered)
    assert "Carlota" in str(rows(remembered, "SELECT summary_text FROM conversation_sessions"))
    assert rows(remembered, "SELECT count(*) FROM message_vectors") == [(9,)]
    assert rows(remembered, "SELECT count(*) FROM session_vectors") == [(1,)]


def test_edits_and_the_message_give_the_same_in_every_order(database: Database) -> None:
    for number, order in enumerate(itertools.permutations(["message", 10, 20])):
        chat = ChatIn(chat_id=f"test:{number}")
        for step in order:
            if step == "message":
                accept.accept(database, TENANT, chat, [message(0, "first", id="m")])
                if number % 2:
                    place(database)
            else:
                edits.edit(
                    database,
                    TENANT,
                    edits.NewText(chat.chat_id, "m", f"edited {step}", at(float(step))),
                    SESSION_POLICY,
                )  # type: ignore[arg-type]
    place(database)
    assert rows(database, "SELECT DISTINCT content, edited_at FROM messages") == [("edited 20", at(20))]
    assert rows(database, "SELECT count(*) FROM pending_changes") == [(0,)]
    assert rows(
        database,
        """SELECT DISTINCT s.token_count = m.token_count, c.lexeme_count = length(m.tsv), c.message_count
        FROM messages m JOIN chats c USING (chat_id) JOIN conversation_sessions s USING (chat_id)""",
    ) == [(True, True, 1)]


def test_edits_that_come_ahead_all_at_once_wait_for_their_messages_and_others_are_returned(
    database: Database,
) -> None:
    there, unknown = CHAT.chat_id, "test:未知"
    said = [
        message(n, text, id=f"m{n}") for n, text in enumerate(["der Schlüssel", "ключ в саду", "鍵は駅に"])
    ]
    accept.accept(database, TENANT, CHAT, said)
    edit(database, "m1", "ключ в порту", 5)
    delete(database, "weg")
    given = [
        edits.NewText(there, "m1", "ключ в порту", at(5)),
        edits.NewText(there, "neu", "älter", at(3)),
        edits.NewText(there, "neu", "neuer, token ghp_16C7e42F292c6912E7710c838347Ae178B4a", at(4)),
        edits.NewText(there, "fremd", "von wem anders", at(4), by="test:eve"),
        # these have to be made one by one
        edits.NewText(there, "m2", "鍵は港に", at(5)),
        edits.NewText(there, "m1", "ключ в порту", at(6)),
        edits.NewText(there, "weg", "geleert", at(5)),
        edits.NewText(unknown, "a", "x", at(5)),
        edits.NewText(there, "b", "ohne Zeit", None),
    ]
    for _ in range(2):
        assert edits.edit_ahead(database, TENANT, given) == given[4:]
    accept.accept(database, TENANT, CHAT, [message(9, "alt", id=name) for name in ("neu", "fremd", "weg")])
    texts = dict(rows(database, "SELECT external_id, content FROM messages"))  # type: ignore[arg-type]
    assert texts == {
        "m0": "der Schlüssel",
        "m1": "ключ в порту",
        "m2": "鍵は駅に",
        "neu": "neuer, token [masked: github token]",
        "fremd": "alt",
    }


def test_a_vector_of_the_old_text_that_is_in_flight_is_thrown_away(database: Database) -> None:
    accept.accept(database, TENANT, CHAT, [message(0, "the old text", id="m")])
    place(database)
    client = Meanwhile(lambda: edit(database, "m", "the new text", 5))
    outcome = runner.run(database, "embed", embed.embedder(database, client), POLICY)
    assert outcome.failed == 0
    assert rows(database, "SELECT count(*) FROM message_vectors") == [(0,)]
    embed_all(database, client)
    wanted = DeterministicEmbedder().embed_documents(["Ann: the new text"])[0]
    found = rows(database, "SELECT (embedding::real[])[1] FROM message_vectors")
    assert found[0][0] == pytest.approx(wanted[0], abs=1e-3)


# Deletions


@also_partitioned
def test_a_deleted_message_is_gone_with_all_that_was_made_of_it(remembered: Database) -> None:
    assert delete(remembered, "m4").outcome == "deleted"
    for _ in ("at once", "and for good"):
        for table in ("messages", "conversation_sessions"):
            assert "Beatriz" not in str(rows(remembered, f"SELECT * FROM {table}"))
        assert rows(remembered, "SELECT count(*) FROM message_vectors") == [(8,)]
        work(remembered)
    assert rows(
        remembered,
        """SELECT c.message_count, c.lexeme_count = (SELECT sum(length(tsv)) FROM messages), s.message_count, s.status
        FROM chats c JOIN conversation_sessions s USING (chat_id)""",
    ) == [(8, True, 8, "summarized")]
    # and so is one that has no place yet
    accept.accept(remembered, TENANT, CHAT, [message(9, id="m9")])
    assert delete(remembered, "m9").outcome == "deleted"
    place(remembered)
    counts = (
        "SELECT c.message_count, s.message_count FROM chats c JOIN conversation_sessions s USING (chat_id)"
    )
    assert rows(remembered, counts) == [(8, 8)]


def test_a_message_deleted_before_it_comes_never_comes(database: Database) -> None:
    edit(database, "m1", "secret", 5)
    delete(database, "m1")
    assert rows(database, "SELECT count(*) FROM pending_changes") == [(0,)]
    assert edit(database, "m1", "secret again", 6).outcome == "kept_out"
    accepted = accept.accept(database, TENANT, CHAT, [message(1, "secret", id="m1"), message(2)])
    assert (accepted.new, accepted.duplicates, accepted.kept_out) == (1, 0, 1)
    assert rows(database, "SELECT external_id FROM messages") == [("m2",)]
    # and what keeps it out names nothing
    assert "m1" not in str(rows(database, "SELECT kind, encode(hash, 'escape') FROM suppression_list"))
