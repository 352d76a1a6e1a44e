"""Find the times that a text names, in words or figures: their meaning depends on when it was said."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.text.calendars import KINDS, RELATIONS, Calendar

MAX_CHARS = 8_000
"""Characters read of a text: no question is longer, and no message names a time further on."""
# Maximum distance of the words that relate a text to a time.
_AROUND_CHARS = 40
_SENTENCE_CHARS = 8
SEVERAL = 4
"""How many a plural without a number means, as in "in recent months"."""
_TAKEN = "\0"
# Kinds that may be either end of a range.
_ENDS = frozenset(("date", "weekday", "step_weekday", "month", "years", "monthday", "day"))
_SENTENCE_BEFORE = re.compile(r"(?:\A|[.!?:…]\s{0,3})\W{0,3}$")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A time that a text names."""

    # where it is; how long the words before and after it are that relate the text to it
    start: int
    end: int
    before: int = 0
    after: int = 0
    # one of `KINDS`
    kind: str
    # one of `RELATIONS`; `in` by default
    relation: str = "in"
    # a word other than an article says that it is a time
    led: bool = False
    article: bool = False
    # it belongs to a noun: "this year's fee"
    of_noun: bool = False
    # the numbers of it, by the name of what they count: y, n (month), d, e (the last day), w (weekday), step, count
    numbers: Mapping[str, int]
    unit: str = ""
    # written in full, so that it can be nothing else and need not be searched for
    whole: bool = True
    # a word before it says that it is a month, not a person's name
    surely_month: bool = False
    # the text is about the past
    past: bool = False
    # the other end of a range
    last: "Moment | None" = None


def moments(text: str, calendars: Sequence[Calendar]) -> list[Moment]:
    """Return the times that a text names in these calendars, in order of the text."""
    text = left = text[:MAX_CHARS]
    readings: list[_Reading] = []
    for kind in KINDS:
        if kind == "date":
            left = _take_figures(text, left, calendars, readings)
        for calendar in calendars:
            for form in calendar.forms[kind]:
                left = _take_matches(text, left, kind, form, calendar, readings)
    past = any(calendar.past.search(text) for calendar in calendars)
    joined = _joined(text, sorted(readings, key=lambda reading: reading[0].start))
    return [replace(moment, past=past) for moment in joined]


_Reading = tuple[Moment, Calendar]
"""A moment, and the calendar that it is of."""


def _take_matches(
    text: str, left: str, kind: str, form: re.Pattern[str], calendar: Calendar, readings: list[_Reading]
) -> str:
    """Add the matches of a pattern; return the text with them masked."""

    def masked(match: re.Match[str]) -> str:
        bare = _read(match, kind, calendar)
        if bare is None:
            return match[0]
        moment = _related(text, bare, calendar)
        if not _is_time(text, match, moment, calendar):
            return match[0]
        readings.append((moment, calendar))
        return _TAKEN * len(match[0])

    return form.sub(masked, left)


def _take_figures(text: str, left: str, calendars: Sequence[Calendar], readings: list[_Reading]) -> str:
    """Add the dates in figures; return the text with them masked."""
    characters = list(left)
    for figure in figure_dates(left, calendars):
        bare = Moment(start=figure.start, end=figure.end, kind="date", numbers=figure.numbers)
        related = ((_related(text, bare, calendar), calendar) for calendar in calendars)
        moment, calendar = max(related, key=lambda reading: reading[0].before + reading[0].after)
        if figure.short and not moment.led and not figure.dotted:
            continue
        # "on 3/5" may be a share as well
        readings.append((replace(moment, whole=figure.dotted or not figure.short), calendar))
        characters[figure.start : figure.end] = _TAKEN * (figure.end - figure.start)
    return "".join(characters)


def _read(match: re.Match[str], kind: str, calendar: Calendar) -> Moment | None:
    """Return the moment that a match means; None if its words are not in the calendar."""
    groups = {key: value.casefold() for key, value in match.groupdict().items() if value}
    numbers, unit = {}, groups.get("unit", "")
    for key, value in groups.items():
        words: Mapping[str, int] | None = {
            "m": calendar.months,
            "w": calendar.weekdays,
            "step": calendar.steps,
            "day": calendar.days,
            "n": calendar.numbers,
        }.get(key)
        if key in {"d", "e", "n", "y"} and (value.isdecimal() or value in calendar.numbers):
            name = "count" if key == "n" else key
            numbers[name] = int(value) if value.isdecimal() else calendar.numbers[value]
        elif words is not None:
            meaning = words.get(" ".join(value.split()))
            if meaning is None:
                return None
            numbers[{"m": "n", "n": "count", "day": "step"}.get(key, key)] = meaning
        elif key == "period":
            if value not in calendar.periods:
                return None
            unit, numbers["step"] = calendar.periods[value]
        elif key == "unit":
            if " ".join(value.split()) not in calendar.units:
                return None
            unit = calendar.units[" ".join(value.split())]
    told = {" ".join(groups.get(key, "").split()) for key in ("unit", "step")}
    if kind in {"step", "counted"} and "count" not in numbers and not calendar.plurals.isdisjoint(told):
        kind, numbers["count"] = "counted", SEVERAL
    return Moment(
        start=match.start(),
        end=match.end(),
        kind=kind,
        numbers=numbers,
        unit=unit,
        of_noun=not calendar.genitives.isdisjoint(told),
    )


