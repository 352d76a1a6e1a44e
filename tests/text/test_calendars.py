"""Times are read in the words of each language: what a question of somebody who writes it means by them."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import languages
from pipeline.text.calendars import calendar, calendars_of
from schemas.languages import LANGUAGES
from tests.text.builders import listed

EARLIEST = datetime(2025, 6, 10, tzinfo=UTC)
# a Wednesday
NOW = datetime(2026, 5, 13, 15, tzinfo=UTC)
TWELVE = (
    "chinese dutch english french german italian japanese polish portuguese russian spanish turkish".split()
)

SPANS = {
    "last tuesday": ("2026-05-12", "2026-05-13"),
    "week before": ("2026-05-04", "2026-05-11"),
    "yesterday": ("2026-05-12", "2026-05-13"),
    "today": ("2026-05-13", "2026-05-14"),
    "three days ago": ("2026-05-10", "2026-05-11"),
    "last three days": ("2026-05-10", "2026-05-14"),
    "last weekend": ("2026-05-09", "2026-05-11"),
    "coming weekend": ("2026-05-16", "2026-05-18"),
    "weekend before": ("2026-05-02", "2026-05-04"),
    "last seven days": ("2026-05-06", "2026-05-14"),
    "last thirty days": ("2026-04-13", "2026-05-14"),
    "last month": ("2026-04-01", "2026-05-01"),
    "last year": ("2025-01-01", "2026-01-01"),
    "third of may": ("2026-05-03", "2026-05-04"),
    "three to seven": ("2026-05-03", "2026-05-08"),
    "in may": ("2026-05-01", "2026-06-01"),
    "before may": ("2025-06-10", "2026-05-01"),
    "since april": ("2026-04-01", "2026-05-13"),
    "until friday": ("2025-06-10", "2026-05-09"),
    "by friday": ("2025-06-10", "2026-05-13"),
    "last friday": ("2026-05-08", "2026-05-09"),
    "after the third": ("2026-05-04", "2026-05-13"),
}
# What is said, and the span of `SPANS` or the days that it means.
STORIES = {
    "english": """
        what did we say yesterday? = yesterday | who called the day before yesterday = 2026-05-11 2026-05-12
        what's on this morning = today | what did ana say last Tuesday? = last tuesday
        where were we last week? = week before | what did we agree on Friday? = last friday
        anything new in the last three days? = last three days
        anything new in the last week? = last seven days
        what did we spend over the past month? = last thirty days
        what did we do over the last weekend? = last weekend | where were you at the weekend? = last weekend
        what happened the weekend before last? = weekend before
        what happened the week before last? = 2026-04-27 2026-05-04
        what was said on the Friday before last = 2026-05-01 2026-05-02
        what is planned for this weekend? = coming weekend | who moved in the last year? = 2025-05-13 2026-05-14
        who came 3 days ago? = three days ago | what was on May 3? = third of may
        what was on the 3rd of May = third of may | what was on 9 Apr = 2026-04-09 2026-04-10
        what was on 03.05.2026 = third of may | what was on 03/05/2026? = third of may
        what was on 05/23/2026? = 2026-05-23 2026-05-24 | 2026-05-03 what was on = third of may
        what was on 3/5? = third of may | what was on the third of May? = third of may
        what was on May the third? = third of may | what happened between Nov and Jan? = 2025-11-01 2026-02-01
        what happened from Jan to Mar 2026? = 2026-01-01 2026-04-01
        what happened from 3 to 7 May? = three to seven | what happened May 3-7 = three to seven
        what happened between 3 May and 7 May 2026? = three to seven | who visited in may = in may
        what was decided before May? = before may | what changed since April? = since april
        what was done until Friday? = until friday | what must be ready before the 20th? = by friday
        what do we need until Sunday? = by friday | what happened after the 3rd? = after the third
        what happened since last week? = 2026-05-04 2026-05-13
        what was said before yesterday? = 2025-06-10 2026-05-12 | around 3 May = 2026-05-01 2026-05-06
        a couple of days ago = 2026-05-11 2026-05-12 | on Tuesday last week = 2026-05-05 2026-05-06
    """,
    "german": """
        was war gestern? = yesterday | was war vorgestern = 2026-05-11 2026-05-12
        wer kam letzten Dienstag = last tuesday | was war letzte Woche? = week before
        was hat Ana am Freitag gesagt? = last friday | was war am Fr los = last friday
        was gab es in den letzten drei Tagen = last three days
        was gab es in der letzten Woche? = last seven days | was war am Wochenende? = last weekend
        was gab es im letzten Monat? = last thirty days | wer kam vor drei Tagen = three days ago
        was war am 3. Mai? = third of may | was war am 3.5.? = third of may
        was war am 03.05.2026 = third of may | was war zwischen dem 3. und 7. Mai = three to seven
        vom 3. bis 7. Mai = three to seven | was wurde vor Mai beschlossen = before may
        was ist seit April neu? = since april | bis Freitag = by friday
        was war bis Freitag fertig? = until friday | was kam nach dem 3. noch? = after the third
        im Mai = in may | Dienstag letzter Woche = 2026-05-05 2026-05-06
    """,
    "french": """
        qu'est-ce qu'on a dit hier ? = yesterday | qui est venu avant-hier ? = 2026-05-11 2026-05-12
        mardi dernier = last tuesday | la semaine dernière = week before | le mois dernier = last month
        ces trois derniers jours = last three days | l'avant-dernier week-end = weekend before
        au cours de la dernière semaine = last seven days | il y a trois jours = three days ago
        le 3 mai = third of may | entre le 3 et le 7 mai = three to seven | du 3 au 7 mai = three to seven
        avant mai = before may | depuis avril = since april | jusqu'à vendredi = by friday
        avant vendredi = by friday | en mai = in may | après le 3 ? = after the third
    """,
    "spanish": """
        ¿qué dijimos ayer? = yesterday | anteayer = 2026-05-11 2026-05-12 | el martes pasado = last tuesday
        la semana pasada = week before | el mes pasado = last month | en los últimos tres días = last three days
        el penúltimo fin de semana = weekend before | en la última semana = last seven days
        hace tres días = three days ago | el 3 de mayo = third of may
        entre el 3 y el 7 de mayo = three to seven | del 3 al 7 de mayo = three to seven
        antes de mayo = before may | desde abril = since april | hasta el viernes = by friday | en mayo = in may
    """,
    "portuguese": """
        o que dissemos ontem? = yesterday | anteontem = 2026-05-11 2026-05-12 | na terça passada = last tuesday
        na semana passada = week before | no mês passado = last month | nos últimos três dias = last three days
        no penúltimo fim de semana = weekend before | no último mês = last thirty days
        há três dias = three days ago | três dias atrás = three days ago | em 3 de maio = third of may
        no dia 3 de maio = third of may | entre 3 e 7 de maio = three to seven
        de 3 a 7 de maio = three to seven | antes de maio = before may | desde abril = since april
        até sexta-feira = by friday | em maio = in may | depois do dia 3 = after the third
    """,
    "italian": """
        cosa abbiamo detto ieri? = yesterday | l'altro ieri = 2026-05-11 2026-05-12
        martedì scorso = last tuesday | la settimana scorsa = week before | il mese scorso = last month
        negli ultimi tre giorni = last three days | il penultimo weekend = weekend before
        nell'ultima settimana = last seven days | tre giorni fa = three days ago | il 3 maggio = third of may
        tra il 3 e il 7 maggio = three to seven | dal 3 al 7 maggio = three to seven
        prima di maggio = before may | da aprile = since april | fino a venerdì = by friday | a maggio = in may
    """,
    "dutch": """
        wat zeiden we gisteren? = yesterday | eergisteren = 2026-05-11 2026-05-12
        vorige dinsdag = last tuesday | vorige week = week before | afgelopen maand = last month
        de afgelopen drie dagen = last three days | wat deden we in het weekend = last weekend
        in de laatste week = last seven days | drie dagen geleden = three days ago | op 3 mei = third of may
        tussen 3 en 7 mei = three to seven | van 3 tot 7 mei = three to seven | sinds april = since april
        tot vrijdag = by friday | in mei = in may | na 3 mei = after the third
    """,
    "polish": """
        co mówiliśmy wczoraj? = yesterday | przedwczoraj = 2026-05-11 2026-05-12
        w zeszły wtorek = last tuesday | w zeszłym tygodniu = week before | w zeszłym miesiącu = last month
        w ostatnich trzech dniach ostatnie trzy dni = last three days | w ostatnim tygodniu = last seven days
        trzy dni temu = three days ago | 3 maja = third of may | między 3 a 7 maja = three to seven
        od 3 do 7 maja = three to seven | przed majem przed maj = before may | od kwietnia = since april
        do piątku = by friday | w maju = in may
    """,
    "turkish": """
        dün ne dedik? = yesterday | evvelsi gün = 2026-05-11 2026-05-12 | geçen salı = last tuesday
        geçen hafta = week before | geçen ay = last month | son üç gün = last three days
        üç gün önce = three days ago | 3 Mayıs'ta = third of may | 3-7 Mayıs arasında = three to seven
        Mayıs'tan önce = before may | Nisan'dan beri = since april | cumaya kadar = by friday
        Mayıs'ta = in may | 3 Mayıs'tan sonra = after the third
    """,
    "russian": """
        что мы говорили вчера? = yesterday | позавчера = 2026-05-11 2026-05-12
        в прошлый вторник = last tuesday | на прошлой неделе = week before | в прошлом месяце = last month
        за последние три дня = last three days | за последнюю неделю = last seven days
        три дня назад = three days ago | 3 мая = third of may | 3.5. = third of may
        с 3 по 7 мая = three to seven | между 3 и 7 мая = three to seven | до мая = before may
        с апреля = since april | после 3 мая = after the third | в мае = in may
    """,
    "chinese": """
        昨天我们说了什么 = yesterday | 前天谁来了 = 2026-05-11 2026-05-12 | 上周二李明说了什么 = 2026-05-05 2026-05-06
        上周我们去了哪里 = week before | 上个月 = last month | 去年 = last year | 最近三天 = last three days
        三天前 = three days ago | 5月3日我们决定了什么 = third of may | 五月三日 = third of may
        2026年5月3日 = third of may
        5月3日到7日 = three to seven | 5月之前 = before may | 从4月以来 = since april | 5月3日之后 = after the third
        五月 = in may
    """,
    "japanese": """
        昨日何を話した? = yesterday | 一昨日 = 2026-05-11 2026-05-12 | 先週の火曜日に = 2026-05-05 2026-05-06
        先週は = week before
        先月 = last month | 去年 = last year | この3日間 = last three days | 三日前 = three days ago
        5月3日に何を決めた? = third of may | 2026年5月3日 = third of may | 5月3日から7日 = three to seven
        5月より前 = before may
        4月から = since april | 金曜日まで = by friday | 5月3日以降 = after the third | 5月に = in may
    """,
}


def told() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for language, stories in STORIES.items():
        for story in listed(stories):
            text, _, span = story.rpartition(" = ")
            yield language, text, SPANS.get(span) or tuple(span.split())


def spans(text: str, language: str) -> set[tuple[str, str]]:
    found, _ = calendar.times(text, EARLIEST, NOW, language)
    return {(str(start.date()), str(end.date())) for start, end in found}


@pytest.mark.parametrize(("language", "text", "span"), list(told()))
def test_a_time_is_read_in_the_words_of_its_language(language: str, text: str, span: tuple[str, str]) -> None:
    year_before = tuple(day.replace("2026", "2025", 1) for day in span)
    assert spans(text, language) - {year_before} == {span}


def test_every_language_has_its_stories() -> None:
    assert set(languages.LANGUAGES) == set(TWELVE) == set(STORIES)


LOOK_ALIKES = {
    "english": """
        may I march in, and which week suits the last time we met? | May we go | is the sun out
        who sat in the sun | version 2.4 or 2.4.0 | the score was 3/5 | what happens every Friday
        who lives on the 3rd floor | we had 2 wed guests | what did Mar and Jan say | may the first one win
        who cooks dinner at 5.30? | until 6.30 who stays? | which crash was fixed in 2.1?
        who waited for 4.5 hours? | around 1.5 litres of milk | who is elected by 2/3 of the votes?
        what happened in 12/24 hours | who has support on 24/7?
    """,
    "spanish": "en el mar",
    "german": """
        so geht das, mi casa, do it | guten Morgen | das kostet 4.5 Euro | wer kommt um 19.10 Uhr?
        wer kommt um 5.10? | bis 6.30 Uhr wer bleibt? | seit 4.5 Stunden warten wir
    """,
    "portuguese": "a segunda vez",
    "french": "les mars et mardis | qui vient à 5.30 ?",
    "chinese": "三个苹果",
    "italian": "eletto da 2/3 dei voti",
    "dutch": "tot 6.10 uur",
    "polish": "co działa w 3.11?",
    "russian": "кто придёт в 5.10?",
}


@pytest.mark.parametrize(
    ("language", "text"),
    [(language, text) for language, texts in LOOK_ALIKES.items() for text in listed(texts)],
)
def test_words_that_only_look_like_times_are_none(language: str, text: str) -> None:
    assert spans(text, language) == set()


def test_what_may_be_a_share_stays_in_the_text_when_it_is_read_as_a_day() -> None:
    assert calendar.times("what was on 3/5?", EARLIEST, NOW)[1] == "what was on 3/5?"
    assert calendar.times("was war am 3.5.?", EARLIEST, NOW, "german")[1] == "was war  ?"


def test_a_weekend_that_may_be_the_last_or_the_coming_one_is_both() -> None:
    assert spans("what did we do this weekend?", "english") == {
        SPANS["last weekend"],
        SPANS["coming weekend"],
    }
    assert spans("who is away at the weekend?", "english") == {SPANS["last weekend"], SPANS["coming weekend"]}


def test_on_a_sunday_the_weekend_is_the_one_that_has_begun() -> None:
    sunday = NOW - timedelta(days=3)
    found, _ = calendar.times("what did we do over the weekend?", EARLIEST, sunday)
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


def test_what_is_before_the_chat_began_is_no_time_of_it() -> None:
    assert spans("what was said before 3 May 2024?", "english") == set()


@pytest.mark.parametrize(
    ("language", "day"),
    [
        ("english", "8 May 2023"),
        ("german", "8. Mai 2023"),
        ("chinese", "2023年5月8日"),
        ("swedish", "8 May 2023"),
        ("german+english", "8. Mai 2023"),
    ],
)
def test_a_date_is_written_as_people_write_it(language: str, day: str) -> None:
    assert calendar.written(date(2023, 5, 8), language) == day


PIECES = st.sampled_from(
    [piece for _, text, _ in told() for piece in (text, *text.split())]
    + ["31 February", "0 May", "99.99.9999", "between", "and", "-", "(", "since", "99 years ago", "١٢ May"]
)
ZONES = st.sampled_from(
    [ZoneInfo("UTC"), ZoneInfo("Europe/Lisbon"), ZoneInfo("Asia/Tokyo"), ZoneInfo("Pacific/Apia")]
)


@given(
    st.text(max_size=60) | st.lists(PIECES, max_size=6).map(" ".join),
    st.sampled_from([*TWELVE, "german+english", "simple"]),
    st.integers(0, 80_000),
    ZONES,
    st.integers(0, 4000),
)
def test_any_text_in_any_language_names_times_in_order_and_in_its_zone(
    text: str, language: str, day: int, zone: ZoneInfo, days: int
) -> None:
    now = (datetime(1971, 1, 1, 23, 30, tzinfo=UTC) + timedelta(days=day)).astimezone(zone)
    earliest = now - timedelta(days=days)
    found, left = calendar.times(text, earliest, now, language)
    for start, end in found:
        assert start < end
        assert start.tzinfo is not None
        assert end.utcoffset() is not None
    # only what is named leaves the text, each with a space for it
    assert len(left) <= len(text) + len(found)
    assert set(calendar.dates(text, earliest, now, language)[0]) <= set(found)


@given(
    st.text(max_size=60) | st.lists(PIECES, max_size=6).map(" ".join),
    st.sampled_from(TWELVE),
    st.dates(date(3, 1, 1), date(9990, 1, 1)),
)
def test_any_text_in_any_language_means_whole_days(text: str, language: str, day: date) -> None:
    assert all(1 <= length <= 7 for _, length in calendar.days(text, day, language))


def test_every_language_of_chats_can_be_asked_in() -> None:
    for language in LANGUAGES:
        assert spans("2026-05-03", language) == {SPANS["third of may"]}


# Days of May 2023 that are meant by what is said on Monday, the 8th
DAYS = {
    "english": """
        today = 8 | Yesterday = 7 | tomorrow = 9 | last monday = 1 | last Tues = 2 | 3 days ago = 5
        today is our last day = 8
    """,
    "german": "gestern = 7 | heute ist der letzte Tag = 8",
    "french": "il y a deux jours = 6",
    "portuguese": "amanhã = 9",
    "russian": "завтра = 9 | сегодня последний день = 8",
    "chinese": "昨天 = 7 | 今天是最后一天 = 8",
    "japanese": "昨日 = 7",
}


@pytest.mark.parametrize(
    ("language", "told"), [(language, told) for language, texts in DAYS.items() for told in listed(texts)]
)
def test_what_counts_from_the_day_means_a_day_and_the_last_day_of_something_is_not_the_one_before(
    language: str, told: str
) -> None:
    text, _, day = told.rpartition(" = ")
    assert list(calendar.days(f"... {text} ...", date(2023, 5, 8), language)) == [
        (date(2023, 5, int(day)), 1)
    ]


@pytest.mark.parametrize("text", ["on Friday", "todays", "a week", "lasting monday", "last but not least"])
def test_what_does_not_count_from_the_day_means_none(text: str) -> None:
    assert list(calendar.days(text, date(2023, 5, 8))) == []
