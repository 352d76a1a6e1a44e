"""The days that a message means by its words, counted from the day on which it was said."""

from datetime import date

import pytest

from pipeline.text.calendars.calendar import days

SAID = date(2023, 5, 8)  # a Monday


@pytest.mark.parametrize(
    ("language", "text", "day"),
    [
        ("english", "today", 8),
        ("english", "Yesterday", 7),
        ("english", "tomorrow", 9),
        ("english", "last monday", 1),
        ("english", "last Tues", 2),
        ("english", "3 days ago", 5),
        ("german", "gestern", 7),
        ("french", "il y a deux jours", 6),
        ("portuguese", "amanhã", 9),
        ("russian", "завтра", 9),
        ("chinese", "昨天", 7),
        ("japanese", "昨日", 7),
    ],
)
def test_what_counts_from_the_day_means_a_day(language: str, text: str, day: int):
    assert list(days(f"... {text} ...", SAID, language)) == [(date(2023, 5, day), 1)]


@pytest.mark.parametrize("text", ["on Friday", "todays", "a week", "lasting monday", "last but not least"])
def test_what_does_not_count_from_the_day_means_none(text: str):
    assert list(days(text, SAID)) == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("english", "today is our last day"),
        ("german", "heute ist der letzte Tag"),
        ("russian", "сегодня последний день"),
        ("chinese", "今天是最后一天"),
    ],
)
def test_the_last_day_of_something_is_not_the_day_before(language: str, text: str):
    assert list(days(text, SAID, language)) == [(SAID, 1)]
