"""Find the participants that a question names: by their whole names and handles, or by a part that is a name there."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from pipeline.text.accents import LETTERS, LETTERS_AND_DIGITS, key, without_accents
from pipeline.text.caches import pattern
from pipeline.text.cues import stop_words
from pipeline.text.languages import parts_of, read
from pipeline.text.sentences import UNSPACED
from schemas.signs import SIGN

_POSSESSIVE = re.compile(r"['’](?:s|S)?\Z")
# A shorter stem would match too many words.
_MIN_STEM = 3
_MAX_ENDING = 3
_VOWELS = "аяоеиыйьуюёaąeęioóuy"
# what a case may put after a stem: not all of another name, as in Мария and Марина
_CASE = re.compile(f"z?[{_VOWELS}]*(?:м|х|m|ch|wi)?")


@dataclass(frozen=True, kw_only=True)
class Naming:
    """How a language names people."""

    words: frozenset[str]
    before: frozenset[str]
    endings: re.Pattern[str] | None
    stems: bool
    nouns: bool
    articles: bool

    def is_uncommon(self, word: str) -> bool:
        """Tell whether a word is not a common word of the language."""
        return word not in self.words and not word.isdecimal()

    def bases(self, word: str) -> list[str]:
        """Return a word, and the word without each possible ending."""
        bases = [word]
        if stripped := without_possessive(word):
            bases.append(stripped)
        if self.endings is not None:
            sizes = range(1, min(len(word) - 1, _MAX_ENDING + 1) + 1)
            bases += [word[:-size] for size in sizes if self.endings.fullmatch(word, len(word) - size)]
        return list(dict.fromkeys(bases))


def naming_of(language: str) -> Naming:
    """Return how a language names people: several languages combined, English for an unknown one."""
    return _naming(parts_of(language))


def without_possessive(word: str) -> str:
    """Return a word without a possessive ending.

    >>> without_possessive("Ann's"), without_possessive("Jonas’")
    ('Ann', 'Jonas')
    """
    return _POSSESSIVE.sub("", word)


def stem_of(name: str) -> str | None:
    """Return a name without its last vowel, the stem for case endings; None if too little is left."""
    stem = name[:-1] if name.endswith(tuple(_VOWELS)) else name
    return stem if len(stem) >= _MIN_STEM else None


def by_stem(word: str, stems: Mapping[str, Sequence[str]]) -> str | None:
    """Return the name that a word is an inflected form of, given the names by stem."""
    for size in range(len(word), max(len(word) - _MAX_ENDING, _MIN_STEM) - 1, -1):
        if word[:size] in stems and _CASE.fullmatch(word, size):
            return stems[word[:size]][0]
    return None


@cache
def _naming(languages: tuple[str, ...]) -> Naming:
    sources = [read(language, "names") for language in languages]
    endings = "|".join(str(source["endings"]) for source in sources if source["endings"])
    return Naming(
        words=frozenset(word for source in sources for word in key(str(source["words"])).split())
        | stop_words("+".join(languages)).words,
        before=frozenset(word for source in sources for word in key(str(source["before"])).split()),
        endings=pattern(endings) if endings else None,
        stems=any(source.get("stems") for source in sources),
        nouns=any(source.get("nouns") for source in sources),
        articles=any(source.get("articles") for source in sources),
    )


_WORD = re.compile(rf"@?{LETTERS_AND_DIGITS}(?:[._'’-]{LETTERS_AND_DIGITS})*")
_PART = re.compile(rf"{LETTERS}(?:['’-]{LETTERS})*")
# Of a name in a script without spaces two or three characters are the family name or the given name.
_HAN = re.compile(r"[\u3400-\u9fff]{3,4}")
# A family name in kanji and a given name in kana, as in 田中さくら.
_RUNS = re.compile(r"[\u3005\u3400-\u9fff]+|[\u3040-\u309f]+|[\u30a0-\u30ff]+")
# A family name with an honorific.
_HONORED = re.compile(
    r"(?<![\u3005\u3400-\u9fff])([\u3005\u3400-\u9fff]{1,4}?)(?:さん|さま|くん|ちゃん|様|君|氏|先生)"
)
_HONORIFICS = frozenset(("さん", "さま", "くん", "ちゃん"))
_SENTENCE_START = re.compile(r"(?:\A|[.!?:;…])\W*\Z")
# Characters before a word that show whether it begins a sentence.
_BEFORE_CHARS = 6
# Names of more words are group titles.
_MAX_WORDS = 6


class Named(NamedTuple):
    """The participants that a text names."""

    # participants, with the share by which each is named: 1, or less where several have the name
    shares: Mapping[str, float]
    # the names found, in the participants' own spelling
    names: tuple[str, ...]
    # spans of the text that can only be a name
    sure: tuple[tuple[int, int], ...]


class _Word(NamedTuple):
    start: int
    end: int
    text: str
    folded: str


def _elided(word: str) -> int:
    """Return how many characters of another word are joined with it, as in "d'Olivier" or "dell'Anna".

    >>> [word[_elided(word):] for word in ("d'Olivier", "O'Brien", "qu’Anne", "Ann's")]
    ['Olivier', "O'Brien", 'Anne', "Ann's"]
    """
    before, _, after = word.replace("’", "'").partition("'")
    return len(before) + 1 if before.islower() and after[:1].isupper() else 0


def _words_of(text: str) -> Iterator[_Word]:
    for match in _WORD.finditer(text):
        start = match.start() + _elided(match[0])
        word = text[start : match.end()]
        yield _Word(start, match.end(), word, key(word.lstrip("@")))


def find(text: str, people: Iterable[str], language: str = "english") -> Named:
    """Find the participants that a text names, by their display names and handles.

    A part of a name that is a common word counts where it is written as a name only; where several share a part, each
    counts with its share.
    """
    naming = naming_of(language)
    people = list(dict.fromkeys(filter(None, map(str.strip, people))))
    words = list(_words_of(text))
    hits = _Hits()
    _add_whole_names(words, people, naming, hits)
    _add_parts(text, words, people, naming, hits)
    _add_spaceless_names(text, people, naming, hits)
    return Named(hits.shares, tuple(dict.fromkeys(hits.names)), tuple(sorted(set(hits.sure))))


def names_and_handles(text: str, people: Iterable[str], handles: Iterable[str], language: str) -> set[str]:
    """Return the names that a text has, as a whole or a part, and the handles that it has as a whole, with or without
    `@`.

    >>> people, handles = ["Ann Lee", "Olek"], ["ben.k", "brother.ben"]
    >>> sorted(names_and_handles("What does Ann's brother owe @ben.k?", people, handles, "english"))
    ['Ann Lee', 'ben.k']
    """
    words = {word.folded for word in _words_of(text)}
    words |= {without_possessive(word) for word in words}
    by_handle = {handle for handle in handles if key(handle.lstrip("@")) in words}
    return by_handle.union(find(text, people, language).shares)


class _Hits:
    """The names found so far, and the participants who have them."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}
        self.names: list[str] = []
        self.sure: list[tuple[int, int]] = []
        # indexes of the words already matched
        self.read: set[int] = set()

    def add(self, people: Sequence[str], name: str) -> None:
        self.names.append(name)
        for person in people:
            self.shares[person] = max(self.shares.get(person, 0.0), 1 / len(people))


