"""Compute what the times in a text mean, in a question asked now and in a statement made on a day, and write days."""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import MAXYEAR, date, datetime, time
from typing import TypeVar

from pipeline.text.calendars import COUNTED_KINDS, calendars_of
from pipeline.text.calendars.moments import Moment, moments

Span = tuple[datetime, datetime]
"""From and until, the end not included."""
Day = TypeVar("Day", date, datetime)
# Days per unit: people round the more, the longer ago.
_UNIT_DAYS = {"day": 1, "weekend": 7, "week": 7, "month": 30, "year": 365}
_AROUND_DAYS = 2


def of_question(moment: Moment, earliest: datetime, now: datetime) -> list[Span]:
    """Return the times that a question means, the newest first; none for a date that does not exist.

    A date without a year is of every year from `earliest` to `now`. What is open begins at `earliest` or ends `now`.
    A deadline, as in "what must be ready before Friday?", is still to come.
    """
    if _is_deadline(moment):
        return _open([(earliest, now)])
    spans = list(_closed(moment, earliest, now))
    match moment.relation:
        case "before":
            return _open((earliest, min(start, now)) for start, _ in spans)
        case "after":
            return _open((max(end, earliest), now) for _, end in spans)
        case "since":
            return _open((max(start, earliest), now) for start, _ in spans)
        case "until":
            return _open((earliest, min(end, now)) for _, end in spans if end <= now or len(spans) == 1)
        case "around":
            spans = [(moved(start, -_AROUND_DAYS), moved(end, _AROUND_DAYS)) for start, end in spans]
    return [(start, end) for start, end in spans if start < end]


def of_statement(moment: Moment, day: date) -> tuple[str, date]:
    """Return what a statement of this day means: `day`, `weekend`, `week`, `around` (a day), `month` or `year`, and the
    first day of it.
    """
    numbers = moment.numbers
    match moment.kind:
        case "day":
            return "day", moved(day, numbers["step"])
        case "step_weekday":
            return "day", moved(day, -((day.weekday() - numbers["w"] - 1) % 7 + 1))
        case "ago":
            return _away(day, moment.unit, -numbers["count"])
    if moment.unit in {"week", "weekend"}:
        monday = moved(day, -day.weekday() + 7 * numbers["step"])
        return moment.unit, moved(monday, 5) if moment.unit == "weekend" else monday
    return _away(day, moment.unit, numbers["step"])


def moved(day: Day, days: int) -> Day:
    """Move a date by a number of calendar days, stopping at the calendar's ends."""
    # the first and the last day are left out: they may not exist in another time zone
    ordinal = min(max(day.toordinal() + days, 2), date.max.toordinal() - 1)
    shifted = type(day).fromordinal(ordinal)
    return datetime.combine(shifted, time(), day.tzinfo) if isinstance(day, datetime) else shifted


def _is_deadline(moment: Moment) -> bool:
    """Tell whether a weekday or a day of the month is a deadline still to come."""
    bare = moment.kind in {"weekday", "monthday"} and moment.last is None
    return bare and moment.relation in {"before", "until"} and not moment.past


def _open(spans: Iterable[Span]) -> list[Span]:
    """Return the first span that is not empty: a date without a year means the last one."""
    return [(start, end) for start, end in spans if start < end][:1]


def _closed(moment: Moment, earliest: datetime, now: datetime) -> list[Span]:
    first = _spans(moment, earliest, now)
    if moment.last is None:
        return first
    last = _spans(moment.last, earliest, now)
    # the nearest end after a start, and of several starts the nearest to it
    starts: dict[datetime, datetime] = {}
    for start, _ in first:
        if ends := [end for _, end in last if end > start]:
            starts.setdefault(min(ends), start)
        elif moment.kind == "weekday" and last:
            starts.setdefault(last[0][1], moved(start, -7))
    return [(start, end) for end, start in starts.items()]


