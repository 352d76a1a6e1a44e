"""Times are read in the words of each language: what a question of somebody who writes it means by them."""

import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import languages
from pipeline.text.calendars import calendars_of
from pipeline.text.calendars.spans import dates_named, days_from, times_named
from tests.text.builders import listed

EARLIEST = datetime(2025, 6, 10, tzinfo=UTC)
# a Wednesday
NOW = datetime(2026, 5, 13, 15, tzinfo=UTC)
EXAMPLES = tomllib.loads((Path(__file__).parent / "calendar_examples.toml").read_text(encoding="utf-8"))
STORIES: dict[str, str] = EXAMPLES["stories"]
SPANS = {name: tuple(span) for name, span in EXAMPLES["spans"].items()}


def told() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for language, stories in STORIES.items():
        for story in listed(stories):
            text, _, span = story.rpartition(" = ")
            yield language, text, SPANS.get(span) or tuple(span.split())


def spans(text: str, language: str) -> set[tuple[str, str]]:
    found, _, _ = times_named(text, EARLIEST, NOW, language)
    return {(str(start.date()), str(end.date())) for start, end in found}


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_a_time_is_read_in_the_words_of_its_language(language: str) -> None:
    for written, text, span in told():
        if written == language:
            year_before = tuple(day.replace("2026", "2025", 1) for day in span)
            assert spans(text, language) - {year_before} == {span}, text


@pytest.mark.parametrize("language", EXAMPLES["look_alikes"])
def test_words_that_only_look_like_times_are_none(language: str) -> None:
    for text in listed(EXAMPLES["look_alikes"][language]):
        assert spans(text, language) == set(), text


def test_what_may_be_a_share_stays_in_the_text_when_it_is_read_as_a_day() -> None:
    assert times_named("what was on 3/5?", EARLIEST, NOW)[2] == "what was on 3/5?"
    assert times_named("was war am 3.5.?", EARLIEST, NOW, "german")[2] == "was war  ?"


def test_a_weekend_may_be_the_last_the_coming_or_the_one_that_has_begun() -> None:
    assert spans("who is away at the weekend?", "english") == {SPANS["last weekend"], SPANS["coming weekend"]}
    sunday = NOW - timedelta(days=3)
    found, _, _ = times_named("what did we do over the weekend?", EARLIEST, sunday)
    assert [str(start.date()) for start, _ in found] == ["2026-05-09"]


def test_of_a_mixed_chat_both_languages_are_read() -> None:
    both = "german+english"
    assert spans("was war am 3. Mai and what last Tuesday", both) >= {
        SPANS["third of may"],
        SPANS["last tuesday"],
    }
    assert spans("am Freitag", both) == spans("on Friday", both) == {SPANS["last friday"]}


@pytest.mark.parametrize("language", ["simple", "finnish", "no such language", "../german", ""])
def test_a_language_without_a_calendar_has_english_words_and_figures(language: str) -> None:
    assert spans("on 3 May", language) >= {SPANS["third of may"]}
    assert spans("03.05.2026", language) == {SPANS["third of may"]}
    assert calendars_of(language) == calendars_of("english")


PIECES = st.sampled_from(
    [piece for _, text, _ in told() for piece in (text, *text.split())]
    + ["31 February", "0 May", "99.99.9999", "between", "and", "-", "(", "since", "99 years ago", "١٢ May"]
)
ZONES = st.sampled_from(
    [ZoneInfo("UTC"), ZoneInfo("Europe/Lisbon"), ZoneInfo("Asia/Tokyo"), ZoneInfo("Pacific/Apia")]
)


@given(
    st.text(max_size=60) | st.lists(PIECES, max_size=6).map(" ".join),
    st.sampled_from([*STORIES, "german+english", "simple"]),
    st.integers(0, 80_000),
    ZONES,
    st.integers(0, 4000),
)
def test_any_text_in_any_language_names_times_in_order_and_in_its_zone(
    text: str, language: str, day: int, zone: ZoneInfo, days: int
) -> None:
    now = (datetime(1971, 1, 1, 23, 30, tzinfo=UTC) + timedelta(days=day)).astimezone(zone)
    earliest = now - timedelta(days=days)
    found, of_nouns, left = times_named(text, earliest, now, language)
    for start, end in (*found, *of_nouns):
        assert start < end
        assert start.tzinfo is not None
        assert end.utcoffset() is not None
    # only what is named leaves the text, each with a space for it
    assert len(left) <= len(text) + len(found)
    assert set(dates_named(text, earliest, now, language)[0]) <= set(found)
    assert all(1 <= length <= 7 for _, length in days_from(text, now.date(), language))


@pytest.mark.parametrize("language", EXAMPLES["days"])
def test_what_counts_from_the_day_means_a_day(language: str) -> None:
    for told in listed(EXAMPLES["days"][language]):
        text, _, day = told.rpartition(" = ")
        days = list(days_from(f"... {text} ...", date(2023, 5, 8), language))
        assert days == [(date(2023, 5, int(day)), 1)], text
