"""How each language names people, as its `names.toml` has it: its common words, articles and endings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pipeline.text.caches import pattern
from pipeline.text.cues import stop_words
from pipeline.text.languages import parts_of, read

_POSSESSIVE = re.compile(r"['’](?:s|S)?\Z")
# A shorter stem would match too many words.
_MIN_STEM = 3
_MAX_ENDING = 3
_VOWELS = "аяоеиыйьуюёaąeęioóuy"


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
    stem = name.rstrip(_VOWELS)
    return stem if len(stem) >= _MIN_STEM and len(name) - len(stem) <= 1 else None


def by_stem(word: str, stems: Mapping[str, Sequence[str]]) -> str | None:
    """Return the name that a word is an inflected form of, given the names by stem."""
    for size in range(len(word), max(len(word) - _MAX_ENDING, _MIN_STEM) - 1, -1):
        if word[:size] in stems:
            return stems[word[:size]][0]
    return None


@cache
def _naming(languages: tuple[str, ...]) -> Naming:
    sources = [read(language, "names") for language in languages]
    endings = "|".join(str(source["endings"]) for source in sources if source["endings"])
    return Naming(
        words=frozenset(word for source in sources for word in str(source["words"]).casefold().split())
        | stop_words("+".join(languages)).words,
        before=frozenset(word for source in sources for word in str(source["before"]).casefold().split()),
        endings=pattern(endings) if endings else None,
        stems=any(source.get("stems") for source in sources),
        nouns=any(source.get("nouns") for source in sources),
        articles=any(source.get("articles") for source in sources),
    )