def _add_whole_names(words: Sequence[_Word], people: Sequence[str], naming: Naming, hits: _Hits) -> None:
    """Add whole names, the longest first, and handles."""
    of_words: dict[tuple[str, ...], list[str]] = {}
    for person in people:
        parts = tuple(word.folded for word in _words_of(person))
        if 0 < len(parts) <= _MAX_WORDS:
            for spelled in dict.fromkeys((parts, tuple(map(without_accents, parts)))):
                of_words.setdefault(spelled, []).append(person)
    for length in sorted({len(parts) for parts in of_words}, reverse=True):
        for at in range(len(words) - length + 1):
            if not hits.read.isdisjoint(range(at, at + length)):
                continue
            run = words[at : at + length]
            first = tuple(word.folded for word in run[:-1])
            for base in naming.bases(run[-1].folded):
                holders = of_words.get((*first, base)) or of_words.get(
                    tuple(map(without_accents, (*first, base)))
                )
                if not holders or (length == 1 and not _is_whole_name(words, at, base, naming)):
                    continue
                hits.add(holders, holders[0].lstrip("@"))
                if length > 1 or not (naming.nouns and _has_article(words, at, naming)):
                    hits.sure.append((run[0].start, run[-1].end))
                hits.read.update(range(at, at + length))
                break


