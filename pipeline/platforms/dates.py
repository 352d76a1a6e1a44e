"""Read the dates and times of exports: those that begin WhatsApp's lines, as phones of many countries write them.

Others are written in words, such as `Monday, March 3, 2025 at 10:11 PM`, in the languages of `pipeline.text.languages`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cache
from itertools import pairwise, product
from typing import Literal
from zoneinfo import ZoneInfo

from pipeline.platforms.records import DateOrder
from pipeline.platforms.whatsapp.whatsapp_text import PHRASES
from pipeline.text import languages

Style = Literal["dash", "bracket", "colon"]
"""Android's `date, time - `, the iPhone's `[date, time] `, the old iPhone's `date time: `."""

_MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u3000\t]")

_DOTS = re.compile(r"[.\s]+")

_HALVES = {word: half for half in ("am", "pm", "night") for word in "|".join(PHRASES[half]).split("|")}
_DAWN = 6
# `a. m.`, `a.m.`, `am` and `AM` are one word: dots count as spaces, at most one between two letters
HALF = "|".join(
    sorted((re.escape(word).replace(r"\ ", r"\.?\s?") + r"\.?" for word in _HALVES), key=len, reverse=True)
)

_DATE = r"(?P<a>\d{1,4})\s?[./\-年년]\s?(?P<b>\d{1,2})\s?[./\-月월]\s?(?P<c>\d{1,4})[日일]?\.?(?:\s?г\.)?"
_BETWEEN = r"(?:\s?[,،、])?\s*(?:à|às|kl\.?|klo|um|at|u)?\s*"
# An unknown word in the place of one of these, in a line that goes on with a name.
_OTHER_WORD = r"[^\W\d_][^\d\s:,\[\]–-]{0,14}"
_NAME_FOLLOWS = r"(?=[^:]{1,60}:\s)"


def _starts(half: str, following: str = "") -> dict[Style, str]:
    """Return the pattern of a message's beginning in each style."""
    time = (
        rf"(?:(?P<before>{half})\s?)?(?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})(?:[:.](?P<second>\d{{2}}))?"
        rf"(?:\s?(?P<after>{half}))?(?:\s?(?:ч\.|uhr|h))?"
    )
    moment = f"{_DATE}{_BETWEEN}{time}"
    return {
        "dash": rf"{moment}\s[-–]\s{following}",
        "bracket": rf"\[{moment}\]\s?{following}",
        "colon": rf"{moment}:\s{following}",
    }


_STYLES = {style: re.compile(start, re.IGNORECASE) for style, start in _starts(HALF).items()}
_STYLES_WITH_OTHER_WORD = {
    style: re.compile(start, re.IGNORECASE) for style, start in _starts(_OTHER_WORD, _NAME_FOLLOWS).items()
}
# Phones set to Thai count from Buddha's death.
_BUDDHIST = 543
# WhatsApp did not exist before.
_FIRST_YEAR = 2009
_HANGUL = re.compile("[가-힣]")
# Longer than any beginning; a line of megabytes is not searched through.
_LONGEST = 80


@dataclass(frozen=True, kw_only=True)
class Start:
    """The beginning of a line that starts a message."""

    style: Style
    # the three numbers of the date, and the date as it stands
    date: tuple[str, str, str]
    written: str
    hour: int
    minute: int
    second: int
    half: Literal["am", "pm"] | None
    # the word that should say the half of the day, if it is not known
    unknown: str | None = None
    # the half of the day stands there as AM or PM, in capitals
    english: bool = False
    # the half of the day stands there in Korean
    korean: bool = False
    # the rest of the line, with its marks
    rest: str


