"""Times are read in the words of each language: what a question of somebody who writes it means by them."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import languages
from pipeline.text.calendars import calendar, calendars_of
from schemas.languages import LANGUAGES

EARLIEST = datetime(2025, 6, 10, tzinfo=UTC)
# a Wednesday
NOW = datetime(2026, 5, 13, 15, tzinfo=UTC)
TWELVE = (
    "chinese dutch english french german italian japanese polish portuguese russian spanish turkish".split()
)

LAST_TUESDAY = ("2026-05-12", "2026-05-13")
WEEK_BEFORE = ("2026-05-04", "2026-05-11")
YESTERDAY = ("2026-05-12", "2026-05-13")
TODAY = ("2026-05-13", "2026-05-14")
THREE_DAYS_AGO = ("2026-05-10", "2026-05-11")
LAST_THREE_DAYS = ("2026-05-10", "2026-05-14")
LAST_WEEKEND = ("2026-05-09", "2026-05-11")
COMING_WEEKEND = ("2026-05-16", "2026-05-18")
WEEKEND_BEFORE = ("2026-05-02", "2026-05-04")
LAST_SEVEN_DAYS = ("2026-05-06", "2026-05-14")
LAST_THIRTY_DAYS = ("2026-04-13", "2026-05-14")
LAST_MONTH = ("2026-04-01", "2026-05-01")
LAST_YEAR = ("2025-01-01", "2026-01-01")
THIRD_OF_MAY = ("2026-05-03", "2026-05-04")
THREE_TO_SEVEN = ("2026-05-03", "2026-05-08")
IN_MAY = ("2026-05-01", "2026-06-01")
BEFORE_MAY = ("2025-06-10", "2026-05-01")
SINCE_APRIL = ("2026-04-01", "2026-05-13")
UNTIL_FRIDAY = ("2025-06-10", "2026-05-09")
# the next one: until now
BY_FRIDAY = ("2025-06-10", "2026-05-13")
LAST_FRIDAY = ("2026-05-08", "2026-05-09")
AFTER_THE_THIRD = ("2026-05-04", "2026-05-13")

STORIES = {
    "english": {
        "what did we say yesterday?": YESTERDAY,
        "who called the day before yesterday": ("2026-05-11", "2026-05-12"),
        "what's on this morning": TODAY,
        "what did ana say last Tuesday?": LAST_TUESDAY,
        "what did ana say last tue?": LAST_TUESDAY,
        "where were we last week?": WEEK_BEFORE,
        "what did we agree on Friday?": LAST_FRIDAY,
        "what did we agree on fri": LAST_FRIDAY,
        "anything new in the last three days?": LAST_THREE_DAYS,
        "anything new in the past 3 days?": LAST_THREE_DAYS,
        "anything new in the last week?": LAST_SEVEN_DAYS,
        "what did we do this past week?": LAST_SEVEN_DAYS,
        "what did we spend over the past month?": LAST_THIRTY_DAYS,
        "what did we do over the last weekend?": LAST_WEEKEND,
        "what happened over the weekend?": LAST_WEEKEND,
        "where were you at the weekend?": LAST_WEEKEND,
        "what happened the weekend before last?": WEEKEND_BEFORE,
        "what happened the week before last?": ("2026-04-27", "2026-05-04"),
        "what was said on the Friday before last": ("2026-05-01", "2026-05-02"),
        "what is planned for this weekend?": COMING_WEEKEND,
        "who moved in the last year?": ("2025-05-13", "2026-05-14"),
        "who came 3 days ago?": THREE_DAYS_AGO,
        "what was on May 3?": THIRD_OF_MAY,
        "what was on 3 May?": THIRD_OF_MAY,
        "what was on the 3rd of May": THIRD_OF_MAY,
        "what was on Apr 9": ("2026-04-09", "2026-04-10"),
        "what was on 9 Apr": ("2026-04-09", "2026-04-10"),
        "what was on 03.05.2026": THIRD_OF_MAY,
        "what was on 03/05/2026?": THIRD_OF_MAY,
        "what was on 05/23/2026?": ("2026-05-23", "2026-05-24"),
        "2026-05-03 what was on": THIRD_OF_MAY,
        "what was on 3/5?": THIRD_OF_MAY,
        "what was on May the 3rd?": THIRD_OF_MAY,
        "what was on the third of May?": THIRD_OF_MAY,
        "what was on May the third?": THIRD_OF_MAY,
        "what happened between Nov and Jan?": ("2025-11-01", "2026-02-01"),
        "what happened from Jan to Mar 2026?": ("2026-01-01", "2026-04-01"),
        "from Mon to Tue": ("2026-05-11", "2026-05-13"),
        "what happened between 3 and 7 May?": THREE_TO_SEVEN,
        "what happened from 3 to 7 May?": THREE_TO_SEVEN,
        "what happened May 3-7": THREE_TO_SEVEN,
        "what happened between 3 May and 7 May 2026?": THREE_TO_SEVEN,
        "from Monday to Tuesday": ("2026-05-11", "2026-05-13"),
        "who visited in may": IN_MAY,
        "what about May, anything?": IN_MAY,
        "what was decided before May?": BEFORE_MAY,
        "what changed since April?": SINCE_APRIL,
        "what was done until Friday?": UNTIL_FRIDAY,
        "what was due by Friday?": UNTIL_FRIDAY,
        "what must be ready before Friday?": BY_FRIDAY,
        "what must be ready before the 20th?": BY_FRIDAY,
        "what do we need until Sunday?": BY_FRIDAY,
        "what happened after the 3rd?": AFTER_THE_THIRD,
        "what happened since last week?": ("2026-05-04", "2026-05-13"),
        "what was said before yesterday?": ("2025-06-10", "2026-05-12"),
        "around 3 May": ("2026-05-01", "2026-05-06"),
        "a couple of days ago": ("2026-05-11", "2026-05-12"),
        "on Tuesday last week": ("2026-05-05", "2026-05-06"),
    },
    "german": {
        "was war gestern?": YESTERDAY,
        "was war vorgestern": ("2026-05-11", "2026-05-12"),
        "wer kam letzten Dienstag": LAST_TUESDAY,
        "was war letzte Woche?": WEEK_BEFORE,
        "was hat Ana am Freitag gesagt?": LAST_FRIDAY,
        "was war am Fr los": LAST_FRIDAY,
        "was gab es in den letzten drei Tagen": LAST_THREE_DAYS,
        "was gab es in der letzten Woche?": LAST_SEVEN_DAYS,
        "was war am Wochenende?": LAST_WEEKEND,
        "was gab es im letzten Monat?": LAST_THIRTY_DAYS,
        "wer kam vor drei Tagen": THREE_DAYS_AGO,
        "was war am 3. Mai?": THIRD_OF_MAY,
        "was war am 3.5.?": THIRD_OF_MAY,
        "was war am 3.5 los?": THIRD_OF_MAY,
        "was war am 03.05.2026": THIRD_OF_MAY,
        "was war zwischen dem 3. und 7. Mai": THREE_TO_SEVEN,
        "vom 3. bis 7. Mai": THREE_TO_SEVEN,
        "was wurde vor Mai beschlossen": BEFORE_MAY,
        "was ist seit April neu?": SINCE_APRIL,
        "zwischen Nov und Jan": ("2025-11-01", "2026-02-01"),
        "bis Freitag": BY_FRIDAY,
        "was war bis Freitag fertig?": UNTIL_FRIDAY,
        "was kam nach dem 3. noch?": AFTER_THE_THIRD,
        "im Mai": IN_MAY,
        "was war letzten Monat": LAST_MONTH,
        "Dienstag letzter Woche": ("2026-05-05", "2026-05-06"),
    },
    "french": {
        "qu'est-ce qu'on a dit hier ?": YESTERDAY,
        "qui est venu avant-hier ?": ("2026-05-11", "2026-05-12"),
        "mardi dernier": LAST_TUESDAY,
        "la semaine dernière": WEEK_BEFORE,
        "le mois dernier": LAST_MONTH,
        "ces trois derniers jours": LAST_THREE_DAYS,
        "l'avant-dernier week-end": WEEKEND_BEFORE,
        "au cours de la dernière semaine": LAST_SEVEN_DAYS,
        "il y a trois jours": THREE_DAYS_AGO,
        "le 3 mai": THIRD_OF_MAY,
        "entre le 3 et le 7 mai": THREE_TO_SEVEN,
        "du 3 au 7 mai": THREE_TO_SEVEN,
        "avant mai": BEFORE_MAY,
        "depuis avril": SINCE_APRIL,
        "jusqu'à vendredi": BY_FRIDAY,
        "avant vendredi": BY_FRIDAY,
        "en mai": IN_MAY,
        "après le 3 ?": AFTER_THE_THIRD,
    },
    "spanish": {
        "¿qué dijimos ayer?": YESTERDAY,
        "anteayer": ("2026-05-11", "2026-05-12"),
        "el martes pasado": LAST_TUESDAY,
        "la semana pasada": WEEK_BEFORE,
        "el mes pasado": LAST_MONTH,
        "en los últimos tres días": LAST_THREE_DAYS,
        "el penúltimo fin de semana": WEEKEND_BEFORE,
        "en la última semana": LAST_SEVEN_DAYS,
        "hace tres días": THREE_DAYS_AGO,
        "el 3 de mayo": THIRD_OF_MAY,
        "entre el 3 y el 7 de mayo": THREE_TO_SEVEN,
        "del 3 al 7 de mayo": THREE_TO_SEVEN,
        "antes de mayo": BEFORE_MAY,
        "desde abril": SINCE_APRIL,
        "hasta el viernes": BY_FRIDAY,
        "en mayo": IN_MAY,
    },
    "portuguese": {
        "o que dissemos ontem?": YESTERDAY,
        "anteontem": ("2026-05-11", "2026-05-12"),
        "na terça passada": LAST_TUESDAY,
        "na semana passada": WEEK_BEFORE,
        "no mês passado": LAST_MONTH,
        "nos últimos três dias": LAST_THREE_DAYS,
        "no penúltimo fim de semana": WEEKEND_BEFORE,
        "no último mês": LAST_THIRTY_DAYS,
        "há três dias": THREE_DAYS_AGO,
        "três dias atrás": THREE_DAYS_AGO,
        "em 3 de maio": THIRD_OF_MAY,
        "no dia 3 de maio": THIRD_OF_MAY,
        "entre 3 e 7 de maio": THREE_TO_SEVEN,
        "de 3 a 7 de maio": THREE_TO_SEVEN,
        "antes de maio": BEFORE_MAY,
        "desde abril": SINCE_APRIL,
        "até sexta-feira": BY_FRIDAY,
        "em maio": IN_MAY,
        "depois do dia 3": AFTER_THE_THIRD,
    },
    "italian": {
        "cosa abbiamo detto ieri?": YESTERDAY,
        "l'altro ieri": ("2026-05-11", "2026-05-12"),
        "martedì scorso": LAST_TUESDAY,
        "la settimana scorsa": WEEK_BEFORE,
        "il mese scorso": LAST_MONTH,
        "negli ultimi tre giorni": LAST_THREE_DAYS,
        "il penultimo weekend": WEEKEND_BEFORE,
        "nell'ultima settimana": LAST_SEVEN_DAYS,
        "tre giorni fa": THREE_DAYS_AGO,
        "il 3 maggio": THIRD_OF_MAY,
        "tra il 3 e il 7 maggio": THREE_TO_SEVEN,
        "dal 3 al 7 maggio": THREE_TO_SEVEN,
        "prima di maggio": BEFORE_MAY,
        "da aprile": SINCE_APRIL,
        "fino a venerdì": BY_FRIDAY,
        "a maggio": IN_MAY,
    },
    "dutch": {
        "wat zeiden we gisteren?": YESTERDAY,
        "eergisteren": ("2026-05-11", "2026-05-12"),
        "vorige dinsdag": LAST_TUESDAY,
        "vorige week": WEEK_BEFORE,
        "afgelopen maand": LAST_MONTH,
        "de afgelopen drie dagen": LAST_THREE_DAYS,
        "wat deden we in het weekend": LAST_WEEKEND,
        "in de laatste week": LAST_SEVEN_DAYS,
        "drie dagen geleden": THREE_DAYS_AGO,
        "op 3 mei": THIRD_OF_MAY,
        "tussen 3 en 7 mei": THREE_TO_SEVEN,
        "van 3 tot 7 mei": THREE_TO_SEVEN,
        "sinds april": SINCE_APRIL,
        "tot vrijdag": BY_FRIDAY,
        "in mei": IN_MAY,
        "na 3 mei": AFTER_THE_THIRD,
    },
    "polish": {
        "co mówiliśmy wczoraj?": YESTERDAY,
        "przedwczoraj": ("2026-05-11", "2026-05-12"),
        "w zeszły wtorek": LAST_TUESDAY,
        "w zeszłym tygodniu": WEEK_BEFORE,
        "w zeszłym miesiącu": LAST_MONTH,
        "w ostatnich trzech dniach ostatnie trzy dni": LAST_THREE_DAYS,
        "w ostatnim tygodniu": LAST_SEVEN_DAYS,
        "trzy dni temu": THREE_DAYS_AGO,
        "3 maja": THIRD_OF_MAY,
        "między 3 a 7 maja": THREE_TO_SEVEN,
        "od 3 do 7 maja": THREE_TO_SEVEN,
        "przed majem przed maj": BEFORE_MAY,
        "od kwietnia": SINCE_APRIL,
        "do piątku": BY_FRIDAY,
        "w maju": IN_MAY,
    },
    "turkish": {
        "dün ne dedik?": YESTERDAY,
        "evvelsi gün": ("2026-05-11", "2026-05-12"),
        "geçen salı": LAST_TUESDAY,
        "geçen hafta": WEEK_BEFORE,
        "geçen ay": LAST_MONTH,
        "son üç gün": LAST_THREE_DAYS,
        "üç gün önce": THREE_DAYS_AGO,
        "3 Mayıs'ta": THIRD_OF_MAY,
        "3-7 Mayıs arasında": THREE_TO_SEVEN,
        "Mayıs'tan önce": BEFORE_MAY,
        "Nisan'dan beri": SINCE_APRIL,
        "cumaya kadar": BY_FRIDAY,
        "Mayıs'ta": IN_MAY,
        "3 Mayıs'tan sonra": AFTER_THE_THIRD,
    },
    "russian": {
        "что мы говорили вчера?": YESTERDAY,
        "позавчера": ("2026-05-11", "2026-05-12"),
        "в прошлый вторник": LAST_TUESDAY,
        "на прошлой неделе": WEEK_BEFORE,
        "в прошлом месяце": LAST_MONTH,
        "за последние три дня": LAST_THREE_DAYS,
        "за последнюю неделю": LAST_SEVEN_DAYS,
        "три дня назад": THREE_DAYS_AGO,
        "3 мая": THIRD_OF_MAY,
        "3.5.": THIRD_OF_MAY,
        "с 3 по 7 мая": THREE_TO_SEVEN,
        "между 3 и 7 мая": THREE_TO_SEVEN,
        "до мая": BEFORE_MAY,
        "с апреля": SINCE_APRIL,
        "после 3 мая": AFTER_THE_THIRD,
        "в мае": IN_MAY,
    },
    "chinese": {
        "昨天我们说了什么": YESTERDAY,
        "前天谁来了": ("2026-05-11", "2026-05-12"),
        "上周二李明说了什么": ("2026-05-05", "2026-05-06"),
        "上周我们去了哪里": WEEK_BEFORE,
        "上个月": LAST_MONTH,
        "去年": LAST_YEAR,
        "最近三天": LAST_THREE_DAYS,
        "三天前": THREE_DAYS_AGO,
        "5月3日我们决定了什么": THIRD_OF_MAY,
        "五月三日": THIRD_OF_MAY,
        "2026年5月3日": THIRD_OF_MAY,
        "5月3日到7日": THREE_TO_SEVEN,
        "5月之前": BEFORE_MAY,
        "从4月以来": SINCE_APRIL,
        "5月3日之后": AFTER_THE_THIRD,
        "五月": IN_MAY,
    },
    "japanese": {
        "昨日何を話した?": YESTERDAY,
        "一昨日": ("2026-05-11", "2026-05-12"),
        "先週の火曜日に": ("2026-05-05", "2026-05-06"),
        "先週は": WEEK_BEFORE,
        "先月": LAST_MONTH,
        "去年": LAST_YEAR,
        "この3日間": LAST_THREE_DAYS,
        "三日前": THREE_DAYS_AGO,
        "5月3日に何を決めた?": THIRD_OF_MAY,
        "2026年5月3日": THIRD_OF_MAY,
        "5月3日から7日": THREE_TO_SEVEN,
        "5月より前": BEFORE_MAY,
        "4月から": SINCE_APRIL,
        "金曜日まで": BY_FRIDAY,
        "5月3日以降": AFTER_THE_THIRD,
        "5月に": IN_MAY,
    },
}


def spans(text: str, language: str) -> set[tuple[str, str]]:
    found, _ = calendar.times(text, EARLIEST, NOW, language)
    return {(str(start.date()), str(end.date())) for start, end in found}


@pytest.mark.parametrize(
    ("language", "text", "span"),
    [(language, text, span) for language, told in STORIES.items() for text, span in told.items()],
)
def test_a_time_is_read_in_the_words_of_its_language(language: str, text: str, span: tuple[str, str]) -> None:
    year_before = tuple(day.replace("2026", "2025", 1) for day in span)
    assert spans(text, language) - {year_before} == {span}


def test_every_language_has_its_stories() -> None:
    assert set(languages.LANGUAGES) == set(TWELVE) == set(STORIES)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("english", "may I march in?"),
        ("english", "May we go"),
        ("english", "is the sun out"),
        ("english", "who sat in the sun"),
        ("spanish", "en el mar"),
        ("english", "version 2.4 or 2.4.0"),
        ("english", "the score was 3/5"),
        ("english", "what happens every Friday"),
        ("english", "who lives on the 3rd floor"),
        ("english", "we had 2 wed guests"),
        ("german", "so geht das, mi casa, do it"),
        ("german", "guten Morgen"),
        ("german", "das kostet 4.5 Euro"),
        ("portuguese", "a segunda vez"),
        ("french", "les mars et mardis"),
        ("chinese", "三个苹果"),
        ("english", "what did Mar and Jan say"),
        ("english", "may the first one win"),
        ("english", "who cooks dinner at 5.30?"),
        ("english", "until 6.30 who stays?"),
        ("english", "which crash was fixed in 2.1?"),
        ("english", "who waited for 4.5 hours?"),
        ("english", "around 1.5 litres of milk"),
        ("english", "who is elected by 2/3 of the votes?"),
        ("english", "what happened in 12/24 hours"),
        ("english", "who has support on 24/7?"),
        ("german", "wer kommt um 19.10 Uhr?"),
        ("german", "wer kommt um 5.10?"),
        ("german", "bis 6.30 Uhr wer bleibt?"),
        ("german", "seit 4.5 Stunden warten wir"),
        ("french", "qui vient à 5.30 ?"),
        ("italian", "eletto da 2/3 dei voti"),
        ("dutch", "tot 6.10 uur"),
        ("polish", "co działa w 3.11?"),
        ("russian", "кто придёт в 5.10?"),
    ],
)
def test_words_that_only_look_like_times_are_none(language: str, text: str) -> None:
    assert spans(text, language) == set()


def test_what_may_be_a_share_stays_in_the_text_when_it_is_read_as_a_day() -> None:
    assert calendar.times("what was on 3/5?", EARLIEST, NOW)[1] == "what was on 3/5?"
    assert calendar.times("was war am 3.5.?", EARLIEST, NOW, "german")[1] == "was war  ?"


def test_a_weekend_that_may_be_the_last_or_the_coming_one_is_both() -> None:
    assert spans("what did we do this weekend?", "english") == {LAST_WEEKEND, COMING_WEEKEND}
    assert spans("who is away at the weekend?", "english") == {LAST_WEEKEND, COMING_WEEKEND}


def test_on_a_sunday_the_weekend_is_the_one_that_has_begun() -> None:
    sunday = NOW - timedelta(days=3)
    found, _ = calendar.times("what did we do over the weekend?", EARLIEST, sunday)
    assert [str(start.date()) for start, _ in found] == ["2026-05-09"]


def test_of_a_mixed_chat_both_languages_are_read() -> None:
    both = "german+english"
    assert spans("was war am 3. Mai and what last Tuesday", both) >= {THIRD_OF_MAY, LAST_TUESDAY}
    assert spans("am Freitag", both) == spans("on Friday", both) == {LAST_FRIDAY}


@pytest.mark.parametrize("language", ["simple", "finnish", "no such language", "../german", ""])
def test_a_language_without_a_calendar_has_english_words_and_figures(language: str) -> None:
    assert spans("on 3 May", language) >= {THIRD_OF_MAY}
    assert spans("03.05.2026", language) == {THIRD_OF_MAY}
    assert calendars_of(language) == calendars_of("english")


def test_what_is_before_the_chat_began_is_no_time_of_it() -> None:
    assert spans("what was said before 3 May 2024?", "english") == set()


@pytest.mark.parametrize(
    ("language", "day"),
    [
        ("english", "8 May 2023"),
        ("german", "8. Mai 2023"),
        ("french", "8 mai 2023"),
        ("spanish", "8 de mayo de 2023"),
        ("portuguese", "8 de maio de 2023"),
        ("italian", "8 maggio 2023"),
        ("dutch", "8 mei 2023"),
        ("polish", "8 maja 2023"),
        ("turkish", "8 Mayıs 2023"),
        ("russian", "8 мая 2023 г."),
        ("chinese", "2023年5月8日"),
        ("japanese", "2023年5月8日"),
        ("swedish", "8 May 2023"),
        ("german+english", "8. Mai 2023"),
    ],
)
def test_a_date_is_written_as_people_write_it(language: str, day: str) -> None:
    assert calendar.written(date(2023, 5, 8), language) == day


PIECES = st.sampled_from(
    [piece for told in STORIES.values() for text in told for piece in (text, *text.split())]
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
        assert spans("2026-05-03", language) == {THIRD_OF_MAY}
