"""Find the pieces of a question to match exactly: quoted phrases, identifiers, addresses, long numbers.

The text search parser splits `ERR_42`, a path or a telephone number, forgets the order, and stems quoted phrases. So
these are compared with the messages' own text: in any case and spacing, a number in any grouping, and never inside a
longer word or number. Numbers joined by points are compared by these components: `2.4` is the beginning of `v2.4.0`.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pipeline.text.caches import pattern

# Pieces of one question; characters of each.
MAX_PIECES = 8
MAX_CHARS = 200

_QUOTED = re.compile(
    r'(?<![\w"])"(?=[^\s"])([^"]+)(?<=\S)"(?!\w)|“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|(?<!`)`++([^`]+)`+'
)
_IDENTIFIER = re.compile(
    r"""
    (?:https?://|www\.)[^\s<>"“”«»`]+                       # an address on the web
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                          # an e-mail address
    | (?<![\w@])[@\#]\w[\w.-]*                              # a handle or a tag
    | (?<![\w.])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[\w.~/\\-]+     # a path from somewhere
    | (?<!\S)--[A-Za-z][\w-]+                               # an option
    | \w+(?:::\w+)+(?:\(\))? | \w+\(\)                      # a function
    | (?=[\w./-]*[.\d_])[\w.-]+(?:/[\w.-]+)+                # a path
    | [\w-]{2,}(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,5}\b    # a file, a host
    | (?<![\w.,])v?\d+(?:\.\d+)+(?:[+-]\w+)*(?![,\w])       # a version
    | \b(?=\w*[^\W_]_[^\W_])\w+                             # snake_case, ERR_42
    | \b[A-Za-z]+(?:-[A-Za-z0-9]+)*-\d[\w.-]*               # PROJ-128
    | \b[A-Za-z]+\d\w*                                      # E41
    """,
    re.VERBOSE,
)
# None of them has white space in it, and what is much longer than a piece may be is none: looking at each run apart
# keeps the time in proportion to the text, whatever somebody asks.
_UNBROKEN = re.compile(rf"(?<!\S)\S{{1,{MAX_CHARS + 50}}}(?!\S)")
_PHONE = re.compile(r"(?<![\w.,])\+?\(?\d(?:[ ().\-/]{0,2}\d){6,}(?!\w)")
# One of two signs says little, and words find it.
_SHORTEST = 3
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,'’]\d+)+(?![\w])|(?<!\w)\d{3,}(?!\w)")
_TRAILING = ".,;:!?)]}'’-"
_WORD_SIGN = re.compile(r"\w")
_NO_FIGURE = re.compile(r"\D")
_DECIMALS = re.compile(r"[.,]\d{1,2}$")
# What precedes numbers that are joined by points, and those that are one number in groups of thousands.
_POINTED, _THOUSANDS = re.compile(r"v?(?=\d+\.\d)", re.IGNORECASE), re.compile(r"\d{1,3}(?:\.\d{3})+")
_APOSTROPHE = re.compile("['’]")
# A number with at least this many digits is a telephone number.
_PHONE_DIGITS = 7
# Scripts that put no space between words have no edge of a word to look for.
_SPACELESS = 0x2E80


@dataclass(frozen=True)
class Verbatim:
    """A piece of a question that a message may contain word for word."""

    text: str
    kind: Literal["phrase", "identifier", "number"]

    def is_in(self, message: str) -> bool:
        """Tell whether a message contains it."""
        return self._pattern.search(message) is not None

    @property
    def begins(self) -> bool:
        """Whether it is found at the beginning of a longer one, which an index of words does not know."""
        return self.kind != "phrase" and bool(
            _POINTED.match(self.text) and not _THOUSANDS.fullmatch(self.text)
        )

    @property
    def bare(self) -> str:
        """Its text without the letter of a version."""
        return _POINTED.sub("", self.text, count=1) if self.begins else self.text

    @property
    def words(self) -> str:
        """The text whose words an index has for it as a whole."""
        return f"{self.bare} v{self.bare}" if self.begins else self.text

    @property
    def parts(self) -> list[str]:
        """Return its parts, which a match contains in this order, apart from white space or separators."""
        return list(_NO_FIGURE.sub("", self.text)) if self.kind == "number" else self.bare.split()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        version, more = ("v?", ",") if self.begins else ("", "[.,]")
        if self.kind == "number":
            body = _figures(self.text)
            return pattern(rf"(?<!\w)(?<!\d[.,]){version}{body}(?!\w|{more}\d)", re.IGNORECASE)
        body = _APOSTROPHE.sub("['’]", r"\s+".join(map(re.escape, self.parts)))
        word = r"\w" if self.kind == "identifier" else r"[^\W_]"
        before = f"(?<!{word})" if _has_edge(self.text[0]) or self.text[0] in "@#" else ""
        after = f"(?!{word})" if _has_edge(self.text[-1]) else ""
        if self.begins:
            # 2.4 is not the end of 1.2.4
            before += rf"(?<!\d\.){version}"
        return pattern(before + body + after, re.IGNORECASE)


def _figures(number: str) -> str:
    """Return a pattern for a number however it is grouped: as a telephone number, or by thousands."""
    digits = _NO_FIGURE.sub("", number)
    if len(digits) >= _PHONE_DIGITS:
        return r"(?:(?:\+|00)\d{1,3}[\s().-]{0,2})?" + r"[\s().,'’/-]{0,2}".join(digits)
    decimals = _DECIMALS.search(number)
    units = digits[: len(digits) - len(decimals[0]) + 1] if decimals else digits
    groups = "".join(
        ("[,.'’ ]?" if at and (len(units) - at) % 3 == 0 else "") + digit for at, digit in enumerate(units)
    )
    return groups + ("[.,]" + digits[len(units) :] if decimals else "")


def _has_edge(character: str) -> bool:
    return (character.isalnum() or character == "_") and ord(character) < _SPACELESS


def take_out(text: str, names: Collection[str]) -> tuple[list[Verbatim], str, list[str]]:
    """Take exact pieces out of a text: `(pieces, the text with a mark for each, what each mark replaces)`.

    One of `names` (in lower case) is left in: it says who is asked about.
    """
    pieces: dict[Verbatim, None] = {}
    marked: list[str] = []

    def mark(piece: str, kind: Literal["phrase", "identifier"], whole: str) -> str:
        if whole in marked:
            # a repeated piece is searched for once
            return chr(_MARK + marked.index(whole))
        piece = " ".join(piece.split())
        is_name = piece.strip("@").casefold() in names
        if (
            len(marked) >= MAX_PIECES
            or is_name
            or (kind == "identifier" and says_little(piece))
            or not 2 <= len(piece) <= MAX_CHARS
            or not _WORD_SIGN.search(piece)
        ):
            return whole
        pieces[Verbatim(piece, kind)] = None
        marked.append(whole)
        return chr(_MARK + len(marked) - 1)

    def identifier(match: re.Match[str]) -> str:
        whole = match[0]
        piece = whole.rstrip(_TRAILING) if not whole.endswith("()") else whole
        return mark(piece, "identifier", piece) + whole[len(piece) :]

    text = _ANY_MARK.sub(" ", text)
    text = _QUOTED.sub(lambda m: mark(next(filter(None, m.groups())), "phrase", m[0]), text)
    text = _UNBROKEN.sub(lambda m: _IDENTIFIER.sub(identifier, m[0]), text)
    return list(pieces), text, marked


def says_little(identifier: str) -> bool:
    """Tell whether an identifier is of one component that is no longer than two digits: words find it.

    >>> says_little("v3"), says_little("v12"), says_little("E41"), says_little("v3.1")
    (True, True, False, False)
    """
    return identifier.isalnum() and len(identifier.lower().removeprefix("v")) < _SHORTEST


# The first of the characters that stand for what was taken out: they belong to no script.
_MARK = 0xE000
_ANY_MARK = re.compile(f"[{chr(_MARK)}-{chr(_MARK + MAX_PIECES)}]")


def put_back(text: str, marked: Sequence[str]) -> str:
    """Put back into a text what `take_out` took out of it."""
    return text.translate({_MARK + number: whole for number, whole in enumerate(marked)})


def numbers(text: str) -> list[Verbatim]:
    """Return the telephone numbers, and the numbers of three digits or more, of a text."""
    pieces = [Verbatim(match[0].strip(), "number") for match in _PHONE.finditer(text)]
    for match in _NUMBER.finditer(_PHONE.sub(" ", text)):
        # a number has one point, and otherwise groups
        is_number = match[0].count(".") < 2 or _THOUSANDS.fullmatch(match[0])
        pieces.append(Verbatim(match[0], "number" if is_number else "identifier"))
    # nobody searches for a number of a thousand digits
    return [piece for piece in dict.fromkeys(pieces) if len(piece.text) <= MAX_CHARS]


def share(pieces: Sequence[Verbatim], message: str) -> float:
    """Return the share of the pieces that a message contains; 0 if there are none."""
    return sum(piece.is_in(message) for piece in pieces) / len(pieces) if pieces else 0.0
