"""Recognize texts that repeat others, by the words that they share."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, sha256

from pipeline.text.languages import ANY_LANGUAGE
from pipeline.text.sentences import terms, words

SAME_JACCARD = 0.6
"""Two statements with this share of their content words in common say the same."""
REPEATED_JACCARD = 0.8
"""A text with a larger share of its words in common with another repeats it."""
_NEGATION = re.compile(
    r"\b(?:not?|never|none|neither|without|cannot|former(?:ly)?|ex|nicht|kein\w*|nie(?:mals)?|ohne|früher"
    r"|pas|non|não|nunca|niet|geen|değil|не|нет)\b|n['’]t\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
_FULL_STOPS = ".。．｡۔।"


@dataclass(frozen=True, eq=False)
class Bag:
    """The distinct words of a text, to compare it with many others."""

    text: str
    words: frozenset[str]

    @cached_property
    def claims(self) -> tuple[Sequence[str], bool]:
        """Its numbers, and whether it denies something; read only of a text whose words are like another's."""
        return _claims(self.text)


def is_repeated(bag: Bag, earlier: Mapping[int, Sequence[Bag]]) -> bool:
    """Tell whether a text repeats one of the `earlier` ones, which are grouped by their number of words.

    The Jaccard index of their words is above `REPEATED_JACCARD`, they have the same numbers, and both or neither deny
    something: the same announcement with another time is news.
    """
    size, jaccard = len(bag.words), REPEATED_JACCARD
    for other_size, bags in earlier.items():
        if size > jaccard * other_size and other_size > jaccard * size:
            for other in bags:
                common = len(bag.words & other.words)
                if common > jaccard * (size + other_size - common) and bag.claims == other.claims:
                    return True
    return False


def says_the_same(one: str, other: str) -> bool:
    """Tell whether two short statements have nearly the same words, the same numbers and the same negation.

    >>> says_the_same("Ann is allergic to hazelnuts.", "Ann is very allergic to hazelnuts!")
    True
    >>> says_the_same("Ann eats meat.", "Ann does not eat meat."), says_the_same("Flat 3 it is", "Flat 4 it is")
    (False, False)
    """
    return Gist.of(one).is_that_of(Gist.of(other))


@dataclass(frozen=True, kw_only=True)
class Gist:
    """The parts of a statement that `says_the_same` compares, to compare it with many others."""

    fingerprint: bytes
    # its numbers, and whether it denies something
    claims: tuple[Sequence[str], bool]
    # content words
    terms: frozenset[str]

    @classmethod
    def of(cls, text: str) -> "Gist":
        """Read the gist of a text."""
        return cls(
            fingerprint=fingerprint(text),
            claims=_claims(text),
            terms=frozenset(terms(words(text), ANY_LANGUAGE)),
        )

    def is_that_of(self, other: "Gist") -> bool:
        """Tell whether two statements say nearly the same."""
        if self.fingerprint == other.fingerprint:
            return True
        if self.claims != other.claims:
            return False
        both = len(self.terms & other.terms)
        return both > 0 and both >= SAME_JACCARD * len(self.terms | other.terms)


def differs_only_in_words(one: str, other: str) -> bool:
    """Tell whether two statements have the same numbers, and either both or neither deny something."""
    return _claims(one) == _claims(other)


def _claims(text: str) -> tuple[Sequence[str], bool]:
    return sorted(_NUMBER.findall(text)), bool(_NEGATION.search(text))


def fingerprint(text: str, chat_id: str | None = None) -> bytes:
    """Return a hash of a text's words, or of these in a chat, whatever their case, spaces and final full stop.

    >>> fingerprint("We meet on  Mondays.") == fingerprint("we meet on mondays")
    True
    """
    plain = _hash_of(_words_of(text))
    return plain if chat_id is None else sha256(plain + chat_id.encode()).digest()[:16]


def fingerprints_ever(text: str) -> list[bytes]:
    """Return the fingerprint of a text, and those of earlier releases, which told full stops apart."""
    return [_hash_of(_words_of(text) + stop) for stop in ("", *_FULL_STOPS)]


def _words_of(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(_FULL_STOPS).rstrip()


def _hash_of(words: str) -> bytes:
    return blake2b(words.encode(), digest_size=16).digest()
