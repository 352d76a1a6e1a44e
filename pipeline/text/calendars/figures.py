"""Find dates in figures, such as 2026-05-03, 03.05.2026, 3.5. and 3/5, but no clock times, versions or shares."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.text.calendars import Calendar

# In every language: the year first, or the day first, unless only the second number can be the day.
_ISO = re.compile(r"(?<![\w./-])(?P<y>\d{4})(?P<sep>[./-])(?P<n>\d{1,2})(?P=sep)(?P<d>\d{1,2})(?![\d-])")
_FULL = re.compile(
    r"(?<![\w./,:-])(?P<d>\d{1,2})(?P<sep>[./-])(?P<n>\d{1,2})(?P=sep)(?P<y>\d{4}|\d{2})(?![\w/-]|[.,]\d)"
)
_DAY_AND_MONTH = re.compile(
    r"(?<![\w./,:-])(?P<d>\d{1,2})(?P<sep>[./])(?P<n>\d{1,2})(?P<dot>\.?)(?![\w/%]|[.,]\d)"
)
_FORMS = (_ISO, _FULL, _DAY_AND_MONTH)
_AROUND_THE_CLOCK = "24/7"
_AROUND_CHARS = 40
# A year of two figures in fewer characters than 01.02.03 is a version as well.
_FULL_CHARS = 8


@dataclass(frozen=True, kw_only=True)
class FigureDate:
    """A date in figures."""

    start: int
    end: int
    # d, n (the month) and y, as in a moment
    numbers: dict[str, int]
    # ambiguous: only a word before or after it makes it a date
    short: bool
    # `3.5.`, where that is a date in the language
    dotted: bool


def written_in(text: str) -> set[str]:
    """Return the dates in figures of a text, as they are written and without a last full stop."""
    dates = {match[0] for form in _FORMS for match in form.finditer(text)}
    return dates | {date.removesuffix(".") for date in dates}


def figure_dates(text: str, calendars: Sequence[Calendar]) -> Iterator[FigureDate]:
    """Yield the dates in figures of a text in these calendars, those with a year first."""
    for form in _FORMS:
        for match in form.finditer(text):
            day, month = int(match["d"]), int(match["n"])
            if form is _DAY_AND_MONTH and not _may_be_day(text, match, calendars):
                continue
            if (
                month > 12 >= day
                and form is not _ISO
                and not (form is _DAY_AND_MONTH and match["sep"] == ".")
            ):
                day, month = month, day
            if not (1 <= month <= 12 and 1 <= day <= 31):
                continue
            numbers = {"d": day, "n": month}
            if form is not _DAY_AND_MONTH:
                numbers["y"] = int(match["y"]) + (2000 if len(match["y"]) == 2 else 0)
            dotted = form is _DAY_AND_MONTH and match["dot"] == "." and match["sep"] == "."
            short = form is _DAY_AND_MONTH or (len(match["y"]) == 2 and len(match[0]) < _FULL_CHARS)
            yield FigureDate(
                start=match.start(), end=match.end(), numbers=numbers, short=short, dotted=dotted
            )


def _may_be_day(text: str, match: re.Match[str], calendars: Sequence[Calendar]) -> bool:
    """Tell whether two numbers may be a day and its month, and not a clock time, a version or a share."""
    # only those who write the day first put a dot behind it
    if match["sep"] == "." and (int(match["n"]) > 12 or not any(calendar.dotted for calendar in calendars)):
        return False
    if match[0].removesuffix(".") == _AROUND_THE_CLOCK:
        return False
    before = text[max(0, match.start() - _AROUND_CHARS) : match.start()]
    if any(calendar.no_date_after.search(before) for calendar in calendars):
        return False
    after = text[match.end() : match.end() + _AROUND_CHARS]
    return bool(match["dot"]) or not any(calendar.no_date_before.match(after) for calendar in calendars)
