"""Build patterns from the words and forms of a language's calendar."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.text.accents import words_either_way
from pipeline.text.caches import pattern

RELATIONS = ("week", "before", "after", "since", "until", "around", "between", "every", "of", "in")


def alternatives(words: Iterable[str]) -> str:
    """Return a pattern for any of these words, the longest that fits, with any spaces inside."""
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace(r"\ ", r"\s{1,3}") for word in longest_first) or r"(?!)"


def split(words: str) -> list[str]:
    """Split a list of words, with `letzt{e,en}` for two words and `_` for a space inside of one.

    At the end comes how words are written without their accents.

    >>> split("letzt{e,en} a_few środa")
    ['letzte', 'letzten', 'a few', 'środa', 'sroda']
    """
    expanded = []
    for word in words.split():
        stem, brace, rest = word.partition("{")
        endings, _, after = rest.partition("}")
        expanded += [stem + ending + after for ending in (endings.split(",") if brace else [""])]
    return [word.replace("_", " ") for word in words_either_way(" ".join(expanded)).split()]


def slots(
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
    to, and_ = alternatives(split(data["to"])), alternatives(split(data["and"]))
    article = alternatives(split(data.get("article", "")))
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


def compiled(form: str, slots: Mapping[str, str], *, spaced: bool) -> re.Pattern[str]:
    for name, slot in slots.items():
        form = form.replace(f"{{{name}}}", slot)
    body = form.replace(" ", r"\s{1,3}").replace(r"\s{1,3}?", r"\s{0,3}")
    # `}` and digits may stand at an edge, where a word must not go on
    return pattern(rf"(?<!\w)(?:{body})(?!\w)" if spaced else body, re.IGNORECASE)


def relations(
    words: Mapping[str, str], article: Iterable[str], *, spaced: bool, trail: bool, suffix: str
) -> re.Pattern[str]:
    """Return a pattern of the words that relate a text to a time, with a group for each relation."""
    groups = "|".join(
        f"(?P<{name}>{alternatives(split(words[name]))})" for name in RELATIONS if name in words
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


def events(words: Mapping[str, str]) -> re.Pattern[str]:
    """Return a pattern of a relation to an event and the event's noun, except before the words in `not`."""
    groups = "|".join(
        f"(?P<{relation}>{alternatives(split(words[relation]))})"
        for relation in ("before", "after", "since", "during")
        if relation in words
    )
    no = alternatives(split(words.get("not", "")))
    noun = words["noun"].replace(" ", r"\s")
    return pattern(
        rf"(?<!\w)(?:{groups})(?:\s|(?<=['’]))(?!\w+\s(?:{no})(?!\w))(?P<event>{noun})", re.IGNORECASE
    )
