"""Edits and deletions, whenever they come: what is stored is what was said last, and nothing is made of what was."""

import itertools
import random
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.vectors import embed
from pipeline.erasure import edits
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.people import suppression
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.vectors import Vector
from tests.conftest import EPOCH, TENANT, message
from tests.ingest.test_sessions_stored import expected, stored
from tests.test_pipeline import CHAT, learns, place, rows, run, summarizer


def at(minute: float) -> datetime:
    return EPOCH + timedelta(minutes=minute)


def edit(database: Database, rules: SessionPolicy, id: str, content: str, minute: float) -> edits.Changed:  # noqa: A002
    return edits.edit(database, TENANT, CHAT.chat_id, id, content, at(minute), rules)


def delete(database: Database, rules: SessionPolicy, id: str) -> edits.Changed:  # noqa: A002
    return edits.delete(database, TENANT, CHAT.chat_id, id, rules)


def work(database: Database, rules: SessionPolicy, policy: Policy) -> None:
    place(database, rules, policy)
    run(database, "summarize", summarizer(database), policy)
    # what is learned is embedded, and then compared with what is known
    for _ in range(2):
        run(database, "extract", learns(database), policy)
        run(database, "embed", embed.embedder(database, DeterministicEmbedder()), policy)


@pytest.fixture
def remembered(database: Database, rules: SessionPolicy, policy: Policy) -> Database:
    """One session of nine messages, summarized and embedded; the plumber is in the middle of it."""
    said = [message(n, f"the boiler shows error E{40 + n} again", id=f"m{n}") for n in range(9)]
    said[4] = message(4, "the plumber is called Beatriz and costs 90 euros", id="m4")
    accept.accept(database, TENANT, CHAT, said)
    work(database, rules, policy)
    assert "Beatriz" in str(rows(database, "SELECT summary_text FROM conversation_sessions"))
    return database


# Edits


