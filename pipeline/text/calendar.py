"""Relative dates made absolute: "yesterday" means nothing a month later."""

import re
from collections.abc import Iterator
from datetime import date

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
MONTHS = tuple(month.lower() for month in _MONTHS)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_DAYS = {"today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0}
_DAYS |= {"yesterday": -1, "last night": -1, "tomorrow": 1}
# "the 28th", where no month and nothing that is counted follows
_ORDINAL = re.compile(
    r"\b(?P<day>\d{1,2})(?:st|nd|rd|th)(?=\s*(?:[.,;:!?)]|$|(?:at|from|until|till)\b))", re.IGNORECASE
)
_LENGTHS = {"day": 1, "weekend": 2, "week": 7}
_RELATIVE = re.compile(
    r"\b(?:(?P<day>" + "|".join(_DAYS) + r")"
    r"|last (?P<weekday>" + "|".join(_WEEKDAYS) + r")(?:day|s|sday|nesday|rs|rsday|urday)?"
    r"|(?P<which>last|this|next) (?P<unit>week|weekend|month|year)"
    r"|(?P<count>\d{1,2}|" + "|".join(_NUMBERS) + r") (?P<ago>day|week|month|year)s? ago)\b(?! \()",
    re.IGNORECASE,
)


def written(day: date) -> str:
    """A date as people write it, the same in every locale.

    >>> written(date(2023, 5, 8))
    '8 May 2023'
    """
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def absolute(text: str, said: date) -> str:
    """The text with the date in brackets after English words that count from the day they were said.

    >>> absolute("I went yesterday, and two weeks ago.", date(2023, 5, 8))
    'I went yesterday (7 May 2023), and two weeks ago (around 24 April 2023).'
    """
    return _RELATIVE.sub(lambda match: f"{match[0]} ({_meaning(match, said)})", text)


def days(text: str, said: date) -> Iterator[tuple[date, int]]:
    """The first day and the number of days of what the text counts from the day it was said, up to a week.

    >>> list(days("We leave next weekend, back the 20th.", date(2023, 5, 8)))
    [(datetime.date(2023, 5, 20), 2), (datetime.date(2023, 5, 20), 1)]
    """
    for match in _RELATIVE.finditer(text):
        unit, first = _meant(match, said)
        if unit in _LENGTHS:
            yield first, _LENGTHS[unit]
    for match in _ORDINAL.finditer(text):
        near = [_moved(said, away) for away in range(-15, 16)]
        number = int(match["day"])
        if same := [day for day in near if day.day == number]:
            yield min(same, key=lambda day: abs((day - said).days)), 1


def _meaning(match: re.Match[str], said: date) -> str:
    unit, first = _meant(match, said)
    match unit:
        case "weekend":
            return f"{written(first)} and {written(_moved(first, 1))}"
        case "week":
            return f"week of {written(first)}"
        case "around":
            return f"around {written(first)}"
        case "month":
            return f"{_MONTHS[first.month - 1]} {first.year}"
        case "year":
            return str(first.year)
        case _:
            return written(first)


def _meant(match: re.Match[str], said: date) -> tuple[str, date]:
    """What it names (`day`, `weekend`, `week`, `around` a day, `month`, `year`), and its first day."""
    if day := match["day"]:
        return "day", _moved(said, _DAYS[day.lower()])
    if weekday := match["weekday"]:
        back = (said.weekday() - _WEEKDAYS.index(weekday.lower()) - 1) % 7 + 1
        return "day", _moved(said, -back)
    if unit := match["ago"]:
        count = match["count"].lower()
        number = _NUMBERS.get(count) or int(count)
        return _around(said, unit.lower(), -number)
    step = {"last": -1, "this": 0, "next": 1}[match["which"].lower()]
    unit = match["unit"].lower()
    if unit in {"week", "weekend"}:
        monday = _moved(said, -said.weekday() + 7 * step)
        return unit, _moved(monday, 5) if unit == "weekend" else monday
    return _around(said, unit, step)


def _around(said: date, unit: str, number: int) -> tuple[str, date]:
    if unit == "day":
        return "day", _moved(said, number)
    if unit == "week":
        return "around", _moved(said, 7 * number)
    if unit == "month":
        months = said.year * 12 + said.month - 1 + number
        return "month", date(min(max(months // 12, 1), date.max.year), months % 12 + 1, 1)
    return "year", date(min(max(said.year + number, 1), date.max.year), 1, 1)


def _moved(day: date, days: int) -> date:
    """That many days later, stopping at the calendar's ends."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), date.max.toordinal()))
