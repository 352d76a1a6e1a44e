"""What is learned is kept true: said again, changed, deleted, forgotten, in whatever order it comes."""

from dataclasses import replace
from datetime import datetime

import pytest

from pipeline.enrich.protocols import People
from pipeline.erasure import edits, forget
from pipeline.people import suppression
from pipeline.store.connections.database import Database
from schemas.facts import RULES, Fact
from schemas.people import Subject
from schemas.sessions import Message
from tests.conftest import TENANT
from tests.harness.learning import DIRECT, GROUP, Reading, Talk
from tests.harness.pipeline import forget_all, rows


@pytest.fixture
def talk(database: Database) -> Talk:
    return Talk(database)


def test_a_fact_is_learned_about_who_says_it_who_is_named_the_agent_and_the_group(talk: Talk) -> None:
    talk.say(0, "nothing to learn", who="Bob")
    talk.say(2, "Ann | home | porto")
    talk.say(4, "Bob | home | faro", who="Ann")
    talk.say(6, "Lena | home | braga", who="Bob")
    talk.say(8, "we | rent | 400")
    talk.say(10, "hello", role="assistant", agent_id="max", who="Pip")
    talk.say(10, "you | tone | brief", id="later")
    # what is said of a name that two people have is learned of neither
    for who in ("u7", "u8"):
        talk.say(12, "hi", who=who, name="Max", id=who)
    talk.say(18, "Max | home | rome", who="Ann")
    talk.say(18, "me | home | faro", who="u8", name="Max", id="own")
    talk.learn()
    assert talk.known() == [
        ("max", "you: tone brief."),
        ("organization", "we: rent 400."),
        ("test:ann", "Ann: home porto."),
        ("test:ann", "Max: home rome."),
        ("test:bob", "Bob: home faro."),
        ("test:bob", "Lena: home braga."),
        ("test:u8", "me: home faro."),
    ]


def test_a_change_supersedes_what_was_known_in_whatever_order_it_comes(talk: Talk) -> None:
    talk.say(48, "Ann | home | faro")
    talk.learn()
    talk.say(0, "Ann | home | porto")
    talk.learn()
    talk.say(24, "Ann | home | braga")
    talk.learn()
    assert talk.known() == [("test:ann", "Ann: home faro.")]
    assert talk.all() == ["Ann: home porto.", "Ann: home braga.", "Ann: home faro."]


def test_what_is_said_again_gains_confidence_and_outlives_the_deletion_of_one(talk: Talk) -> None:
    for hour in (0, 24, 48):
        talk.say(hour, "Ann | home | porto")
        talk.learn()
    confidence = "SELECT confidence, (SELECT count(DISTINCT session_id) FROM memory_evidence) FROM memories"
    assert rows(talk.database, confidence) == [(pytest.approx(1 - 0.3**3), 3)]
    for hour in (0, 24):
        edits.delete(talk.database, TENANT, GROUP.chat_id, f"{GROUP.chat_id}-{hour}", talk.rules)
    talk.learn()
    [(left, at)] = rows(talk.database, "SELECT confidence, said_at FROM memories")
    [(later,)] = rows(talk.database, "SELECT sent_at FROM messages")
    assert (left, at) == (pytest.approx(0.7), later)


class InOtherWords(Reading):
    """Learns statements that differ only in words that the embedder of the tests does not read."""

    def _fact(self, said: Message, people: People) -> Fact:
        return replace(super()._fact(said, people), attribute="", value="")


def test_what_is_said_again_in_other_words_becomes_one_memory_with_all_its_evidence(talk: Talk) -> None:
    talk.reading = InOtherWords()
    talk.say(0, "Ann | plays | chess очень хорошо каждый вечер")
    talk.learn()
    talk.say(48, "Ann | plays | chess где угодно и когда угодно")
    talk.learn()
    assert talk.all() == ["Ann: plays chess очень хорошо каждый вечер."]
    assert rows(talk.database, "SELECT count(*), count(DISTINCT message_id) FROM memory_evidence") == [(2, 2)]
    # and there is nothing that would do it again and again
    assert rows(talk.database, "SELECT key, last_error FROM jobs WHERE kind = 'extract'") == []


def test_what_a_message_taught_goes_with_it_and_what_it_had_superseded_is_revived(talk: Talk) -> None:
    talk.say(0, "Ann | home | porto")
    talk.say(24, "Ann | home | faro")
    talk.learn()
    braga = "Ann | home | braga"
    edits.edit(
        talk.database, TENANT, edits.NewText(GROUP.chat_id, f"{GROUP.chat_id}-24", braga, None), talk.rules
    )
    talk.learn()
    assert talk.all() == ["Ann: home porto.", "Ann: home braga."]
    edits.delete(talk.database, TENANT, GROUP.chat_id, f"{GROUP.chat_id}-24", talk.rules)
    talk.learn()
    assert talk.known() == [("test:ann", "Ann: home porto.")]
    assert rows(talk.database, "SELECT count(*) FROM memory_evidence") == [(1,)]