def _spans(moment: Moment, earliest: datetime, now: datetime) -> list[Span]:
    numbers, today = moment.numbers, midnight(now)
    match moment.kind:
        case "day":
            start = moved(today, numbers["step"])
            return [(start, moved(start, 1))]
        case "weekday" | "step_weekday":
            step = numbers.get("step", -1)
            back = (today.weekday() - numbers["w"] - 1) % 7 + 1
            weeks = 0 if step == -1 else 1 + step if step < 0 else 1
            start = moved(today, -back + 7 * weeks)
            return [(start, moved(start, 1))]
        case "week_weekday":
            start = moved(today, -today.weekday() + 7 * numbers["step"] + numbers["w"])
            return [(start, moved(start, 1))]
        case "ago":
            length = _UNIT_DAYS[moment.unit]
            middle = moved(today, -numbers["count"] * length)
            return [(moved(middle, -(length // 2)), moved(middle, length // 2 + 1))]
        case "counted":
            # "in the last week" is of one
            length = numbers.get("count", 1) * _UNIT_DAYS[moment.unit]
            ahead = numbers.get("step", -1) > 0
            return [(moved(today, 0 if ahead else -length), moved(today, length + 1 if ahead else 1))]
        case "weekend":
            return _weekends(today, last_only=moment.past)
        case "step" if moment.unit == "weekend" and numbers["step"] == 0 and moment.past:
            return _weekends(today)
        case "step" | "period":
            return [_period(moment.unit, numbers["step"], today)]
        case "monthday":
            return _days_of_months(numbers["d"], earliest, today)
        case _:
            return _dated(moment, earliest, now)


def _weekends(today: datetime, *, last_only: bool = False) -> list[Span]:
    """Return the weekend of this week; before it has begun, also or only the last one."""
    coming = _period("weekend", 0, today)
    if coming[0] <= today:
        return [coming]
    last = _period("weekend", -1, today)
    return [last] if last_only else [coming, last]


def _period(unit: str, step: int, today: datetime) -> Span:
    match unit:
        case "day":
            start = moved(today, step)
            return start, moved(start, 1)
        case "week":
            start = moved(today, -today.weekday() + 7 * step)
            return start, moved(start, 7)
        case "weekend":
            start = moved(today, 5 - today.weekday() + 7 * step)
            return start, moved(start, 2)
        case "month":
            return _month(today, step), _month(today, step + 1)
        case _:
            return _month(today, 12 * step, 1), _month(today, 12 * (step + 1), 1)


def _days_of_months(number: int, earliest: datetime, today: datetime) -> list[Span]:
    """Return the last day of this number up to today, else the next."""
    for back in (0, -1, -2, 1, 2):
        start = moved(_month(today, back), number - 1)
        if start.day == number and (start <= today or back > 0) and moved(start, 1) > earliest:
            return [(start, moved(start, 1))]
    return []


def _dated(moment: Moment, earliest: datetime, now: datetime) -> list[Span]:
    """Return the days, months or years of a date."""
    day, month = moment.numbers.get("d"), moment.numbers.get("n")
    # the newest first: of a chat of many years the last ones are meant
    years = [moment.numbers["y"]] if "y" in moment.numbers else range(now.year, earliest.year - 1, -1)
    spans = []
    for year in years:
        if not 1 < year < MAXYEAR - 1 or (month is not None and not 1 <= month <= 12):
            continue
        january = datetime(year, 1, 1, tzinfo=now.tzinfo)
        if month is None:
            spans.append((january, datetime(year + 1, 1, 1, tzinfo=now.tzinfo)))
            continue
        start = january.replace(month=month)
        if day is None:
            spans.append((start, _month(start, 1)))
            continue
        first, last = moved(start, day - 1), moved(start, moment.numbers.get("e", day) - 1)
        if day < 1 or first.month != month or last.month != month or last < first:
            continue
        if moment.relation == "week":
            first = moved(first, -first.weekday())
            last = moved(first, 6)
        spans.append((first, moved(last, 1)))
    return spans


def _month(day: datetime, months: int, month: int | None = None) -> datetime:
    """Return the first of the month `months` away, counted from `month` of the year if given."""
    number = day.year * 12 + (month or day.month) - 1 + months
    year = min(max(number // 12, 2), MAXYEAR - 1)
    return datetime(year, number % 12 + 1, 1, tzinfo=day.tzinfo)


def _away(day: date, unit: str, number: int) -> tuple[str, date]:
    if unit == "day":
        return "day", moved(day, number)
    if unit in {"week", "weekend"}:
        return "around", moved(day, 7 * number)
    if unit == "month":
        months = day.year * 12 + day.month - 1 + number
        return "month", date(min(max(months // 12, 1), MAXYEAR), months % 12 + 1, 1)
    return "year", date(min(max(day.year + number, 1), MAXYEAR), 1, 1)


def midnight(now: datetime) -> datetime:
    """Return the beginning of a day, by its own clock."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


MONTHS = tuple(name.lower() for name in calendars_of("english")[0].shown.months)
# A calendar date is cut from the searched text; a relative time stays, as the talk may use the same words.
_OF_CALENDAR = frozenset(("range", "date", "month", "years"))
# The word after a name, or a possessive ending.
_FOLLOWING = re.compile(r"['’]s?(?!\w)|\s{1,3}([^\W_]+)")
_LENGTHS = {"day": 1, "weekend": 2, "week": 7}


def written_day(day: date, language: str = "english") -> str:
    """Write a date as people do in a language, the same in every locale.

    >>> written_day(date(2023, 5, 8)), written_day(date(2023, 5, 8), "german"), written_day(date(2023, 5, 8), "chinese")
    ('8 May 2023', '8. Mai 2023', '2023年5月8日')
    """
    shown = calendars_of(language)[0].shown
    return shown.day.format(day=day.day, month=shown.months[day.month - 1], number=day.month, year=day.year)


def days_from(text: str, said_on: date, language: str = "english") -> Iterator[tuple[date, int]]:
    """Yield the first day and the number of days of each time that counts from the day it was said, up to a week.

    >>> list(days_from("We leave next weekend, back the 20th.", date(2023, 5, 8)))
    [(datetime.date(2023, 5, 20), 2), (datetime.date(2023, 5, 20), 1)]
    """
    for moment in moments(text, calendars_of(language)):
        if moment.last is not None:
            continue
        if moment.kind == "monthday":
            near = [moved(said_on, away) for away in range(-15, 16)]
            if same := [day for day in near if day.day == moment.numbers["d"]]:
                yield min(same, key=lambda day: abs((day - said_on).days)), 1
        elif moment.kind in COUNTED_KINDS and _has_one_meaning(moment):
            unit, first = of_statement(moment, said_on)
            if unit in _LENGTHS:
                yield first, _LENGTHS[unit]


def times_named(
    text: str, earliest: datetime, now: datetime, language: str = "english", names: Collection[str] = ()
) -> tuple[list[Span], list[Span], str]:
    """Return the times that a question names, each once, those of nouns, and its text without those of the calendar.

    A time of a noun that is not over says what is asked about, as in "this year's fee", and not when it was talked
    about. "Before", "after", "since" and "until" a time mean from `earliest` or until `now`, in the time zone of `now`.
    A month that is one of `names` (in lower case) as well stays in the text, unless the word before it is of a month.
    """
    counted, of_nouns, dated, left = _read(text, earliest, now, language, names)
    return list(dict.fromkeys([*counted, *dated])), of_nouns, left


def dates_named(
    text: str, earliest: datetime, now: datetime, language: str = "english"
) -> tuple[list[Span], str]:
    """Read the times that a text names by the calendar: `(each once, the text without them)`.

    A date without a year means every year from `earliest` to `now`, in the time zone of `now`.
    """
    _, _, dated, left = _read(text, earliest, now, language)
    return list(dict.fromkeys(dated)), left


def _read(
    text: str, earliest: datetime, now: datetime, language: str, names: Collection[str] = ()
) -> tuple[list[Span], list[Span], list[Span], str]:
    """Return the times that count from now, those of nouns, those of the calendar, and the text without the latter."""
    # at the calendar's edge there is no such time in another zone
    with suppress(OverflowError):
        earliest = earliest.astimezone(now.tzinfo)
    counted: list[Span] = []
    of_nouns: list[Span] = []
    dated: list[Span] = []
    left, at = [], 0
    for moment in moments(text, calendars_of(language)):
        meant = of_question(moment, earliest, now)
        of_calendar = moment.kind in _OF_CALENDAR
        of_noun = moment.of_noun and moment.kind in {"step", "period"} and moment.numbers["step"] >= 0
        (dated if of_calendar else of_nouns if of_noun else counted).extend(meant)
        if of_calendar and moment.whole and not _may_name(text, moment, names):
            left += [text[at : max(at, moment.start - moment.before)], " "]
            at = moment.end + moment.after
    return counted, of_nouns, dated, "".join((*left, text[at:]))


def _may_name(text: str, moment: Moment, names: Collection[str]) -> bool:
    """Tell whether a month may as well be somebody's name: "in May Chen's flat", but not "in May"."""
    if text[moment.start : moment.end].casefold() not in names:
        return False
    following = _FOLLOWING.match(text, moment.end)
    is_whole_name = following is not None and (following[1] is None or following[1].casefold() in names)
    return is_whole_name or not moment.surely_month


def _has_one_meaning(moment: Moment) -> bool:
    """Tell whether a time is unambiguous: "next Friday" and "the last day" are not."""
    match moment.kind:
        case "step_weekday":
            return moment.numbers["step"] == -1
        case "step":
            return moment.unit != "day"
        case _:
            return moment.kind != "counted"
