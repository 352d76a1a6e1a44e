"""Questions that lean on what was just said."""

from datetime import UTC, datetime, timedelta

from pipeline.recall.question import parse
from pipeline.recall.question.conversation import context_words
from pipeline.recall.question.parse import Question
from schemas.sessions import Message
from tests.text.builders import message

NOW = datetime(2026, 4, 1, 20, 0, tzinfo=UTC)


def read(text: str) -> Question:
    return parse.read(text, ["Ana", "Ben", "Cleo"], NOW, NOW, "english")


def said(text: str, minutes_ago: float = 1) -> Message:
    return message(text)._replace(sent_at=NOW - timedelta(minutes=minutes_ago))


def test_the_brief_is_what_was_last_talked_about() -> None:
    recent = [said("hm, and how old is it?"), said("haha yes"), said("The boiler leaks again", 3)]
    assert context_words(read("hm, and how old is it?"), recent, NOW) == ["boiler", "leaks"]
    assert context_words(read("How old is it?"), [said("The boiler leaks again", 61)], NOW) == []


def test_of_what_a_bot_was_asked_the_last_question_alone_is_leaned_on() -> None:
    recent = [
        said("I don't know."),
        said("@tripbot who has the key of the cellar?", 2),
        said("@tripbot what does the boiler cost?", 3),
        said("the ferry was late", 4),
    ]
    assert context_words(read("and where is it?"), recent, NOW) == ["key", "cellar", "ferry", "late"]