def _related(text: str, moment: Moment, calendar: Calendar) -> Moment:
    """Return a moment with its relation to the text, as the words before and after it say."""

    def lead_before(end: int) -> re.Match[str] | None:
        return calendar.lead.search(text[max(0, end - _AROUND_CHARS) : end])

    relation, before, after, article, surely_month, of_noun = "", 0, 0, False, False, moment.of_noun
    lead = lead_before(moment.start)
    if lead:
        article = bool(lead.groupdict().get("article"))
        relation, before = _relation(lead), len(lead[0])
        surely_month = moment.kind == "month" and calendar.before_months.search(lead[0]) is not None
        if relation == "week" and (more := lead_before(moment.start - before)):
            before += len(more[0])
    # "in dieser Woche" does not, "dieses Jahres" does
    of_noun = relation == "of" or (of_noun and not relation)
    trail = calendar.trail.match(text[moment.end : moment.end + _AROUND_CHARS])
    led = bool(relation)
    if trail and (named := _relation(trail)):
        relation = named if named not in {"in", "of"} or not relation else relation
        after, led, of_noun = len(trail[0]), led or named != "of", of_noun or named == "of"
    if moment.kind == "range" and relation in {"since", "until"}:
        relation = "in"  # "from" is the first of two words
    return replace(
        moment,
        before=before,
        after=after,
        relation="in" if relation in {"", "of"} else relation,
        led=led,
        article=article,
        of_noun=of_noun,
        surely_month=surely_month,
    )


def _relation(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return next((relation for relation in RELATIONS if groups.get(relation)), "")


def _is_time(text: str, match: re.Match[str], moment: Moment, calendar: Calendar) -> bool:
    """Tell whether an ambiguous match is a time here, by the words beside it and its capital."""
    led = moment.led
    if moment.relation == "every":
        return False
    match moment.kind:
        case "years":
            return 1900 <= moment.numbers["y"] < 2100 and (led or not calendar.spaced)
        case "month" | "weekday":
            if not calendar.spaced or "y" in moment.numbers:
                return True
            word = match["m" if moment.kind == "month" else "w"]
            if word.casefold() in calendar.short:
                # "so", "do" and "mi" are words
                return (
                    (led or _is_last_of_two(text, match.start(), calendar))
                    and not moment.article
                    and (len(word) > 2 or not calendar.capitals or word[0].isupper())
                )
            if led or moment.kind == "weekday" or match.groupdict().get("ending"):
                return True
            before = text[max(0, match.start() - _SENTENCE_CHARS) : match.start()]
            return word[0].isupper() and not _SENTENCE_BEFORE.search(before)
        case "monthday":
            return bool(moment.before or moment.after) or calendar.alone or not match[0][0].isdigit()
        case _:
            return True


def _is_last_of_two(text: str, start: int, calendar: Calendar) -> bool:
    """Tell whether a month or weekday ends a range, as in "from Nov to Jan"."""
    around = text[max(0, start - 2 * _AROUND_CHARS) : start]
    first = calendar.first.search(around)
    if first is None:
        return False
    lead = calendar.lead.search(around[: first.start()])
    return lead is not None and bool(_relation(lead))


def _joined(text: str, readings: Sequence[_Reading]) -> list[Moment]:
    """Join pairs of moments that are the ends of one range."""
    joined: list[_Reading] = []
    for reading in readings:
        if joined and (pair := _joined_pair(text, joined[-1], reading)):
            joined[-1] = pair
        else:
            joined.append(reading)
    return [moment for moment, _ in joined]


def _joined_pair(text: str, earlier: _Reading, later: _Reading) -> _Reading | None:
    (first, calendar), (last, _) = earlier, later
    if first.last or first.relation not in {"in", "since", "between", "around"}:
        return None
    # in some languages "from" follows the first
    joined = calendar.joins.fullmatch(text, first.end, min(last.start, first.end + _AROUND_CHARS))
    if joined is None or joined.end() != last.start:
        return None
    if joined["and"] and "between" not in {first.relation, last.relation}:
        return None
    if not {first.kind, last.kind} <= _ENDS:
        return None
    return replace(first, end=last.end, after=last.after, relation="in", last=last), calendar


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
# A year of two figures in fewer characters than 01.02.03 is a version as well.
_FULL_CHARS = 8


@dataclass(frozen=True, kw_only=True)
class FigureDate:
    start: int
    end: int
    # d, n (the month) and y, as in a moment
    numbers: dict[str, int]
    # ambiguous: only a word before or after it makes it a date
    short: bool
    # `3.5.`, where that is a date in the language
    dotted: bool


def dates_in_figures(text: str) -> set[str]:
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