def read_start(line: str, styles: Iterable[Style] = ("dash", "bracket", "colon")) -> Start | None:
    """Parse the beginning of a message in one of these styles; None if the line continues the one before."""
    # Marks come between the parts of a date, and a thin space before PM. Taking them out of the whole line
    # would also take them out of the text, so the beginning is cleaned and measured by what it skipped.
    head = _SPACES.sub(" ", line[:_LONGEST])
    plain = _MARKS.sub("", head)
    for known, style in product((True, False), styles):
        if (match := (_STYLES if known else _STYLES_WITH_OTHER_WORD)[style].match(plain)) is None:
            continue
        before, after, hour = match["before"], match["after"], int(match["hour"])
        return Start(
            style=style,
            date=(match["a"], match["b"], match["c"]),
            written=plain[match.start("a") : match.end("c")],
            hour=hour,
            minute=int(match["minute"]),
            second=int(match["second"] or 0),
            half=half_of_day(before or after, hour) if known else None,
            unknown=None if known else before or after,
            english=after in {"AM", "PM"},
            korean=_HANGUL.search(before or after or "") is not None,
            rest=line[_raw_length(head, match.end()) :],
        )
    return None


def half_of_day(word: str | None, hour: int) -> Literal["am", "pm"] | None:
    if word is None:
        return None
    plain = _DOTS.sub(" ", word).strip().lower()
    found = _HALVES.get(plain) or _HALVES.get(plain.replace(" ", ""))
    return "am" if found == "am" or (found == "night" and hour % 12 < _DAWN) else "pm"


def _raw_length(head: str, visible: int) -> int:
    """Return how many characters of `head` hold this many that are not marks."""
    for index, character in enumerate(head):
        if visible == 0:
            return index
        visible -= _MARKS.match(character) is None
    return len(head)


def local_time(start: Start, order: DateOrder) -> datetime:
    """Return the time on the phone's clock, without a zone. Raises `ValueError` for an impossible time."""
    a, b, c = (int(part) for part in start.date)
    year, month, day = {"dmy": (c, b, a), "mdy": (c, a, b), "ymd": (a, b, c)}[order]
    if year < 100:
        # 67 means 2567, not 2067
        year += 2000 if year < _FIRST_YEAR + _BUDDHIST - 2500 else 2500
    if year > 2400:
        year -= _BUDDHIST
    if year < 1970:
        raise ValueError(f"nobody sent messages in the year {year}")
    hour = start.hour
    if start.half is not None and hour <= 12:
        hour = hour % 12 + (12 if start.half == "pm" else 0)
    return datetime(year, month, day, hour, start.minute, start.second)  # noqa: DTZ001  the zone comes later


def instant(local: datetime, zone: ZoneInfo, after: datetime | None) -> datetime:
    """Convert the phone's local time to UTC; in autumn's doubled hour, not before `after` if possible."""
    first = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    second = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    # in the hour that spring leaves out the readings differ too, the second lying earlier: never taken
    return second if after is not None and first < after <= second else first


def guess_order(starts: Sequence[Start]) -> DateOrder | None:
    """Guess the order of day, month and year in these dates; None if they allow two readings.

    A year in two figures comes first if dates run forward in no other order, or if a Korean phone wrote them. Dots
    mean day first. Otherwise a number that cannot be a month decides, then that an export runs forward in time, and
    last that only the United States write 12 hours with AM and PM in capitals and a month without a leading zero.
    """
    if not starts:
        return None
    if any(len(start.date[0]) >= 3 or int(start.date[0]) > 31 for start in starts):
        return "ymd"
    if _is_year_first(starts):
        return "ymd"
    if all("." in start.written for start in starts):
        return "dmy"
    firsts = sum(int(start.date[0]) > 12 for start in starts)
    seconds = sum(int(start.date[1]) > 12 for start in starts)
    if firsts or seconds:
        return "dmy" if firsts >= seconds else "mdy"
    if _runs_forward(starts, "dmy") != _runs_forward(starts, "mdy"):
        return "dmy" if _runs_forward(starts, "dmy") else "mdy"
    if all(start.english for start in starts) and any(len(start.date[0]) == 1 for start in starts):
        return "mdy"
    # 3/3/24 is one day in every reading
    return None if examples(starts, 1) else "dmy"


def _is_year_first(starts: Sequence[Start]) -> bool:
    """Tell whether the first numbers are years in two figures: only so the dates run forward since WhatsApp began."""
    if not all(len(start.date[0]) == 2 for start in starts):
        return False
    if any(start.korean for start in starts):
        return True
    return _may_be(starts, "ymd") and not any(_may_be(starts, order) for order in _TWO_READINGS)


