"""Load how a language expresses times: its `calendar.toml`, as patterns and the meanings of their words."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pipeline.text import languages
from pipeline.text.accents import words_either_way
from pipeline.text.caches import pattern

# The kinds of times, in the order in which a text is searched for them: those of more words first.
KINDS = (
    *("range", "date", "ago", "counted", "week_weekday", "step_weekday", "period", "step", "weekend", "day"),
    *("month", "years", "weekday", "monthday"),
)
COUNTED_KINDS = ("ago", "step_weekday", "period", "step", "day")
"""The kinds that count from the day on which a message is sent."""
# Defaults for a language's file.
_FORMS = {
    "range": ["{d}{th}{to}{e}{th}{of}{m}{year}"],
    "date": ["{wd}{d}{th}{of}{m}{year}"],
    "month": ["{m},?{year_after}", "{m}"],
    "years": ["{y}"],
    "weekday": ["{w}"],
    "step": ["{step} {unit}"],
}


@dataclass(frozen=True, kw_only=True)
class DayForm:
    """How a day is written, with fields in braces, and the names of the months in it."""

    day: str
    months: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """How a language expresses times."""

    # the patterns of each kind of time; groups are named as the fields of a moment
    forms: Mapping[str, tuple[re.Pattern[str], ...]]
    # what the words mean
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    numbers: Mapping[str, int]
    units: Mapping[str, str]
    steps: Mapping[str, int]
    # words for days, as days from today; words for periods, as a unit and units from the current one
    days: Mapping[str, int]
    periods: Mapping[str, tuple[str, int]]
    # units and steps that mean several, and those that relate a time to a noun as "of" does
    plurals: frozenset[str]
    genitives: frozenset[str]
    # short or ambiguous names of months and weekdays: a word before them must say that they are a time
    short: frozenset[str]
    # the words before a time, at the end of a text; the words after it, at the beginning
    lead: re.Pattern[str]
    trail: re.Pattern[str]
    # a month or weekday with the "to" or "and" after it, at the end of a text
    first: re.Pattern[str]
    # words before a time that make a month of a word that is also a name
    before_months: re.Pattern[str]
    # the words between the first and the last day of a time
    joins: re.Pattern[str]
    spaced: bool
    # names of months and weekdays begin with capitals
    capitals: bool
    # `4.5.` is a date wherever it is said
    dotted: bool
    # words after which two numbers are no date, as in "at 5.30", and before which, as in "2/3 of the votes"
    no_date_after: re.Pattern[str]
    no_date_before: re.Pattern[str]
    # words that say that a text is about the past
    past: re.Pattern[str]
    # a number is a day of the month even without a word before it
    alone: bool
    shown: DayForm
    # an event and its relation to a time, in groups; None: as English says them
    events: re.Pattern[str] | None


@cache
def calendars_of(language: str) -> tuple[Calendar, ...]:
    """Return the calendars of a language, or of each of `german+english`; English for one without a file."""
    return tuple(_calendar(name) for name in languages.parts_of(language))


@cache
def month_names(*, dotted: bool) -> frozenset[str]:
    """Return the names of months of every language, or of those that write `3. Mai`, in lower case."""
    sources = [languages.read(language, "calendar") for language in languages.LANGUAGES]
    return frozenset(
        word.casefold()
        for source in sources
        if source.get("dotted") or not dotted
        for words in source["months"]
        for word in split_words(words)
    )


@cache
def _calendar(name: str) -> Calendar:
    data = languages.read(name, "calendar")
    months = {word: n for n, words in enumerate(data["months"], start=1) for word in split_words(words)}
    weekdays = {word: n for n, words in enumerate(data["weekdays"]) for word in split_words(words)}
    numbers = {word: n for n, words in enumerate(data["numbers"], start=1) for word in split_words(words)}
    ordinals = {word: n for n, word in enumerate(data.get("ordinals", "").split(), start=1)}
    spaced, article = data.get("spaced", True), split_words(data.get("article", ""))
    if not spaced:
        numbers |= _han_numbers()
    marked = {
        key: {word: meaning for meaning, words in data.get(key, {}).items() for word in split_words(words)}
        for key in ("units", "steps", "steps_after", "days", "periods")
    }
    meanings: dict[str, dict[str, Any]] = {
        key: {word.rstrip("+*"): meaning for word, meaning in words.items()} for key, words in marked.items()
    }
    plurals, genitives = (
        frozenset(
            word[:-1].casefold() for key in ("units", "steps") for word in marked[key] if word.endswith(mark)
        )
        for mark in "+*"
    )
    slots = calendar_slots(data, months, weekdays, numbers, meanings, spaced=spaced)
    slots["nth"] = rf"(?P<d>{alternatives(ordinals)})"
    forms = _FORMS | {"period": ["{period}"], "day": ["{day}"]} | data["forms"]

    def any_of(key: str) -> str:
        return alternatives(split_words(data.get(key, "")))

    to, and_ = split_words(data["to"]), split_words(data["and"])
    end = data.get("suffix", "")
    no_date_after, no_date_before = (
        split_words(data.get("no_date", {}).get(side, "")) for side in ("after", "before")
    )
    no_date_before += meanings["units"]
    return Calendar(
        forms={
            kind: tuple(compiled_form(form, slots, spaced=spaced) for form in forms.get(kind, ()))
            for kind in KINDS
        },
        months=_folded(months),
        weekdays=_folded(weekdays),
        numbers=_folded(numbers | ordinals),
        units=_folded(meanings["units"]),
        steps={
            word: int(step) for word, step in _folded(meanings["steps"] | meanings["steps_after"]).items()
        },
        days={word: int(days) for word, days in _folded(meanings["days"]).items()},
        periods={
            word: (meaning.split()[0], int(meaning.split()[1]))
            for word, meaning in _folded(meanings["periods"]).items()
        },
        plurals=plurals,
        genitives=genitives,
        short=_short_names(data, spaced=spaced),
        lead=relation_pattern(data.get("leads", {}), article, spaced=spaced, trail=False, suffix=""),
        trail=relation_pattern(data.get("trails", {}), [], spaced=spaced, trail=True, suffix=end),
        before_months=pattern(rf"(?:{any_of('before_months')})\s{{1,3}}$", re.IGNORECASE),
        first=pattern(
            rf"(?<!\w)(?:{alternatives([*months, *weekdays])})\.?(?:\s\d{{4}})?"
            rf"\s{{0,3}}(?:[-–—]|(?:{alternatives(to + and_)})(?=\s))\s{{0,3}}$",
            re.IGNORECASE,
        ),
        joins=pattern(
            rf"{end}\s{{0,3}}(?:(?P<to>[-–—]|{alternatives(to)})|(?P<and>{alternatives(and_)}))\s{{0,3}}"
            rf"(?:(?:{alternatives(article)})\s{{1,3}})?",
            re.IGNORECASE,
        ),
        spaced=spaced,
        capitals=data.get("capitals", False),
        dotted=data.get("dotted", False),
        no_date_after=pattern(rf"(?<!\w)(?:{alternatives(no_date_after)})\s{{1,3}}$", re.IGNORECASE),
        no_date_before=pattern(rf"\s{{0,3}}(?:{alternatives(no_date_before)})(?!\w)", re.IGNORECASE),
        past=pattern(rf"(?<!\w)(?:{any_of('past')})(?!\w)", re.IGNORECASE),
        alone=data.get("forms", {}).get("alone", not spaced),
        shown=DayForm(
            **data["shown"],
            months=tuple(_capitalized(split_words(words)[0], data) for words in data["months"]),
        ),
        events=event_pattern(data["events"]) if "events" in data else None,
    )


def _short_names(data: Mapping[str, Any], *, spaced: bool) -> frozenset[str]:
    if not spaced:
        return frozenset()
    abbreviations = split_words(data.get("short_weekdays", ""))
    keys = ("months",) if abbreviations else ("months", "weekdays")
    for full, *variants in (split_words(words) for key in keys for words in data[key]):
        abbreviations += [word for word in variants if len(word) + 2 <= len(full)]
    return frozenset(word.casefold() for word in abbreviations)


def _capitalized(word: str, data: Mapping[str, Any]) -> str:
    return word[:1].upper() + word[1:] if data.get("capitals") else word


def _han_numbers() -> dict[str, int]:
    ones = "一二三四五六七八九"
    teens = {f"十{one}": 11 + n for n, one in enumerate(ones)}
    tens = {f"{ten}十": 10 * (n + 2) for n, ten in enumerate("二三")}
    more = {f"{ten}{one}": value + 1 + n for ten, value in tens.items() for n, one in enumerate(ones)}
    return {"十": 10, **teens, **tens, **more}


def _folded(words: Mapping[str, Any]) -> dict[str, Any]:
    return {word.casefold(): meaning for word, meaning in words.items()}


RELATIONS = ("week", "before", "after", "since", "until", "around", "between", "every", "of", "in")


def alternatives(words: Iterable[str]) -> str:
    """Return a pattern for any of these words, the longest that fits, with any spaces inside."""
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace(r"\ ", r"\s{1,3}") for word in longest_first) or r"(?!)"


def split_words(words: str) -> list[str]:
    """Split a list of words, with `letzt{e,en}` for two words and `_` for a space inside of one.

    At the end comes how words are written without their accents.

    >>> split_words("letzt{e,en} a_few środa")
    ['letzte', 'letzten', 'a few', 'środa', 'sroda']
    """
    expanded = []
    for word in words.split():
        stem, brace, rest = word.partition("{")
        endings, _, after = rest.partition("}")
        expanded += [stem + ending + after for ending in (endings.split(",") if brace else [""])]
    return [word.replace("_", " ") for word in words_either_way(" ".join(expanded)).split()]


def calendar_slots(
    data: Mapping[str, Any],
    months: Iterable[str],
    weekdays: Iterable[str],
    numbers: Iterable[str],
    meanings: Mapping[str, Iterable[str]],
    *,
    spaced: bool,
) -> dict[str, str]:
    suffix = data.get("suffix", "")
    digits = r"\d{1,2}" if spaced else r"\d{1,2}|[一二三四五六七八九十]{1,3}"
    no_digit = r"(?<![\d.,:])" if spaced else r"(?<![\d.,:一二三四五六七八九十])"
    year = r"(?<!\d)(?P<y>\d{4})(?!\d)"
    to, and_ = alternatives(split_words(data["to"])), alternatives(split_words(data["and"]))
    article = alternatives(split_words(data.get("article", "")))
    dot = r"\.?" if spaced else ""
    weekday = rf"(?:(?:{alternatives(weekdays)}){suffix}\.?,?\s{{1,3}}(?:(?:{article})\s{{1,3}})?)?"
    return {
        "d": rf"{no_digit}(?P<d>{digits})(?!\d)",
        "e": rf"(?P<e>{digits})(?!\d)",
        "m": rf"(?<!\d)(?P<m>{alternatives(months)})(?![^\W\d_]){dot}"
        if spaced and not suffix
        else rf"{'' if spaced else no_digit}(?P<m>{alternatives(months)})(?P<ending>{suffix})",
        "y": year,
        "w": rf"(?P<w>{alternatives(weekdays)})(?P<wending>{suffix})",
        "wd": weekday,
        "n": rf"(?<![\d.,])(?P<n>\d{{1,3}}|{alternatives(numbers)})",
        "unit": rf"(?P<unit>{alternatives(meanings['units'])})",
        "step": rf"(?P<step>{alternatives(meanings['steps'])})",
        "step_after": rf"(?P<step>{alternatives(meanings['steps_after'])})",
        "day": rf"(?P<day>{alternatives(meanings['days'])})",
        "period": rf"(?P<period>{alternatives(meanings['periods'])})",
        "th": data.get("ordinal", ""),
        "of": data.get("of", ""),
        "year": data.get("year", "").replace("{y}", year),
        "year_after": data.get("year", "").replace("{y}", year).removesuffix("?"),
        "to": rf"\s{{0,3}}(?P<to>[-–—]|{to}|(?P<and>{and_}))\s{{0,3}}(?:(?:{article})\s{{1,3}})?",
    }


def compiled_form(form: str, slots: Mapping[str, str], *, spaced: bool) -> re.Pattern[str]:
    for name, slot in slots.items():
        form = form.replace(f"{{{name}}}", slot)
    body = form.replace(" ", r"\s{1,3}").replace(r"\s{1,3}?", r"\s{0,3}")
    # `}` and digits may stand at an edge, where a word must not go on
    return pattern(rf"(?<!\w)(?:{body})(?!\w)" if spaced else body, re.IGNORECASE)


def relation_pattern(
    words: Mapping[str, str], article: Iterable[str], *, spaced: bool, trail: bool, suffix: str
) -> re.Pattern[str]:
    """Return a pattern of the words that relate a text to a time, with a group for each relation."""
    groups = "|".join(
        f"(?P<{name}>{alternatives(split_words(words[name]))})" for name in RELATIONS if name in words
    )
    groups = groups or "(?!)"
    if trail:
        end = r"(?!\w)" if spaced else ""
        return pattern(rf"{suffix}\s{{0,3}}(?:{groups}){end}", re.IGNORECASE)
    if not spaced:
        return pattern(rf"(?:{groups})\s{{0,3}}$", re.IGNORECASE)
    articles = rf"(?P<article>(?:{alternatives(article)})(?:\s{{1,3}}|(?<=['’])))?"
    return pattern(
        rf"(?:(?<!\w)(?:{groups})(?:\s{{1,3}}|(?<=['’])|(?<=-)))?(?<!\w){articles}$", re.IGNORECASE
    )


def event_pattern(words: Mapping[str, str]) -> re.Pattern[str]:
    """Return a pattern of a relation to an event and the event's noun, except before the words in `not`."""
    groups = "|".join(
        f"(?P<{relation}>{alternatives(split_words(words[relation]))})"
        for relation in ("before", "after", "since", "during")
        if relation in words
    )
    no = alternatives(split_words(words.get("not", "")))
    noun = words["noun"].replace(" ", r"\s")
    return pattern(
        rf"(?<!\w)(?:{groups})(?:\s|(?<=['’]))(?!\w+\s(?:{no})(?!\w))(?P<event>{noun})", re.IGNORECASE
    )
