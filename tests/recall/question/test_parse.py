"""Reading a question: whom it names, when it means, and what is left to search for."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.question import parse
from pipeline.recall.question.parse import Question
from pipeline.text.accents import without_accents
from tests.recall.question.times import EARLIEST, NOW

PEOPLE = ["Ann Lee", "Bob", "Will"]


def read(text: str) -> Question:
    return parse.read(text, PEOPLE, EARLIEST, NOW, "english")


def test_a_question_that_names_everybody_prefers_nobody() -> None:
    assert read("What did Ann, Bob and Will decide?").speakers == {}
    asked = read("Summarize what Ann said last week")
    assert (asked.overview, asked.speakers) == (True, {"Ann Lee": 1})


def test_the_week_of_a_day_is_that_week_from_monday_and_is_not_searched_for() -> None:
    asked = read("what happened in the week of 8 April 2026?")
    assert asked.spans == ((datetime(2026, 4, 6, tzinfo=UTC), datetime(2026, 4, 13, tzinfo=UTC)),)
    assert "week" not in asked.content


def test_a_month_without_a_year_means_that_month_of_every_year_of_the_chat() -> None:
    assert [span[0].year for span in read("who visited in March?").spans] == [2025, 2026]


def test_days_are_those_of_the_chats_time_zone() -> None:
    lisbon = ZoneInfo("Europe/Lisbon")
    # Given half past midnight in Lisbon's summer, which is the day before in UTC
    now = datetime(2026, 3, 30, 0, 30, tzinfo=lisbon)
    asked = parse.read("what did we eat yesterday?", PEOPLE, EARLIEST, now, "english")
    # Then yesterday is the day on which the clocks went forward, 23 hours long
    ((start, end),) = asked.spans
    assert (start, end) == (datetime(2026, 3, 29, tzinfo=lisbon), datetime(2026, 3, 30, tzinfo=lisbon))
    assert end.astimezone(UTC) - start.astimezone(UTC) == timedelta(hours=23)


@given(st.text(max_size=200))
def test_any_question_can_be_read(text: str) -> None:
    asked = read(text)
    assert asked.text == text
    assert all(start < end for start, end in asked.spans)


@pytest.mark.parametrize("piece", ["in May ", "2025-07-09 "])
def test_a_time_that_a_question_names_very_often_counts_once(piece: str) -> None:
    assert set(read(piece * 900).spans) == set(read(piece).spans)
    assert len(read(piece * 900).spans) == len(set(read(piece).spans))


@pytest.mark.parametrize(
    ("language", "text", "asks"),
    [
        ("italian", "cosa abbiamo deciso martedì?", ()),
        ("german", "wer war in den letzten fünf Tagen da?", ()),
        ("turkish", "geçen çarşamba kaç kişi vardı?", ("number",)),
    ],
)
def test_a_question_is_read_without_its_accents(language: str, text: str, asks: tuple[str, ...]) -> None:
    asked, bare = (
        parse.read(each, PEOPLE, EARLIEST, NOW, language) for each in (text, without_accents(text))
    )
    assert set(asks) <= asked.asks
    assert asked.spans
    assert (bare.asks, bare.spans, bare.speakers) == (asked.asks, asked.spans, asked.speakers)


# What is fetched for a time, asked on Friday, 16 October 2026: from the first day, up to the second; None: no time
FETCHED = """
english | What did we decide in recent months? | 2026-06-18 2026-10-16
english | Did anybody complain these past weeks? | 2026-09-18 2026-10-16
english | What was decided last month? | 2026-09-01 2026-09-30
english | What did I miss since Wednesday? | 2026-10-14 2026-10-16
english | How much is this year's fee? | none
english | What are this week's highlights? | 2026-10-12 2026-10-18
english | How much is this season's fee now? | none
german | Was haben wir in den letzten Monaten beschlossen? | 2026-06-18 2026-10-16
german | Was wurde ab Mittwoch gesagt? | 2026-10-14 2026-10-16
german | Wie hoch ist der Beitrag dieses Jahres? | none
german | Was haben wir in dieser Woche beschlossen? | 2026-10-12 2026-10-18
french | Qu'a-t-on décidé ces derniers mois ? | 2026-06-18 2026-10-16
french | Qu'ai-je raté depuis mercredi ? | 2026-10-14 2026-10-16
french | Combien coûte la cotisation de cette année ? | none
spanish | ¿Quién llamó estas últimas semanas? | 2026-09-18 2026-10-16
spanish | ¿Qué me perdí desde el miércoles? | 2026-10-14 2026-10-16
spanish | ¿Cuánto es la cuota de este año? | none
russian | Что мы решили в последние недели? | 2026-09-18 2026-10-16
russian | Что было на прошлой неделе? | 2026-10-05 2026-10-11
russian | Что я пропустил со среды? | 2026-10-14 2026-10-16
russian | Сколько составляет взнос следующей недели? | none
japanese | 最近の数週間に誰が来ましたか？ | 2026-09-25 2026-10-16
japanese | 水曜日から何がありましたか？ | 2026-10-14 2026-10-16
japanese | 今年の会費はいくらですか？ | none
italian | Cosa abbiamo deciso negli ultimi mesi? | 2026-06-18 2026-10-16
portuguese | Quanto é a taxa deste ano? | none
dutch | Wat hebben we de afgelopen weken besloten? | 2026-09-18 2026-10-16
polish | Co ustaliliśmy w ostatnich miesiącach? | 2026-06-18 2026-10-16
turkish | Son haftalarda kim aradı? | 2026-09-18 2026-10-16
chinese | 今年的会费是多少？ | none
"""


@pytest.mark.parametrize("told", FETCHED.strip().splitlines())
def test_what_is_fetched_for_a_time(told: str) -> None:
    language, asked, days = told.split(" | ")
    now = datetime(2026, 10, 16, 12, tzinfo=UTC)
    spans = parse.read(asked, [], now - timedelta(days=300), now, language).spans
    first_and_last = [(str(start.date()), str((end - timedelta.resolution).date())) for start, end in spans]
    assert first_and_last == ([] if days == "none" else [tuple(days.split())])
