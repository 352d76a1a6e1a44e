"""Reading a question: whom it names, when it means, and what is left to search for."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import question
from pipeline.question import Question

EARLIEST = datetime(2025, 5, 1, tzinfo=UTC)
NOW = datetime(2026, 4, 15, tzinfo=UTC)
PEOPLE = ["Ann Lee", "Bob", "Will"]


def read(text: str) -> Question:
    return question.read(text, PEOPLE, EARLIEST, NOW)


def test_the_names_of_participants_are_taken_out_of_what_is_searched() -> None:
    asked = read("When did Ann's brother visit Bob?")
    assert asked.content == "When did brother visit ?"
    assert asked.speakers == {"Ann Lee", "Bob"}


def test_a_question_that_names_everybody_prefers_nobody() -> None:
    assert read("What did Ann, Bob and Will decide?").speakers == frozenset()


def test_a_word_that_opens_a_question_is_not_a_name() -> None:
    asked = read("Will the plumber come?")
    assert asked.speakers == frozenset()
    assert asked.content == "Will the plumber come?"


def test_a_question_of_nothing_but_a_name_stays_as_it_is() -> None:
    assert read("Bob?").content == "Bob?"


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (
            "What happened on 3 June, 2025?",
            datetime(2025, 6, 3, tzinfo=UTC),
            datetime(2025, 6, 4, tzinfo=UTC),
        ),
        (
            "Where were we on June 3rd 2025",
            datetime(2025, 6, 3, tzinfo=UTC),
            datetime(2025, 6, 4, tzinfo=UTC),
        ),
        ("what broke in december 2025?", datetime(2025, 12, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
        ("what did we buy in 2025?", datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
        ("2025-07-09: who came?", datetime(2025, 7, 9, tzinfo=UTC), datetime(2025, 7, 10, tzinfo=UTC)),
    ],
)
def test_a_date_says_when_and_is_not_searched_for(text: str, start: datetime, end: datetime) -> None:
    asked = read(text)
    assert asked.spans == ((start, end),)
    assert "2025" not in asked.content


def test_a_month_without_a_year_means_that_month_of_every_year_of_the_chat() -> None:
    assert [span[0].year for span in read("who visited in March?").spans] == [2025, 2026]


def test_a_month_that_is_a_word_is_no_date() -> None:
    assert read("may I march in?").spans == ()


def test_a_date_that_no_calendar_knows_means_nothing() -> None:
    assert read("what was on 31 February 2025?").spans == ()


@given(st.text(max_size=200))
def test_any_question_can_be_read(text: str) -> None:
    asked = read(text)
    assert asked.text == text
    assert all(start < end for start, end in asked.spans)
