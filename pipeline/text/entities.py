"""Find entities in a conversation: names, amounts, times, links and code."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from pipeline.text.cues import stop_words

_MONTHS_BUT_MAY = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|june?|july?|aug(?:ust)?|sep(?:t|tember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_MONTH = rf"(?:{_MONTHS_BUT_MAY}|may)"
# Kinds in the order in which they claim their place in the text.
_SPECIAL = re.compile(
    "|".join(
        (
            r"https?://[^\s<>\"')\]]+[^\s<>\"')\].,;:!?]",
            r"[\w.+-]{1,64}@[\w-]+\.[\w.-]*\w",
            r"(?<!\w)[@#]\w[\w.-]*\w",
            r"`[^`\n]{1,80}`",
            r"(?<![\w.,])[€$£¥]\s?\d(?:[\d.,]*\d)?(?:\s?[kKmM]\b)?",
            r"(?<![\w.,])\d(?:[\d.,]*\d)?\s?(?:[€$£¥%]|(?:euros?|eur|usd|gbp|dollars?|pounds?|bucks?|kr|zł|reais)\b)",
            rf"(?<!\w)\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?i:{_MONTH})\b(?:,? \d{{4}})?",
            rf"\b(?i:{_MONTH}) \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?",
            r"(?<![\w.:])\d{4}-\d{2}-\d{2}(?!\w)",
            r"(?<![\w.:])(?:\d{1,2}:\d{2}(?:\s?[ap]m)?(?!\w)|\d{1,2}\s?[ap]m\b|\d{1,2}h(?:\d\d)?\b)",
            r"(?<![\w.,])\+?\d{2,4}(?:[ -]\d{2,4}){2,}(?!\w)",  # a telephone number
            r"(?<![\w.,])\d+(?:[.,]\d+)?\s?(?:bar|k?g|k?m|cm|mm|m2|m²|kwh|[gmt]b|ms|mbps|lit(?:re|er)s?|met(?:re|er)s?"
            r"|miles?|°c?|square (?:met(?:re|er)s|feet))(?!\w)",
            # code: snake_case, camelCase, E41, v1.2, file.py
            r"(?<![\w.])(?:[A-Za-z]+_\w+|[a-z]+[A-Z]\w*|[A-Z]{1,4}-?\d{1,6}|v\d+(?:\.\d+)+|\w+\.(?:py|js|ts|go|rs|md"
            r"|sql|ya?ml|json|toml|csv|pdf|sh))\b",
        )
    )
)
_MAYBE_SPECIAL = re.compile(r"[\d@#`_]|://|[a-z][A-Z]|\w\.\w")
_NAME_WORD = r"[^\W\d_a-z][^\W\d_]*(?:['\u2019-][^\W\d_]+)*"
_NAME = re.compile(
    rf"(?<![\w@#]){_NAME_WORD}(?:\s(?:(?:of|the|de|da|do|di|la|von|van)\s)?{_NAME_WORD}){{0,3}}"
)
_CALENDAR = re.compile(rf"(?:mon|tues?|wed(?:nes)?|thurs?|fri|sat(?:ur)?|sun)(?:day)?s?|{_MONTHS_BUT_MAY}")
_LETTERS = re.compile(r"[^\W\d_]+")
_POSSESSIVE = re.compile("['\u2019]s$")
_OPENS = frozenset('.!?:;\n"([\u2026\u201c\u2013\u2014-')  # a word after these begins a sentence
_MAX_CHARS = 120
_SHORT_FORM = 3
# Words that only a language has in which every noun is capitalized; where so many of all words are of them, it is one.
_NOUNS_CAPITALIZED = frozenset(
    "der und ist nicht ich ein eine einen wir ihr auch auf dem für sind noch aber wenn schon kein keine mir dir uns"
    " wird hast habe haben oder wie bei vom zum zur".split()
)
_NOUNS_CAPITALIZED_SHARE = 0.12
_LONGEST_ACRONYM = 5  # longer words in capitals are shouted


def entities(texts: Sequence[str], language: str, *, known: Iterable[str] = (), limit: int = 24) -> list[str]:
    """Return up to `limit` names, @mentions, amounts, dates, times, links and code of these messages.

    The most frequent first, then in order of appearance, each once whatever its case; `known` names and their short
    forms are left out. A capitalized word is a name inside a sentence; at the beginning of one it must recur. Where
    all nouns are capitalized, a single such word is none.
    """
    inside: Counter[str] = Counter()
    opening: Counter[str] = Counter()
    spelling: dict[str, str] = {}
    lower = {word for text in texts for word in _LETTERS.findall(text) if word.islower()}
    skipped = sorted({part.lower() for name in known for part in (name, *name.split())})
    all_nouns = _capitalizes_nouns(texts)
    for text in texts:
        for found, begins in _found(text, language):
            key = found.lower()
            if all_nouns and found.isalpha() and found.istitle():
                continue
            if not _is_known(key, skipped) and not (begins and key in lower):
                (opening if begins else inside)[key] += 1
                spelling.setdefault(key, found)
    for key, times in opening.items():
        rest = key.partition(" ")[2]
        if key in inside or times > 1:
            inside[key] += times
        elif rest and not _is_known(rest, skipped):  # "Rang Zulmira": the first word is any word
            inside[rest] += times
            spelling.setdefault(rest, spelling[key].partition(" ")[2])
    order = {key: index for index, key in enumerate(spelling)}
    ranked = sorted(inside, key=lambda key: (-inside[key], order[key]))
    return [spelling[key] for key in ranked[:limit]]


def _capitalizes_nouns(texts: Sequence[str]) -> bool:
    """Tell whether the language capitalizes nouns, as German does.

    >>> _capitalizes_nouns(["ich gehe in der Nacht nicht mehr durch das Tor"]), _capitalizes_nouns(["Der Spiegel"])
    (True, False)
    """
    written = [word for text in texts for word in _LETTERS.findall(text)]
    of_it = sum(word in _NOUNS_CAPITALIZED for word in written)
    return of_it > 1 and of_it >= _NOUNS_CAPITALIZED_SHARE * len(written)


def _is_known(name: str, known: Sequence[str]) -> bool:
    """Tell whether it is one of the known names, sorted, or a short form of one, such as Mel for Melanie."""
    at = bisect_left(known, name)
    return at < len(known) and (
        known[at] == name or (len(name) >= _SHORT_FORM and known[at].startswith(name))
    )


def _found(text: str, language: str) -> list[tuple[str, bool]]:
    """Return the entities of one message, each with whether it is capitalized words that begin a sentence."""
    found: list[tuple[int, str, bool]] = []
    if _MAYBE_SPECIAL.search(text):
        found += [(match.start(), match[0].strip("`"), False) for match in _SPECIAL.finditer(text)]
        text = _SPECIAL.sub(lambda match: "\x00" * len(match[0]), text)
    for match in _NAME.finditer(text):
        parts = match[0].split()
        before = text[: match.start()].rstrip(" \t")
        first = not before or before[-1] in _OPENS
        begins = first and not _plain(parts[0], language)
        while parts and _plain(parts[0], language) and (first or len(parts) == 1 or len(parts[0]) < 2):
            parts.pop(0)  # "The Santa Preguiça", but "in New York"
        while parts and (_plain(parts[-1], language) or parts[-1].islower()):  # "Friday I"
            parts.pop()
        name = _POSSESSIVE.sub("", " ".join(parts))
        if name and not (name.isupper() and len(name) > _LONGEST_ACRONYM):
            found.append((match.start(), name, begins))
    return [(name[:_MAX_CHARS], begins) for _, name, begins in sorted(found) if len(name) > 1]


def _plain(word: str, language: str) -> bool:
    low = word.lower().replace("\u2019", "'")
    return low in stop_words(language).words or len(word) < 2 or _CALENDAR.fullmatch(low) is not None
