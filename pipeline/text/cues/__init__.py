"""Load the cue words and patterns of a language from its `cues.toml`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from re import Match, Pattern
from typing import Any, Literal, get_args
from unicodedata import normalize

from pipeline.text import languages
from pipeline.text.accents import pattern_either_way, without_accents, words_either_way
from pipeline.text.caches import pattern
from pipeline.text.languages import parts_of

Shape = Callable[[Mapping[str, Any], str], str]
"""Makes a pattern from a language's data and alternatives."""


def delimited(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of whole words; of any characters in scripts without spaces."""
    return rf"(?<!\w)(?:{inside})(?!\w)" if source.get("spaced", True) else f"(?:{inside})"


def as_begun(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of the beginnings of words."""
    return rf"(?<!\w)(?:{inside})" if source.get("spaced", True) else f"(?:{inside})"


def begins(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of how a question begins, after any words that lead to it."""
    lead = "|".join(source["asks"]["lead"].split())
    before = rf"(?:(?:{lead})[,!. ]+)*" if lead else ""
    return rf"[^\w'+]*{before}{delimited(source, inside)}"


def ends(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of how a question ends."""
    return rf"{as_begun(source, inside)}\W*\Z"


def opens(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of how a text opens."""
    return rf"\W*{delimited(source, inside)}"


def says_nothing(source: Mapping[str, Any]) -> str:
    """Return a pattern of an answer that says nothing, with the remaining words as `more`."""
    acts = source["acts"]
    apologies, nothing = "|".join(acts["apologies"].split()), "|".join(acts["says_nothing"])
    if source.get("spaced", True):
        return rf"(?:(?:{apologies}) )*(?:{nothing})(?P<more>(?: .*)?)"
    return rf"(?:(?:{apologies}) ?)*(?:{nothing})(?P<more>.*)"


def request(source: Mapping[str, Any], inside: str) -> str:
    """Return a pattern of a text that begins with a request, the `cue`; `what` follows unless it is in that."""
    spaced = source.get("spaced", True)
    lead = "|".join(f"{source['asks']['lead']} {source['greetings']} {source['kept']['lead']}".split())
    # after a quotation mark it is not the speaker's own request
    before = rf"""[^\w"'`>“„«»‘「『]*(?:(?:{lead})[,!.:，。！、 ]{{{1 if spaced else 0},}})*"""
    end = r"(?:(?<=')|(?!\w))" if spaced else ""
    what = "" if "(?P<what>" in inside else r"[\s:：，]*(?P<what>[^\s,.;:!。！].*)?"
    return rf"\A{before}(?P<cue>(?:{inside}){end}){what}"


class Phrases:
    """Patterns that are searched for in a text as `plain` returns it."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.patterns = tuple(map(pattern, sources))

    def are_in(self, text: str) -> bool:
        """Tell whether the text has one of the patterns."""
        return any(regex.search(text) for regex in self.patterns)

    def begun(self, text: str) -> Match[str] | None:
        """Return how the text begins with one of the patterns."""
        return next(filter(None, (regex.match(text) for regex in self.patterns)), None)


@dataclass(frozen=True, kw_only=True)
class Words:
    """Words of one kind."""

    whole: frozenset[str]
    # those of scripts without spaces, which are sought anywhere; None: there are none
    pieces: Pattern[str] | None = None

    def are_in(self, words: Iterable[str], text: str) -> bool:
        """Tell whether one of them is among the words of a text, or in the text."""
        return not self.whole.isdisjoint(words) or bool(self.pieces and self.pieces.search(text))


AnswerType = Literal["when", "number", "now"]
"""A time; a number, or what is mostly written in figures; the present or final state."""
ANSWER_TYPES: tuple[AnswerType, ...] = get_args(AnswerType)

# Words without meaning of their own. Without accents one may be another: in Polish `pięć` is five, `piec` a stove.
_AS_WRITTEN = frozenset(("stop", "chatter", "determiners"))
# In place of patterns that a language does not have.
_NOTHING = r"(?!)"


@dataclass(frozen=True, kw_only=True)
class Cues:
    """The words and patterns of a language, or of several together; texts are read as `plain` returns them."""

    # how a question begins and ends, and phrases that mark one anywhere
    begins: Pattern[str]
    ends: Pattern[str]
    asks_anywhere: Phrases
    # whether `ends` is decisive, even before a full stop
    has_ends: bool
    # what a question asks for
    asked: Mapping[AnswerType, Phrases]
    # how an overview of a time is asked for, and what else such a question says
    overview: Phrases
    overview_about: Phrases
    # what a message holds
    time: Words
    time_phrases: Phrases
    number: Words
    number_phrases: Phrases
    first_person: Words
    first_person_plural: Words
    second_person: Words
    # dialogue acts
    promises: Phrases
    unsure: Phrases
    wonders: Phrases
    small_talk: Phrases
    decides: Phrases
    settled: Phrases
    # an answer that says nothing, with the remaining words as `more`; one pattern per language
    says_nothing: Sequence[Pattern[str]]
    but: Words
    greetings: frozenset[str]
    # questions that go on from the talk: how they begin, which do so by themselves, and words that refer to something
    openers: Pattern[str]
    alone: Phrases
    refers: Phrases


@dataclass(frozen=True, kw_only=True)
class StopWords:
    """Words that do not say what a text is about."""

    words: frozenset[str]
    # in scripts without spaces, characters that no content word contains
    particles: frozenset[str]
    # words that are before a noun more often than before anything else
    determiners: frozenset[str]


def plain(text: str) -> str:
    """Normalize a text for the patterns: lower case, composed letters, straight apostrophes.

    >>> plain("Don’t ASK")
    "don't ask"
    """
    if not text.isascii():
        # the lower case of a dotted capital I would be of two characters
        text = normalize("NFC", text).replace("\u2019", "'").replace("\u0130", "i")
    return text.lower()


def cues_of(language: str) -> Cues:
    """Return the cues of a language, or of several as in `german+english`.

    >>> cues_of("german+english").asked["when"].are_in("wann"), cues_of("swedish") is cues_of("english")
    (True, True)
    """
    return _make_cues(_parts(language))


def stop_words(language: str) -> StopWords:
    """Return the stop words of a language, or of several as in `german+english`; see `languages.ANY_LANGUAGE`."""
    return _stop_words(_parts(language))


@cache
def common_words(language: str) -> frozenset[str]:
    """Return the common words of a language and its words of time, with and without accents."""
    words, says = read(language)["words"], read(language)["says"]
    common = {word for key in ("stop", "chatter", "determiners") for word in words[key].split()}
    common |= set(says["time"].split()) - set(says.get("time_except", "").split())
    return frozenset(common | set(map(without_accents, common)))


@lru_cache(maxsize=256)
def _parts(language: str) -> tuple[str, ...]:
    """Return the languages whose files are read, in a fixed order."""
    return tuple(sorted(parts_of(language)))


@cache
def _stop_words(languages: tuple[str, ...]) -> StopWords:
    sources = [read(language)["words"] for language in languages]

    def all_words(*keys: str) -> frozenset[str]:
        return frozenset(word for source in sources for key in keys for word in source[key].split())

    return StopWords(
        words=all_words("stop", "chatter"),
        particles=frozenset("".join(source.get("particles", "") for source in sources)),
        determiners=all_words("determiners"),
    )


@cache
def read(language: str) -> Mapping[str, Any]:
    """Return the file of a language, with and without accents but for what is `_AS_WRITTEN`."""
    source = languages.read(language, "cues")
    stop = frozenset(source["words"]["stop"].split())

    def either_way(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                key: inside if key in _AS_WRITTEN else either_way(inside) for key, inside in value.items()
            }
        if isinstance(value, list):
            return [pattern_either_way(regex, stop) for regex in value]
        return words_either_way(value, stop) if isinstance(value, str) else value

    expanded: Mapping[str, Any] = either_way(source)
    return expanded


@cache
def _make_cues(languages: tuple[str, ...]) -> Cues:
    sources = [read(language) for language in languages]

    def either(section: str, key: str, shape: Shape) -> str:
        """Return one pattern of all languages."""
        alternatives = [(source, "|".join(source.get(section, {}).get(key, ()))) for source in sources]
        return "|".join(shape(source, inside) for source, inside in alternatives if inside) or _NOTHING

    def phrases(section: str, key: str, shape: Shape = delimited) -> Phrases:
        return Phrases(
            shape(source, phrase) for source in sources for phrase in source.get(section, {}).get(key, ())
        )

    def words(section: str, key: str) -> Words:
        listed = [(source, source.get(section, {}).get(key, "").split()) for source in sources]
        excepted = {
            word for source in sources for word in source.get(section, {}).get(f"{key}_except", "").split()
        }
        pieces = [word for source, inside in listed if not source.get("spaced", True) for word in inside]
        whole = [word for source, inside in listed if source.get("spaced", True) for word in inside]
        longest_first = "|".join(sorted(pieces, key=lambda piece: (-len(piece), piece)))
        return Words(
            whole=frozenset(whole) - excepted, pieces=pattern(longest_first) if longest_first else None
        )

    greetings = chain.from_iterable(source.get("greetings", "").split() for source in sources)
    return Cues(
        begins=pattern(either("asks", "begins", begins)),
        ends=pattern(either("asks", "ends", ends)),
        has_ends=any("ends" in source["asks"] for source in sources),
        asks_anywhere=phrases("asks", "anywhere"),
        asked={kind: phrases("asked", kind) for kind in ANSWER_TYPES},
        overview=phrases("overview", "asks"),
        overview_about=phrases("overview", "about"),
        time=words("says", "time"),
        time_phrases=phrases("says", "time_patterns"),
        number=words("says", "number"),
        number_phrases=phrases("says", "number_patterns"),
        first_person=words("says", "first_person"),
        first_person_plural=words("says", "first_person_plural"),
        second_person=words("says", "second_person"),
        promises=phrases("acts", "promises"),
        unsure=phrases("acts", "unsure"),
        wonders=phrases("acts", "wonders"),
        small_talk=phrases("acts", "small_talk", as_begun),
        decides=phrases("acts", "decides"),
        settled=phrases("acts", "settled"),
        says_nothing=[pattern(says_nothing(source)) for source in sources],
        but=words("acts", "but"),
        greetings=frozenset(greetings),
        openers=pattern(either("followup", "openers", opens)),
        alone=phrases("followup", "alone"),
        refers=phrases("followup", "refers"),
    )