def test_a_late_edit_is_searched_summarized_and_embedded_in_place_of_the_old_text(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    done = edit(remembered, rules, "m4", "the plumber is called Carlota and costs 70 euros", 60)
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
    work(remembered, rules, policy)
    assert "Carlota" in str(rows(remembered, "SELECT summary_text FROM conversation_sessions"))
    assert rows(remembered, "SELECT count(*) FROM message_vectors") == [(9,)]
    assert rows(remembered, "SELECT count(*) FROM session_vectors") == [(1,)]


def test_edits_and_the_message_give_the_same_in_every_order(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    for number, order in enumerate(itertools.permutations(["message", 10, 20, 30])):
        chat = ChatIn(chat_id=f"test:{number}")
        for step in order:
            if step == "message":
                accept.accept(database, TENANT, chat, [message(0, "first", id="m")])
                if number % 2:
                    place(database, rules, policy)
            else:
                edits.edit(database, TENANT, chat.chat_id, "m", f"edited {step}", at(float(step)), rules)  # type: ignore[arg-type]
    place(database, rules, policy)
    assert rows(database, "SELECT DISTINCT content, edited_at FROM messages") == [("edited 30", at(30))]
    assert rows(database, "SELECT count(*) FROM pending_changes") == [(0,)]
    assert rows(
        database,
        """SELECT DISTINCT s.token_count = m.token_count, c.lexeme_count = length(m.tsv), c.message_count
        FROM messages m JOIN chats c USING (chat_id) JOIN conversation_sessions s USING (chat_id)""",
    ) == [(True, True, 1)]


def test_an_edit_from_a_clock_that_runs_ahead_does_not_win_for_ever(
    remembered: Database, rules: SessionPolicy
) -> None:
    edit(remembered, rules, "m4", "from the future", 60 * 24 * 365 * 50)
    edits.edit(remembered, TENANT, CHAT.chat_id, "m4", "from now", None, rules)
    assert rows(remembered, "SELECT content FROM messages WHERE external_id = 'm4'") == [("from now",)]


def test_an_edit_to_nothing_leaves_no_vector(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    assert edit(remembered, rules, "m4", "", 60).outcome == "edited"
    work(remembered, rules, policy)
    assert rows(remembered, "SELECT count(*) FROM message_vectors") == [(8,)]


class Interrupted(DeterministicEmbedder):
    """While it works somebody changes a message."""

    def __init__(self, database: Database, rules: SessionPolicy, change: object) -> None:
        super().__init__()
        self.change = change

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        if callable(self.change):
            change, self.change = self.change, None
            change()
        return super().embed_documents(texts)


def test_a_vector_of_the_old_text_that_is_in_flight_is_thrown_away(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    accept.accept(database, TENANT, CHAT, [message(0, "the old text", id="m")])
    place(database, rules, policy)
    client = Interrupted(database, rules, lambda: edit(database, rules, "m", "the new text", 5))
    outcome = runner.run(database, "embed", embed.embedder(database, client), policy)
    assert outcome.failed == 0
    assert rows(database, "SELECT count(*) FROM message_vectors") == [(0,)]
    run(database, "embed", embed.embedder(database, client), policy)
    wanted = DeterministicEmbedder().embed_documents(["Ann: the new text"])[0]
    found = rows(database, "SELECT (embedding::real[])[1] FROM message_vectors")
    assert found[0][0] == pytest.approx(wanted[0], abs=1e-3)


# Deletions


def test_a_deleted_message_is_gone_with_all_that_was_made_of_it(
    remembered: Database, rules: SessionPolicy, policy: Policy
) -> None:
    assert delete(remembered, rules, "m4").outcome == "deleted"
    for _ in ("at once", "and for good"):
        for table in ("messages", "conversation_sessions"):
            assert "Beatriz" not in str(rows(remembered, f"SELECT * FROM {table}"))
        assert rows(remembered, "SELECT count(*) FROM message_vectors") == [(8,)]
        work(remembered, rules, policy)
    assert rows(
        remembered,
        """SELECT c.message_count, c.lexeme_count = (SELECT sum(length(tsv)) FROM messages), s.message_count, s.status
        FROM chats c JOIN conversation_sessions s USING (chat_id)""",
    ) == [(8, True, 8, "summarized")]


def test_a_message_deleted_before_it_comes_never_comes(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    edit(database, rules, "m1", "secret", 5)
    delete(database, rules, "m1")
    assert rows(database, "SELECT count(*) FROM pending_changes") == [(0,)]
    assert edit(database, rules, "m1", "secret again", 6).outcome == "kept_out"
    accepted = accept.accept(database, TENANT, CHAT, [message(1, "secret", id="m1"), message(2)])
    assert (accepted.new, accepted.duplicates, accepted.kept_out) == (1, 0, 1)
    assert rows(database, "SELECT external_id FROM messages") == [("m2",)]


def test_deletions_in_any_order_leave_the_sessions_of_the_pure_function(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    for seed in range(6):
        chance = random.Random(seed)
        chat = ChatIn(chat_id=f"test:{seed}")
        said = [message(chance.randrange(0, 400), id=f"m{n}") for n in range(25)]
        doomed = {m.external_id for m in said if chance.random() < 0.4}
        steps: list[object] = [[m] for m in said] + sorted(doomed)
        chance.shuffle(steps)
        for step in steps:
            if isinstance(step, str):
                edits.delete(database, TENANT, chat.chat_id, step, rules)
            else:
                accept.accept(database, TENANT, chat, step)  # type: ignore[arg-type]
            if chance.random() < 0.3:
                place(database, rules, policy)
        place(database, rules, policy)
        left = [m for m in said if m.external_id not in doomed]
        assert stored(database, chat.chat_id) == expected(left, rules)
        assert rows(database, f"SELECT message_count FROM chats WHERE chat_id = '{chat.chat_id}'") == [
            (len(left),)
        ]


# Remembering


def test_nothing_of_a_user_who_is_not_to_be_remembered_is_kept_until_they_are_again(
    remembered: Database, rules: SessionPolicy
) -> None:
    suppression.remember_user(remembered, TENANT, "test:ann", remembered=False)
    assert not suppression.is_remembered(remembered, TENANT, "test:ann")
    assert accept.accept(remembered, TENANT, CHAT, [message(50)]).kept_out == 1
    assert accept.accept(remembered, TENANT, CHAT, [message(51, sender_id="test:bob")]).new == 1
    assert edit(remembered, rules, "m4", "an edit", 60).outcome == "kept_out"
    suppression.remember_user(remembered, TENANT, "test:ann", remembered=True)
    assert accept.accept(remembered, TENANT, CHAT, [message(50)]).new == 1


def test_tombstones_name_nobody(database: Database, rules: SessionPolicy) -> None:
    suppression.remember_user(database, TENANT, "test:ann", remembered=False)
    delete(database, rules, "m77")
    shown = str(rows(database, "SELECT kind, encode(hash, 'escape') FROM suppression_list"))
    assert "ann" not in shown
    assert "m77" not in shown


def test_the_same_name_has_another_tombstone_with_every_tenant(database: Database) -> None:
    for tenant in ("one", "two"):
        suppression.remember_user(database, tenant, "test:ann", remembered=False)
    hashes = set()
    for tenant in ("one", "two"):
        with database.tenant(tenant) as connection:
            hashes.add(bytes(connection.execute(text("SELECT hash FROM suppression_list")).scalar_one()))
    assert len(hashes) == 2
