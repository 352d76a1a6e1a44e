"""Questions that lean on what was just said."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.ask import parse
from pipeline.recall.ask.followup import FOLLOWUP_WINDOW, MAX_MESSAGES_READ, MAX_WORDS_ADDED, context_words
from pipeline.recall.ask.parse import Question
from schemas.sessions import Message
from tests.text.builders import message

NOW = datetime(2026, 4, 1, 20, 0, tzinfo=UTC)


def read(text: str) -> Question:
    return parse.read(text, ["Ana", "Ben", "Cleo"], NOW, NOW, "english")


def said(text: str, minutes_ago: float = 1) -> Message:
    return replace(message(text), sent_at=NOW - timedelta(minutes=minutes_ago))


def test_the_brief_is_what_was_last_talked_about() -> None:
    recent = [said("hm, and how old is it?"), said("haha yes"), said("The boiler leaks again", 3)]
    assert context_words(read("hm, and how old is it?"), recent, NOW) == ["boiler", "leaks"]


def test_what_was_said_an_hour_ago_is_no_longer_leaned_on() -> None:
    recent = [said("The boiler leaks again", 61)]
    assert context_words(read("How old is it?"), recent, NOW) == []


@given(st.lists(st.tuples(st.text(), st.floats(0, 100))))
def test_it_is_short_says_nothing_twice_and_is_of_what_was_just_said(talk: list[tuple[str, float]]) -> None:
    recent = [said(text, ago) for text, ago in sorted(talk, key=lambda one: one[1])]
    found = context_words(read("How old is it?"), recent, NOW)
    assert len(found) <= MAX_WORDS_ADDED
    assert len(set(found)) == len(found)
    near = [m.content for m in recent[:MAX_MESSAGES_READ] if NOW - m.sent_at <= FOLLOWUP_WINDOW]
    assert all(any(word in text for text in near) for word in found)


def test_of_what_a_bot_was_asked_the_last_question_alone_is_leaned_on() -> None:
    recent = [
        said("I don't know."),
        said("@tripbot who has the key of the cellar?", 2),
        said("@tripbot what does the boiler cost?", 3),
        said("the ferry was late", 4),
    ]
    assert context_words(read("and where is it?"), recent, NOW) == ["key", "cellar", "ferry", "late"]
