"""Relative dates are given the day that was meant, counted from the day on which they were said."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.calendar import absolute

SAID = date(2023, 5, 8)  # a Monday


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("today", "8 May 2023"),
        ("Yesterday", "7 May 2023"),
        ("tomorrow", "9 May 2023"),
        ("last Friday", "5 May 2023"),
        ("last monday", "1 May 2023"),
        ("last Tues", "2 May 2023"),
        ("last weekend", "6 May 2023 and 7 May 2023"),
        ("next week", "week of 15 May 2023"),
        ("last month", "April 2023"),
        ("next year", "2024"),
        ("two weeks ago", "around 24 April 2023"),
        ("3 days ago", "5 May 2023"),
        ("six months ago", "November 2022"),
    ],
)
def test_what_was_meant_stands_behind_the_word(text: str, meaning: str):
    assert absolute(f"it was {text}!", SAID) == f"it was {text} ({meaning})!"


@pytest.mark.parametrize("text", ["on Friday", "todays", "a week", "lasting monday", "last but not least"])
def test_what_does_not_count_from_today_is_left_alone(text: str):
    assert absolute(text, SAID) == text


@given(st.text() | st.sampled_from(["99 years ago", "last year", "yesterday", "next month"]), st.dates())
def test_any_text_on_any_day_only_gains(text: str, day: date):
    result = absolute(text, day)

    assert len(result) >= len(text)
    assert absolute(result, day) == result
