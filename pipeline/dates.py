"""Relative dates made absolute: "yesterday" means nothing a month later."""

import re
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
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_DAYS = {"today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0}
_DAYS |= {"yesterday": -1, "last night": -1, "tomorrow": 1}
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


def _meaning(match: re.Match[str], said: date) -> str:
    if day := match["day"]:
        return written(_moved(said, _DAYS[day.lower()]))
    if weekday := match["weekday"]:
        back = (said.weekday() - _WEEKDAYS.index(weekday.lower()) - 1) % 7 + 1
        return written(_moved(said, -back))
    if unit := match["ago"]:
        count = match["count"].lower()
        number = _NUMBERS.get(count) or int(count)
        return _around(said, unit.lower(), -number)
    step = {"last": -1, "this": 0, "next": 1}[match["which"].lower()]
    unit = match["unit"].lower()
    if unit == "weekend":
        monday = _moved(said, -said.weekday() + 7 * step)
        return f"{written(_moved(monday, 5))} and {written(_moved(monday, 6))}"
    if unit == "week":
        return f"week of {written(_moved(said, -said.weekday() + 7 * step))}"
    return _around(said, unit, step)


def _around(said: date, unit: str, number: int) -> str:
    if unit == "day":
        return written(_moved(said, number))
    if unit == "week":
        return f"around {written(_moved(said, 7 * number))}"
    if unit == "month":
        months = said.year * 12 + said.month - 1 + number
        return f"{_MONTHS[months % 12]} {months // 12}"
    return str(said.year + number)


def _moved(day: date, days: int) -> date:
    """That many days later, stopping at the calendar's ends."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), date.max.toordinal()))
