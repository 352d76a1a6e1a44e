"""Read dates and times that stand in words, as in `Monday, March 3, 2025 at 10:11 PM`, in any language of ours."""

import re
from datetime import date, datetime, time
from functools import cache

from pipeline.platforms.records import DateOrder
from pipeline.platforms.whatsapp import whatsapp_time
from pipeline.text import languages

_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u3000\t]")
_HALF = whatsapp_time.HALF
_CLOCK = re.compile(
    rf"(?:(?P<before>{_HALF})\s?)?(?<!\d)(?P<hour>\d{{1,2}})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d))?"
    rf"(?:\s?(?P<after>{_HALF})(?!\w))?",
    re.IGNORECASE,
)
_HOURS = re.compile(r"(\d{1,2})시 ?(\d{1,2})분 ?(\d{1,2})초")
_WORD = re.compile(r"[^\W\d_]+")


@cache
def names(of: str) -> dict[str, int]:
    """Return the names of `months` (from 1) or `weekdays` (from 1) in all languages, in lower case."""
    tables = [languages.read(language, "calendar")[of] for language in languages.LANGUAGES]
    listed = [
        (word, n) for table in tables for n, words in enumerate(table, start=1) for word in words.split()
    ]
    return {word.casefold(): n for word, n in reversed(listed)}


def clock_of(text: str) -> time | None:
    """Return the time in a text.

    >>> clock_of("오후 1:05"), clock_of("10:11:12 a.m."), clock_of("Mon")
    (datetime.time(13, 5), datetime.time(10, 11, 12), None)
    """
    if (match := _CLOCK.search(_SPACES.sub(" ", text))) is None:
        return None
    hour, half = int(match["hour"]), whatsapp_time.half(match["before"] or match["after"], int(match["hour"]))
    if half is not None and hour <= 12:
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        return time(hour, int(match["minute"]), int(match["second"] or 0))
    except ValueError:
        return None


def start_of(text: str) -> whatsapp_time.Start | None:
    """Return the date in a text without a time, as three numbers; of a named month in the order of year, month, day.

    >>> start_of("Mon, 3/4/2025").date, start_of("Montag, 3. März 2025").date
    (('3', '4', '2025'), ('2025', '3', '3'))
    """
    numbers = re.findall(r"\d+", text)
    month = next(filter(None, (names("months").get(word) for word in _words(text))), None)
    if month is not None and len(numbers) == 2:
        day, year = sorted(numbers, key=len)
        numbers = [year, str(month), day]
    if len(numbers) != 3 or max(map(len, numbers)) > 4:
        return None
    return whatsapp_time.Start(
        style="bracket", date=(numbers[0], numbers[1], numbers[2]), written=text.strip(), hour=0, minute=0,
        second=0, half=None, rest="",
    )  # fmt: skip


def day_of(start: whatsapp_time.Start, order: DateOrder) -> date:
    """Return the day; a year in front is one in any order. Raises `ValueError` for a day that no calendar has."""
    return whatsapp_time.local_time(start, "ymd" if len(start.date[0]) >= 3 else order).date()


def moment_of(text: str) -> datetime | None:
    """Return the date, with a named month, and the time in a text; the zone is left out.

    >>> moment_of("Monday, March 3, 2025 at 10:11:12\u202fPM UTC")
    datetime.datetime(2025, 3, 3, 22, 11, 12)
    >>> moment_of("lunes, 3 de marzo de 2025, 10:11:12 UTC")
    datetime.datetime(2025, 3, 3, 10, 11, 12)
    """
    plain = _HOURS.sub(r"\1:\2:\3", _SPACES.sub(" ", text))
    clock, start = clock_of(plain), start_of(_CLOCK.sub(" ", plain, count=1))
    try:
        return datetime.combine(day_of(start, "ymd"), clock) if clock and start else None
    except ValueError:
        return None


def order_of(starts: list[whatsapp_time.Start]) -> DateOrder | None:
    """Guess the order of dates, first by the weekdays beside them; None if they allow two readings."""
    orders: tuple[DateOrder, ...] = ("dmy", "mdy", "ymd")
    fitting = [order for order in orders if _weekdays_fit(starts, order)]
    return fitting[0] if len(fitting) == 1 else whatsapp_time.guess_order(starts)


def _weekdays_fit(starts: list[whatsapp_time.Start], order: DateOrder) -> bool:
    """Tell whether each word beside the dates stands for one weekday, its own if we know it."""
    meant: dict[str, int] = {}
    for start in starts:
        try:
            weekday = whatsapp_time.local_time(start, order).isoweekday()
        except ValueError:
            return False
        for word in _words(start.written):
            if meant.setdefault(word, names("weekdays").get(word, weekday)) != weekday:
                return False
    return bool(meant) and len(set(meant.values())) == len(meant)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
