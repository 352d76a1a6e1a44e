"""Times that a question counts from an event: reading the event, finding when it was, preferring what lies there."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from pipeline.recall import refine
from pipeline.recall.profiles import Weights
from pipeline.recall.question import event_mentions
from pipeline.recall.question.event_mentions import EventDate
from pipeline.recall.rank.rank import Scored
from pipeline.recall.refine import BEST_SCORE_SHARE, MAX_SPREAD, MIN_WORDS_SHARE
from tests.recall.found import candidate
from tests.text.builders import listed

LISBON = ZoneInfo("Europe/Lisbon")
# a Wednesday
SAID = datetime(2026, 4, 29, 18, tzinfo=UTC)
WEIGHTS = Weights()


@pytest.mark.parametrize(
    ("text", "relation", "event", "days", "rest"),
    [
        ("What did we buy before the trip?", "before", "the trip", None, "What did we buy?"),
        ("What did Ana do during the holidays?", "during", "the holidays", None, "What did Ana do?"),
        ("what happened right after Ana's birthday?", "after", "Ana's birthday", 3, "what happened?"),
        ("Who called on the day of the launch?", "during", "the launch", 1, "Who called?"),
        ("What broke after the move to Porto?", "after", "the move to Porto", None, "What broke?"),
    ],
)
def test_an_event_that_a_question_counts_from_is_read(
    text: str, relation: str, event: str, days: int | None, rest: str
) -> None:
    found = event_mentions.mention(text)
    assert (found.relation, found.events, found.days, found.rest) == (relation, (event,), days, rest)


@pytest.mark.parametrize(
    "text",
    listed("""
        What broke after 9 April? | Who is there before 16h on Sundays? | Who came after that?
        Who looks after the cat? | How did things go between Olek and Mr Baltazar?
        How long before the trip did we book? | since when? | is there a before hook in the tests
        why does it rain since it is so warm | wait a while loop in the parser
    """),
)
def test_dates_people_lengths_and_other_things_are_no_events(text: str) -> None:
    assert event_mentions.mention(text) is None


def hit(text: str, *, score: float = 2.0, words: float = 0.8, days: int = 0, speaker: str = "Ana") -> Scored:
    said = candidate(1, text, speaker=speaker, sent_at=SAID + timedelta(days=days))
    return Scored(said, score, {"words": words * WEIGHTS.words})


def told(*hits: Scored) -> EventDate | None:
    return refine.date_hits(hits, WEIGHTS, LISBON)


def test_a_message_that_names_no_day_was_said_when_it_happened() -> None:
    found = told(hit("the trip was great", days=-3), hit("what a trip", days=-1, score=1.9))
    assert (found.start, found.dated) == (SAID - timedelta(days=3), False)


@pytest.mark.parametrize(
    ("text", "day", "length"),
    [
        ("we leave for the trip tomorrow", 30, 1),
        ("the trip is next weekend", 39, 2),
        ("the trip is tomorrow, Thursday 30 April 2026", 30, 1),
    ],
)
def test_a_message_that_names_a_day_says_when_it_was(text: str, day: int, length: int) -> None:
    found = told(hit(text))
    start = datetime(2026, 4, 1, tzinfo=LISBON) + timedelta(days=day - 1)
    assert (found.start, found.end, found.dated) == (start, start + timedelta(days=length), True)


def test_of_several_plans_the_newest_holds() -> None:
    found = told(hit("trip on 2 May"), hit("we moved the trip to 9 May", score=1.8, days=1, speaker="Bob"))
    assert (found.start.day, found.speaker) == (9, "Bob")


def test_an_event_is_not_taken_for_one_that_is_hardly_talked_about_or_done_again_and_again() -> None:
    assert told() is None
    often = hit("a walk"), hit("a walk again", days=MAX_SPREAD.days + 1, score=2 * BEST_SCORE_SHARE)
    assert told(*often) is None
    # one in four off topic is no recurrence, two in five are
    once, elsewhere = hit("a walk"), hit("a walk long ago", days=-MAX_SPREAD.days - 1)
    assert told(once, once, once, elsewhere) is not None
    assert told(once, once, once, elsewhere, elsewhere) is None
    assert told(hit("we walked", words=MIN_WORDS_SHARE - 0.01)) is None
    assert told(hit("we walked", words=MIN_WORDS_SHARE)) is not None


@pytest.mark.parametrize(
    ("language", "text", "relation", "event", "rest"),
    [
        ("german", "Was haben wir vor der Reise gekauft?", "before", "der Reise", "Was haben wir gekauft?"),
        ("french", "qu'a-t-on acheté avant le voyage ?", "before", "le voyage", "qu'a-t-on acheté?"),
        ("german+english", "what did we buy before the trip", "before", "the trip", "what did we buy"),
    ],
)
def test_an_event_is_read_in_the_words_of_its_language(
    language: str, text: str, relation: str, event: str, rest: str
) -> None:
    found = event_mentions.mention(text, language)
    assert (found.relation, found.events, found.rest) == (relation, (event,), rest)


@pytest.mark.parametrize(
    ("asked", "dated", "begins", "ends"),
    [
        ("What did we buy the week before the trip?", True, -7 * 24, 0),
        ("What did we buy before the trip?", True, 0, 0),
        ("What broke the day after the trip?", True, 48, 72),
        # said at six in the evening, so that the next day begins six hours later
        ("What broke the day after the trip?", False, 6, 30),
        ("What broke the week after the trip?", True, 0, 48 + 7 * 24),
        ("What broke during the trip?", True, 0, 48),
        ("What broke on the day of the trip?", False, -18, 6),
    ],
)
def test_what_is_asked_for_lies_before_after_or_in_the_days_of_an_event(
    asked: str, dated: bool, begins: int, ends: int
) -> None:
    start = datetime(2026, 4, 30, 0 if dated else 18, tzinfo=LISBON)
    end = start + timedelta(days=2) if dated else start
    event = EventDate(start=start, end=end, dated=dated, said_at=SAID, speaker="Ana")
    found = event_mentions.timed(event_mentions.mention(asked), (event,))
    assert (found.start - start, found.end - start) == (timedelta(hours=begins), timedelta(hours=ends))
