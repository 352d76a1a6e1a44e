"""Find the date that a statement names, in the words of its language."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal

from pipeline.enrich.stated_facts.rules import BY_LANGUAGE, ByLanguage

_EARLIEST, _LATEST = 1900, 2200  # no year of anybody's life is before or after
_YEARS_TO_29_FEBRUARY = 8  # at most, as from 2096 to 2104
Unit = Literal["day", "week", "month", "year"]


@dataclass(frozen=True, kw_only=True)
class Said:
    """A date, where a text names it."""

    start: int
    end: int
    unit: Unit
    # the first day of it
    first: date
    # `until`, `since` or empty
    lead: str = ""
    # it names the year, or counts from the day on which it is said
    exact: bool = True

    @property
    def last(self) -> date:
        """Return the last day of it."""
        match self.unit:
            case "day":
                return self.first
            case "week":
                return _moved(self.first, 6)
            case "month":
                return _moved(_month(self.first.year, self.first.month + 1), -1)
            case _:
                return date(self.first.year, 12, 31)


def _alternatives(words: Mapping[str, Any]) -> str:
    months = "|".join(words["months"])
    weekdays = "|".join(words["weekdays"])
    days = "|".join(sorted(words["days"], key=len, reverse=True))
    numbers = "|".join(f"(?:{word})" for word in words["numbers"])
    steps = rf"(?P<next>{words['next']})|(?P<this>{words['this']})|(?P<last>{words['last']})"
    unit = rf"(?P<week>{words['week']})|(?P<weekend>{words['weekend']})"
    unit += rf"|(?P<month>{words['month']})|(?P<year>{words['year']})"
    counted = (
        rf"(?P<number>\d{{1,2}}|{numbers}) (?:(?P<days>{words['day']})|(?P<weeks>{words['week']})"
        rf"|(?P<months>{words['month']})|(?P<years>{words['year']}))"
    )
    lead = rf"(?:(?P<until>{words['until']}) |(?P<since>{words['since']}) |{words['lead']} )?"
    ordinal = words["ordinal"]
    # of `Saturday the 18th of April` the weekday says nothing more
    weekday = rf"(?:(?:{weekdays}),? {words['the']})?"
    return (
        rf"\b{lead}{words['the']}(?:"
        rf"(?P<y1>\d{{4}})-(?P<n1>\d\d)-(?P<d1>\d\d)\b"
        rf"|(?P<d2>\d{{1,2}})\.(?P<n2>\d{{1,2}})\.(?P<y2>\d{{4}})?(?!\d)"
        rf"|{weekday}(?P<d3>\d{{1,2}}){ordinal}{words['of']} (?P<m3>{months})\b(?:,? (?P<y3>\d{{4}})\b)?"
        rf"|{weekday}(?P<m4>{months}) (?P<d4>\d{{1,2}}){ordinal}\b(?!:)(?:,? (?P<y4>\d{{4}})\b)?"
        rf"|(?P<m5>{months})\b(?:,? (?P<y5>\d{{4}})\b)?"
        rf"|(?P<day>{days})\b"
        rf"|(?:(?:{steps}) )?(?P<weekday>{weekdays})\b"
        rf"|(?:{steps.replace('?P<', '?P<u')}) (?:{unit})\b"
        rf"|(?P<d7>\d{{1,2}})(?:st|nd|rd|th)\b(?!\s+\w)"
        rf"|(?P<y8>(?:19|20)\d\d)\b(?!\s*(?:€|euros?|km|dollars?|miles?))"
        rf")|{words['before']}{counted.replace('?P<', '?P<in_')}\b|{words['after']}{counted}{words['ago']}\b"
    )


_PATTERNS = ByLanguage(lambda name: re.compile(_alternatives(BY_LANGUAGE[name].dates), re.IGNORECASE))
_EVERY = ByLanguage(lambda name: re.compile(BY_LANGUAGE[name].dates["every"], re.IGNORECASE))


def find(text: str, said: date, language: str, *, past: bool = False) -> Said | None:
    """Return the first date that a text names, the nearest after the day on which it was said, or before if `past`.

    An end (`until Friday`) is always after it, a beginning (`since Friday`) before.
    """
    words = BY_LANGUAGE[language].dates
    for match in _PATTERNS[language].finditer(text):
        lead = "until" if match["until"] else "since" if match["since"] else ""
        # of a home that somebody has had for long, the end is yet to come
        before = lead == "since" or (past and lead != "until")
        try:
            unit, first, exact = _meant(match, said, words, past=before)
        except (ValueError, OverflowError, KeyError):
            continue  # there is no such day, or it is written with letters that only look alike
        if not _EARLIEST <= first.year <= _LATEST:
            continue
        # a bare month may be a word or a name
        if match["m5"] and not match["y5"] and match.start("m5") == match.start():
            continue
        if match["y8"] and match.start("y8") == match.start():
            continue
        return Said(start=match.start(), end=match.end(), unit=unit, first=first, lead=lead, exact=exact)
    return None


def written(found: Said, language: str) -> str:
    """Write a date as people do, with its preposition."""
    words = BY_LANGUAGE[language].dates
    shape = f"{found.lead}_{found.unit}"
    if shape not in words:
        shape = "on_day" if found.unit == "day" else f"in_{found.unit}"
    return _filled(shape, found, language)


def birthday(found: Said, language: str) -> str:
    """Write a day without its year, which is not the year of birth."""
    return _filled("birthday", found, language)


def with_day(text: str, said: date, language: str) -> str:
    """Add the date in brackets after words that count from the day on which they were said; English and others.

    >>> with_day("see Ann tomorrow at nine", date(2026, 3, 4), "english")
    'see Ann tomorrow (5 March 2026) at nine'
    """
    found = find(text, said, language)
    if found is None or found.unit != "day" or _EVERY[language].search(text):
        return text
    return f"{text[: found.end]} ({_filled('bare', found, language)}){text[found.end :]}"


def _filled(shape: str, found: Said, language: str) -> str:
    words = BY_LANGUAGE[language].dates
    month = words["months"][found.first.month - 1].partition("|")[0].capitalize()
    return str(words[shape]).format(day=found.first.day, month=month, year=found.first.year)


def _meant(
    match: re.Match[str], said: date, words: Mapping[str, Any], *, past: bool
) -> tuple[Unit, date, bool]:
    named = {key: value.lower() for key, value in match.groupdict().items() if value}
    for n in "12345":
        if named.keys().isdisjoint((f"n{n}", f"m{n}")):
            continue
        month = int(named[f"n{n}"]) if f"n{n}" in named else _index(words["months"], named[f"m{n}"]) + 1
        year = int(named.get(f"y{n}", 0))
        unit: Unit = "day" if f"d{n}" in named else "month"
        first = _near(said, int(named.get(f"d{n}", 1)), month, year, unit, past=past)
        return unit, first, bool(year)
    if "day" in named:
        return "day", _moved(said, words["days"][named["day"]]), True
    if "weekday" in named:
        ahead = (_index(words["weekdays"], named["weekday"]) - said.weekday()) % 7 or 7
        back = ahead - 7
        return "day", _moved(said, back if "last" in named or (past and "next" not in named) else ahead), True
    if "d7" in named:
        return "day", _same_day(said, int(named["d7"]), past=past), True
    if "y8" in named:
        return "year", date(int(named["y8"]), 1, 1), True
    step = 1 if "unext" in named else -1 if "ulast" in named else 0
    monday = _moved(said, -said.weekday())
    if "week" in named:
        return "week", _moved(monday, 7 * step), True
    if "weekend" in named:
        return "day", _moved(monday, 7 * step + 5), True
    if "month" in named:
        return "month", _month(said.year, said.month + step), True
    if "year" in named:
        return "year", date(said.year + step, 1, 1), True
    ahead = any(key.startswith("in_") for key in named)
    prefix, sign = ("in_", 1) if ahead else ("", -1)
    count = sign * _number(named[f"{prefix}number"], words)
    if f"{prefix}days" in named:
        return "day", _moved(said, count), True
    if f"{prefix}weeks" in named:
        day = _moved(said, 7 * count)
        return "week", _moved(day, -day.weekday()), True
    if f"{prefix}months" in named:
        return "month", _month(said.year, said.month + count), True
    return "year", date(said.year + count, 1, 1), True


def _near(said: date, day: int, month: int, year: int, unit: Unit, *, past: bool) -> date:
    """Return that day of the year that is said, else of the next year in which it is to come, or was."""
    if year:
        return date(year, month, day)
    this = said if unit == "day" else said.replace(day=1)
    for years in range(_YEARS_TO_29_FEBRUARY + 1):
        try:
            first = date(said.year + (-years if past else years), month, day)
        except ValueError:
            continue
        if first <= said if past else first >= this:
            return first
    raise ValueError("no year has such a day")


def _same_day(said: date, day: int, *, past: bool) -> date:
    """Return the nearest such day of a month, after the day on which it was said, or before it if `past`."""
    step = -1 if past else 1
    for away in range(62):
        if (there := _moved(said, step * away)).day == day:
            return there
    raise ValueError("no month has so many days")


def _index(words: list[str], word: str) -> int:
    found = next((index for index, one in enumerate(words) if word in one.split("|")), None)
    if found is None:
        raise ValueError(f"no such word: {word}")
    return found


def _number(word: str, words: Mapping[str, Any]) -> int:
    return int(word) if word.isdigit() else _index(words["numbers"], word) + 1


def _month(year: int, month: int) -> date:
    months = year * 12 + month - 1
    return date(months // 12, months % 12 + 1, 1)


def _moved(day: date, days: int) -> date:
    return day + timedelta(days=days)
