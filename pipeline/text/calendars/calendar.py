"""Read the times that a text names in its language, and write days in a language."""

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import date, datetime

from pipeline.text.calendars import COUNTED_KINDS, calendars_of, spans
from pipeline.text.calendars.moments import Moment, moments
from pipeline.text.calendars.spans import Span

MONTHS = tuple(name.lower() for name in calendars_of("english")[0].shown.months)
# A calendar date is cut from the searched text; a relative time stays, as the talk may use the same words.
_OF_CALENDAR = frozenset(("range", "date", "month", "years"))
# The word after a name, or a possessive ending.
_FOLLOWING = re.compile(r"['’]s?(?!\w)|\s{1,3}([^\W_]+)")
_LENGTHS = {"day": 1, "weekend": 2, "week": 7}


def written(day: date, language: str = "english") -> str:
    """Write a date as people do in a language, the same in every locale.

    >>> written(date(2023, 5, 8)), written(date(2023, 5, 8), "german"), written(date(2023, 5, 8), "chinese")
    ('8 May 2023', '8. Mai 2023', '2023年5月8日')
    """
    shown = calendars_of(language)[0].shown
    return shown.day.format(day=day.day, month=shown.months[day.month - 1], number=day.month, year=day.year)


def days(text: str, said_on: date, language: str = "english") -> Iterator[tuple[date, int]]:
    """Yield the first day and the number of days of each time that counts from the day it was said, up to a week.

    >>> list(days("We leave next weekend, back the 20th.", date(2023, 5, 8)))
    [(datetime.date(2023, 5, 20), 2), (datetime.date(2023, 5, 20), 1)]
    """
    for moment in moments(text, calendars_of(language)):
        if moment.last is not None:
            continue
        if moment.kind == "monthday":
            near = [spans.moved(said_on, away) for away in range(-15, 16)]
            if same := [day for day in near if day.day == moment.numbers["d"]]:
                yield min(same, key=lambda day: abs((day - said_on).days)), 1
        elif moment.kind in COUNTED_KINDS and _has_one_meaning(moment):
            unit, first = spans.of_statement(moment, said_on)
            if unit in _LENGTHS:
                yield first, _LENGTHS[unit]


def times(
    text: str, earliest: datetime, now: datetime, language: str = "english", names: Collection[str] = ()
) -> tuple[list[Span], list[Span], str]:
    """Return the times that a question names, each once, those of nouns, and its text without those of the calendar.

    A time of a noun that is not over says what is asked about, as in "this year's fee", and not when it was talked
    about. "Before", "after", "since" and "until" a time mean from `earliest` or until `now`, in the time zone of `now`.
    A month that is one of `names` (in lower case) as well stays in the text, unless the word before it is of a month.
    """
    counted, of_nouns, dated, left = _read(text, earliest, now, language, names)
    return list(dict.fromkeys([*counted, *dated])), of_nouns, left


def dates(text: str, earliest: datetime, now: datetime, language: str = "english") -> tuple[list[Span], str]:
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
        meant = spans.of_question(moment, earliest, now)
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