UNTIL = "2026-12-31T00:00:00+00:00"


def test_until_when_something_holds_is_shown_only_where_that_was_said(talk: Talk) -> None:
    talk.say(0, f"Ann | home | porto | {UNTIL}", chat=DIRECT)
    talk.say(24, "Ann | home | porto")
    talk.learn()
    assert rows(
        talk.database, "SELECT learned_in, also_in, holds_until FROM memories ORDER BY learned_in"
    ) == [(DIRECT.chat_id, [], datetime.fromisoformat(UNTIL)), (GROUP.chat_id, [], None)]
    talk.say(48, f"Ann | home | porto | {UNTIL}")
    talk.learn()
    edits.delete(talk.database, TENANT, GROUP.chat_id, f"{GROUP.chat_id}-24", talk.rules)
    talk.learn()
    assert rows(talk.database, "SELECT DISTINCT holds_until FROM memories") == [
        (datetime.fromisoformat(UNTIL),)
    ]


def test_forgetting_somebody_removes_what_was_learned_of_and_from_them(talk: Talk) -> None:
    talk.say(0, "Ann | home | porto", who="Bob")
    talk.say(2, "Bob | guest | ann", who="Bob")
    talk.say(4, "Bob | pet | rex", who="Ann")
    talk.say(6, "Ann | job | baker", who="Ann")
    talk.say(8, "hello", who="Bob")
    talk.learn()
    forget.start(talk.database, TENANT, Subject(kind="user", sender_id="test:ann"))
    forget_all(talk.database)
    talk.learn()
    assert talk.known() == [("test:bob", "Bob: guest ann.")]
    [(counts,)] = rows(talk.database, "SELECT counts FROM forget_receipts")
    assert counts["memories"] == 3
    # and what Bob says of her is not learned again, as it was said before
    rows(talk.database, "UPDATE conversation_sessions SET facts_revision = NULL")
    again = "UPDATE jobs SET due_at = now(), wanted = wanted + 1 WHERE kind = 'extract'"
    rows(talk.database, again)
    talk.learn()
    assert talk.known() == [("test:bob", "Bob: guest ann.")]


def test_forgetting_a_chat_leaves_what_was_said_elsewhere_too(talk: Talk) -> None:
    talk.say(0, "Ann | home | porto", chat=DIRECT)
    talk.say(24, "Ann | home | porto", chat=GROUP)
    talk.say(48, "Ann | job | baker", chat=DIRECT)
    talk.learn()
    assert rows(talk.database, "SELECT learned_in FROM memories ORDER BY said_at") == [
        (DIRECT.chat_id,),
        (GROUP.chat_id,),
        (DIRECT.chat_id,),
    ]
    forget.start(talk.database, TENANT, Subject(kind="chat", chat_id=DIRECT.chat_id))
    forget_all(talk.database)
    assert rows(talk.database, "SELECT content, learned_in FROM memories") == [
        ("Ann: home porto.", GROUP.chat_id)
    ]


def test_where_a_model_gives_no_answer_rules_read_the_session(talk: Talk) -> None:
    talk.reading = Reading("a-model", fails=True)
    talk.say(0, "Ann | home | porto")
    talk.learn()
    assert rows(talk.database, "SELECT learned_by FROM memories") == [(RULES,)]
    [(due,)] = rows(
        talk.database,
        "SELECT due_at > now() + interval '5 hours' FROM jobs WHERE kind = 'extract' AND key LIKE 's%'",
    )
    assert due
    talk.reading = Reading("a-model")
    rows(talk.database, "UPDATE jobs SET due_at = now() WHERE kind = 'extract'")
    talk.learn()
    assert rows(
        talk.database,
        "SELECT content, learned_by FROM memories JOIN memory_evidence USING (learned_by, content)",
    ) == [("Ann: home porto.", "a-model")]


def test_nothing_is_learned_of_somebody_who_is_not_remembered(talk: Talk) -> None:
    talk.say(0, "hi", who="Bob")
    suppression.remember_user(talk.database, TENANT, "test:ann", remembered=False)
    talk.say(2, "Ann | home | porto", who="Bob")
    talk.say(4, "Bob | home | faro", who="Bob")
    talk.learn()
    # her name is nobody's here, so it is only something that Bob has said
    assert {owner for owner, _ in talk.known()} <= {"test:bob"}
