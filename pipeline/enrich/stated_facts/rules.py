"""Load the rules of each language, and compile their patterns, when a text in it is first read."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Generic, Literal, TypeVar

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass as checked

from schemas.facts import About, FactCategory

LANGUAGES = ("english", "german")
T = TypeVar("T")
Takes = Literal["thing", "list", "place", "proper", "employer", "deed", "birthday", "verbatim", "any"]
"""What an object is: a few words, a list of them, a place, a name, an infinitive, a date, the clause, anything."""


@checked(frozen=True, kw_only=True, config={"extra": "forbid"})
class Rule:
    """What a statement looks like, and what it means."""

    # patterns from the beginning of a clause, said by whom it is about
    says: tuple[str, ...] = ()
    # patterns that follow a name, said by somebody else
    says_of: tuple[str, ...] = ()
    # the sentence, or what of it follows the subject
    content: str
    about: About = "speaker"
    attribute: str = ""
    value: str = "yes"
    category: FactCategory
    importance: float
    confidence: float = 0.9
    takes: Takes = "thing"
    # a date that is said was before it (`past`) or comes after it
    tense: Literal["past", ""] = ""
    # without a date it holds from when it was said
    changes: bool = False
    # without a date it is no fact
    dated: bool = False
    # it is about all of a kind, not about one case
    habit: bool = False
    # the object lost its article in the pattern
    article: bool = False
    # its patterns have a word such as `not`, which otherwise denies what a clause says
    negated: bool = False


@dataclass(frozen=True, kw_only=True)
class Language:
    """The words and the rules of a language."""

    words: Mapping[str, str]
    clauses: Mapping[str, Any]
    kin: Mapping[str, str]
    # by kind (`partner`, `pet`, `person`): what somebody calls their relation, and how it is written
    relations: Mapping[str, Mapping[str, str]]
    dates: Mapping[str, Any]
    rules: tuple[Rule, ...]


def _read(name: str) -> Language:
    text = (files(__package__) / f"{name}.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)
    return Language(**found | {"rules": _rules.validate_python(found["rules"])})


_rules = TypeAdapter(tuple[Rule, ...])
_WORD = re.compile(r"\{([A-Za-z][A-Za-z ]*)\}")
_INVERTED = re.compile(r"\{(\w+): ([^{}]+)\}")
_OBJECTS = {"short": "(?P<object>.{2,60}?)", "object": "(?P<object>.+)", "rest": "(?P<rest>.+)"}


def _expanded(source: str, words: Mapping[str, str]) -> str:
    """Put the patterns of words into a pattern, which then matches only where a text begins.

    `{ich: wohne}` stands for "ich wohne" and, after a few other words, "wohne ich".
    """
    source = _INVERTED.sub(r"(?:\1 (?:\2)|(?:[^\\s,]{1,20} ){0,4}(?:\2) \1)", source)
    while found := _WORD.search(source):
        word = found[1]
        source = source[: found.start()] + (_OBJECTS.get(word) or words[word]) + source[found.end() :]
    return rf"\A{source}"


class ByLanguage(Mapping[str, T], Generic[T]):
    """What is made for each language, at its first use: every program would wait half a second for all of it."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = cache(make)

    def __getitem__(self, language: str) -> T:
        if language not in LANGUAGES:
            raise KeyError(language)
        return self._make(language)

    def __iter__(self) -> Iterator[str]:
        return iter(LANGUAGES)

    def __len__(self) -> int:
        return len(LANGUAGES)

    @property
    def made(self) -> int:
        """Return how many languages were asked for so far."""
        return self._make.cache_info().currsize


def _kin(language: Language) -> str:
    words = sorted((word for kind in language.relations.values() for word in kind), key=len, reverse=True)
    alternatives = "|".join(re.escape(word) for word in words)
    of, name = language.kin["of"], language.kin["name"]
    return rf"(?:(?<=\s)|\A){of} (?P<relation>{alternatives})\b(?:{name})?"


BY_LANGUAGE = ByLanguage(_read)
SAYS = ByLanguage(
    lambda name: [
        (rule, re.compile(_expanded(source, BY_LANGUAGE[name].words), re.IGNORECASE))
        for rule in BY_LANGUAGE[name].rules
        for source in rule.says
    ]
)
SAYS_OF = ByLanguage(
    lambda name: [
        (rule, re.compile(_expanded(source, BY_LANGUAGE[name].words), re.IGNORECASE))
        for rule in BY_LANGUAGE[name].rules
        for source in rule.says_of
    ]
)
CLAUSES = ByLanguage(
    lambda name: {
        key: re.compile(source, re.IGNORECASE)
        for key, source in BY_LANGUAGE[name].clauses.items()
        if isinstance(source, str)
    }
)
KIN = ByLanguage(lambda name: re.compile(_kin(BY_LANGUAGE[name]), re.IGNORECASE))


def load() -> None:
    """Read and compile the rules of every language, which takes half a second the first time."""
    for made in (SAYS, SAYS_OF, CLAUSES, KIN):
        list(made.values())
