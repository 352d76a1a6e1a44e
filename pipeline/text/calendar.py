"""Dates in a text: relative dates made absolute, and the time spans that a question names.

English only; the tables of words come first, the patterns made of them next.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from typing import TypeVar

Span = tuple[datetime, datetime]
"""Whole days, the end not included."""
Day = TypeVar("Day", date, datetime)

MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
_NUMBERS = {
    word: number
    for number, words in enumerate("a,an,one two three four five six seven eight".split(), start=1)
    for word in words.split(",")
}
# by how many days each is after the day on which it is said
_DAYS = {"today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0}
_DAYS |= {"yesterday": -1, "last night": -1, "tomorrow": 1}

# What people say of another day in a message, and what a question says of an earlier one; "last time" is neither.
_IN_MESSAGES = re.compile(
    r"\b(?:(?P<day>" + "|".join(_DAYS) + r")"
    r"|last (?P<weekday>" + "|".join(day[:3] for day in WEEKDAYS) + r")(?:day|s|sday|nesday|rs|rsday|urday)?"
    r"|(?P<which>last|this|next) (?P<unit>week|weekend|month|year)"
    r"|(?P<count>\d{1,2}|" + "|".join(_NUMBERS) + r") (?P<ago>day|week|month|year)s? ago)\b(?! \()",
    re.IGNORECASE,
)
_IN_QUESTIONS = re.compile(
    r"\b(?:(?P<day>today|tonight|this (?:morning|afternoon|evening)|yesterday"
    r"(?: (?:morning|afternoon|evening))?|last night)"
    rf"|(?:last|this past) (?P<weekday>{'|'.join(WEEKDAYS)})"
    r"|(?P<which>last|this|the past) (?P<unit>week|weekend|month|year)"
    rf"|(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)}|a couple of) (?P<ago>day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)
# "the 28th", where no month and nothing that is counted follows
_ORDINAL = re.compile(
    r"\b(?P<day>\d{1,2})(?:st|nd|rd|th)(?=\s*(?:[.,;:!?)]|$|(?:at|from|until|till)\b))", re.IGNORECASE
)
_M = "|".join(MONTHS)
_LEAD = (
    r"(?:\b(?:as mentioned )?(?:on|in|during|of|since|around|before|after|by|until|from|last|this|late|early|mid) "
    r"(?:the )?)"
)
_WEEK = r"(?:(?:in |during )?(?:the )?(?P<week>week) (?:of|from|starting|beginning) (?:on )?(?:monday )?(?:the )?)?"
_DATES = tuple(
    re.compile(source, re.IGNORECASE)
    for source in (
        rf"{_LEAD}?\b(?P<y>\d{{4}})-(?P<n>\d{{2}})-(?P<d>\d{{2}})\b",
        rf"{_WEEK}{_LEAD}?\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m>{_M})\b(?:,? (?P<y>\d{{4}})\b)?",
        rf"{_WEEK}{_LEAD}?\b(?P<m>{_M}) (?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y>\d{{4}})\b)?",
        rf"{_LEAD}?\b(?P<m>{_M}),? (?P<y>\d{{4}})\b",
        # a bare month needs the preposition: may, march and august are words too
        rf"{_LEAD}(?P<m>{_M})\b",
        rf"{_LEAD}(?P<y>(?:19|20)\d{{2}})\b",
    )
)
_LENGTHS = {"day": 1, "weekend": 2, "week": 7}


def written(day: date) -> str:
    """Write a date as people do, the same in every locale.

    >>> written(date(2023, 5, 8))
    '8 May 2023'
    """
    return f"{day.day} {MONTHS[day.month - 1].capitalize()} {day.year}"


def absolute(text: str, said: date) -> str:
    """Add the date in brackets after words that count from the day on which they were said.

    >>> absolute("I went yesterday, and two weeks ago.", date(2023, 5, 8))
    'I went yesterday (7 May 2023), and two weeks ago (around 24 April 2023).'
    """
    return _IN_MESSAGES.sub(lambda match: f"{match[0]} ({_meaning(match, said)})", text)


def days(text: str, said: date) -> Iterator[tuple[date, int]]:
    """Yield the first day and the number of days of each time that counts from the day it was said, up to a week.

    >>> list(days("We leave next weekend, back the 20th.", date(2023, 5, 8)))
    [(datetime.date(2023, 5, 20), 2), (datetime.date(2023, 5, 20), 1)]
    """
    for match in _IN_MESSAGES.finditer(text):
        unit, first = _meant(match, said)
        if unit in _LENGTHS:
            yield first, _LENGTHS[unit]
    for match in _ORDINAL.finditer(text):
        near = [_moved(said, away) for away in range(-15, 16)]
        number = int(match["day"])
        if same := [day for day in near if day.day == number]:
            yield min(same, key=lambda day: abs((day - said).days)), 1


def dates(text: str, earliest: datetime, now: datetime) -> tuple[list[Span], str]:
    """Read the times that a text names by the calendar: `(each once, the text without them)`.

    A date without a year means every year from `earliest` to `now`, in the time zone of `now`.
    """
    spans: list[Span] = []

    def taken(match: re.Match[str]) -> str:
        spans.extend(_spans(match.groupdict(), earliest, now))
        return " "

    for pattern in _DATES:
        text = pattern.sub(taken, text)
    return list(dict.fromkeys(spans)), text


def relative(question: str, now: datetime) -> list[Span]:
    """Read the times of a question that count from now, as whole days of the calendar of `now`.

    "Two weeks ago" is that day give or take half a week: people round, the more the longer ago.
    """
    return [_span(match.groupdict(), now) for match in _IN_QUESTIONS.finditer(question)]


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
            return f"{MONTHS[first.month - 1].capitalize()} {first.year}"
        case "year":
            return str(first.year)
        case _:
            return written(first)


def _meant(match: re.Match[str], said: date) -> tuple[str, date]:
    """Return `day`, `weekend`, `week`, `around` (a day), `month` or `year`, and the first day of it."""
    if day := match["day"]:
        return "day", _moved(said, _DAYS[day.lower()])
    if weekday := match["weekday"]:
        back = (said.weekday() - _weekday(weekday) - 1) % 7 + 1
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


def _spans(found: Mapping[str, str | None], earliest: datetime, now: datetime) -> list[Span]:
    """Return the days, months or years that a match means; none for a date that does not exist."""
    day = int(found["d"] or 0) if found.get("d") else None
    month = None
    if found.get("n"):
        month = int(found["n"] or 0)
    elif found.get("m"):
        month = MONTHS.index((found["m"] or "").lower()) + 1
    # the newest first: of a chat of many years the last ones are meant
    years = [int(found["y"] or 0)] if found.get("y") else range(now.year, earliest.year - 1, -1)
    spans = []
    for year in years:
        if not 1 < year < 9998 or (month is not None and not 1 <= month <= 12):
            continue
        if month is None:
            start, end = datetime(year, 1, 1, tzinfo=now.tzinfo), datetime(year + 1, 1, 1, tzinfo=now.tzinfo)
        elif day is None:
            start = datetime(year, month, 1, tzinfo=now.tzinfo)
            end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=now.tzinfo)
        else:
            start = datetime(year, month, 1, tzinfo=now.tzinfo) + timedelta(days=day - 1)
            end = start + timedelta(days=1)
            if day < 1 or start.month != month:
                continue
            if found.get("week"):
                start = _moved(start, -start.weekday())
                end = _moved(start, 7)
        spans.append((start, end))
    return spans


def _span(found: Mapping[str, str | None], now: datetime) -> Span:
    """Return the days that a match means."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if day := found.get("day"):
        start = _moved(today, -1 if day.lower().startswith(("yesterday", "last")) else 0)
        return start, _moved(start, 1)
    if weekday := found.get("weekday"):
        start = _moved(today, -((today.weekday() - _weekday(weekday) - 1) % 7 + 1))
        return start, _moved(start, 1)
    if unit := found.get("ago"):
        word = (found.get("count") or "").lower()
        count = int(word) if word.isdigit() else _NUMBERS.get(word, 2)
        days = {"day": 1, "week": 7, "month": 30, "year": 365}[unit.lower()]
        middle = _moved(today, -count * days)
        return _moved(middle, -(days // 2)), _moved(middle, days // 2 + 1)
    last = (found.get("which") or "").lower() != "this"
    match (found.get("unit") or "").lower():
        case "week":
            start = _moved(today, -today.weekday() - 7 * last)
            return start, _moved(start, 7)
        case "weekend":
            start = _moved(today, 5 - today.weekday() - 7 * last)
            return start, _moved(start, 2)
        case "month":
            end = today.replace(day=1)
            start = _moved(end, -1).replace(day=1) if last else end
            return (start, end) if last else (start, _moved(start, 31).replace(day=1))
        case _:
            year = max(today.year - last, 1)
            return today.replace(year=year, month=1, day=1), today.replace(
                year=min(year + 1, 9999), month=1, day=1
            )


def _weekday(word: str) -> int:
    """Return a weekday's number, 0 for Monday, by its first three letters."""
    return next(number for number, day in enumerate(WEEKDAYS) if day.startswith(word.lower()[:3]))


def _moved(day: Day, days: int) -> Day:
    """Move a date by a number of calendar days, stopping at the calendar's ends."""
    # the first and the last day are left out: they may not exist in another time zone
    ordinal = min(max(day.toordinal() + days, 2), date.max.toordinal() - 1)
    moved = type(day).fromordinal(ordinal)
    return datetime.combine(moved, time(), day.tzinfo) if isinstance(day, datetime) else moved