def _add_parts(text: str, words: Sequence[_Word], people: Sequence[str], naming: Naming, hits: _Hits) -> None:
    holders: dict[str, list[str]] = {}
    first: set[str] = set()
    spelling: dict[str, str] = {}
    for person in people:
        parts = [part[_elided(part) :] for part in _PART.findall(person) if len(part) > 1]
        for number, part in enumerate(parts):
            for spelled in _spelled(part):
                spelling[spelled] = part
                if spelled in naming.before:
                    continue
                owners = holders.setdefault(spelled, [])
                if not owners or owners[-1] != person:
                    owners.append(person)
                if number == 0:
                    first.add(spelled)
    stems: dict[str, list[str]] = {}
    if naming.stems:
        for part in holders:
            if (stem := stem_of(part)) is not None:
                stems.setdefault(stem, []).append(part)
    lower = text == text.lower()
    for at, word in enumerate(words):
        if at in hits.read:
            continue
        bases = [spelled for base in naming.bases(word.folded) for spelled in _spelled(base)]
        base = next((base for base in bases if base in holders), None)
        if base is None and (lower or word.text[:1].isupper()):
            base = by_stem(word.folded, stems)
        if base is None or not _is_name(text, words, at, base, naming, lower=lower):
            continue
        hits.add(holders[base], spelling[base])
        if (
            base in first
            and naming.is_uncommon(base)
            and not (naming.nouns and _has_article(words, at, naming))
        ):
            hits.sure.append((word.start, word.end))


def _spelled(part: str) -> tuple[str, ...]:
    """Return a part of a name in lower case, with its accents and, if that differs, without them."""
    folded = key(part)
    return tuple(dict.fromkeys((folded, without_accents(folded))))


def _add_spaceless_names(text: str, people: Sequence[str], naming: Naming, hits: _Hits) -> None:
    """Add names of scripts without spaces, wherever they stand."""
    holders: dict[str, list[str]] = {}
    whole_names = set()
    for person in people:
        for name in (run for run in UNSPACED.findall(key(person)) if len(run) > 1):
            whole_names.add(name)
            parts = {name, *(run for run in _RUNS.findall(name) if run not in _HONORIFICS)}
            if _HAN.fullmatch(name):
                parts |= {name[1:], name[:2], name[2:]} if len(name) == 4 else {name[1:]}
            for part in parts:
                if len(part) > 1:
                    holders.setdefault(part, []).append(person)
    spans = _add_honored_names(text, whole_names, holders, hits)
    signs = list(SIGN.finditer(text)) if holders else []
    keys = [key(sign[0]) for sign in signs]
    for name in sorted(holders, key=len, reverse=True):
        sought = list(map(key, SIGN.findall(name)))
        found = [
            (signs[at].start(), signs[at + len(sought) - 1].end())
            for at, first in enumerate(keys)
            if first == sought[0] and keys[at : at + len(sought)] == sought
        ]
        if not found or name in naming.words or any(start <= found[0][0] < end for start, end in spans):
            continue
        hits.add(holders[name], name)
        spans += found
        if name in whole_names:
            hits.sure += found


def _add_honored_names(
    text: str, whole_names: Iterable[str], holders: Mapping[str, Sequence[str]], hits: _Hits
) -> list[tuple[int, int]]:
    """Add people whose family name stands with an honorific; return the spans of these names."""
    spans = []
    for match in _HONORED.finditer(text):
        family = match[1]
        named = [name for name in sorted(whole_names) if name.startswith(family) and len(name) > len(family)]
        if named and family not in whole_names:
            hits.add([person for name in named for person in holders[name]], family)
            spans.append(match.span(1))
    return spans


def _is_name(text: str, words: Sequence[_Word], at: int, base: str, naming: Naming, *, lower: bool) -> bool:
    """Tell whether a word that occurs in a name is used as a name here."""
    word = words[at]
    if word.text.startswith("@"):
        return True
    after_article = _has_article(words, at, naming)
    if lower:
        return naming.is_uncommon(base) and len(base) > 2 and (naming.articles or not after_article)
    if not word.text[0].isupper() and word.text.lower() != word.text.upper():
        return False
    if naming.is_uncommon(base):
        return True
    begins = _SENTENCE_START.search(text[max(0, word.start - _BEFORE_CHARS) : word.start])
    return not after_article and begins is None


def _is_whole_name(words: Sequence[_Word], at: int, base: str, naming: Naming) -> bool:
    """Tell whether a word that is a whole name or a handle is used as one here."""
    if words[at].text.startswith("@"):
        return True
    plain = words[at].text[0].islower() and _has_article(words, at, naming) and not naming.articles
    return naming.is_uncommon(base) and not plain


def _has_article(words: Sequence[_Word], at: int, naming: Naming) -> bool:
    return at > 0 and words[at - 1].folded in naming.before