def examples(starts: Sequence[Start], limit: int = 3) -> list[tuple[str, date, date]]:
    """Return ambiguous dates with their two readings, spread over the file."""
    ambiguous: dict[str, tuple[str, date, date]] = {}
    for start in starts:
        if start.written in ambiguous or int(start.date[0]) == int(start.date[1]):
            continue
        try:
            by_day, by_month = (local_time(start, order).date() for order in _TWO_READINGS)
        except ValueError:
            continue
        ambiguous[start.written] = (start.written, by_day, by_month)
    several = list(ambiguous.values())
    step = max(1, (len(several) - 1) / max(1, limit - 1))
    return [several[int(n * step)] for n in range(min(limit, len(several)))]


_TWO_READINGS: tuple[DateOrder, DateOrder] = ("dmy", "mdy")


def _may_be(starts: Sequence[Start], order: DateOrder) -> bool:
    """Tell whether dates run forward in an order, the first of them since there is WhatsApp."""
    return _runs_forward(starts, order) and local_time(starts[0], order).year >= _FIRST_YEAR


def _runs_forward(starts: Sequence[Start], order: DateOrder) -> bool:
    try:
        days = [local_time(start, order).date() for start in starts]
    except ValueError:
        return False
    return all(earlier <= later for earlier, later in pairwise(days))


_BLANKS = re.compile("[\u00a0\u2000-\u200a\u202f\u3000\t]")
_HALF = HALF
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
    if (match := _CLOCK.search(_BLANKS.sub(" ", text))) is None:
        return None
    hour, half = int(match["hour"]), half_of_day(match["before"] or match["after"], int(match["hour"]))
    if half is not None and hour <= 12:
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        return time(hour, int(match["minute"]), int(match["second"] or 0))
    except ValueError:
        return None


def start_of(text: str) -> Start | None:
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
    return Start(
        style="bracket", date=(numbers[0], numbers[1], numbers[2]), written=text.strip(), hour=0, minute=0,
        second=0, half=None, rest="",
    )  # fmt: skip


def day_of(start: Start, order: DateOrder) -> date:
    """Return the day; a year in front is one in any order. Raises `ValueError` for a day that no calendar has."""
    return local_time(start, "ymd" if len(start.date[0]) >= 3 else order).date()


def moment_of(text: str) -> datetime | None:
    """Return the date, with a named month, and the time in a text; the zone is left out.

    >>> moment_of("Monday, March 3, 2025 at 10:11:12\u202fPM UTC")
    datetime.datetime(2025, 3, 3, 22, 11, 12)
    >>> moment_of("lunes, 3 de marzo de 2025, 10:11:12 UTC")
    datetime.datetime(2025, 3, 3, 10, 11, 12)
    """
    plain = _HOURS.sub(r"\1:\2:\3", _BLANKS.sub(" ", text))
    clock, start = clock_of(plain), start_of(_CLOCK.sub(" ", plain, count=1))
    try:
        return datetime.combine(day_of(start, "ymd"), clock) if clock and start else None
    except ValueError:
        return None


def order_of(starts: list[Start]) -> DateOrder | None:
    """Guess the order of dates, first by the weekdays beside them; None if they allow two readings."""
    orders: tuple[DateOrder, ...] = ("dmy", "mdy", "ymd")
    fitting = [order for order in orders if _weekdays_fit(starts, order)]
    return fitting[0] if len(fitting) == 1 else guess_order(starts)


def _weekdays_fit(starts: list[Start], order: DateOrder) -> bool:
    """Tell whether each word beside the dates stands for one weekday, its own if we know it."""
    meant: dict[str, int] = {}
    for start in starts:
        try:
            weekday = local_time(start, order).isoweekday()
        except ValueError:
            return False
        for word in _words(start.written):
            if meant.setdefault(word, names("weekdays").get(word, weekday)) != weekday:
                return False
    return bool(meant) and len(set(meant.values())) == len(meant)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
