"""Excerpt the part of a long passage that a question is about: whole sentences, or whole lines of code."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from pipeline.text import chunking, truncate
from pipeline.text.fencing import harmless, visible
from pipeline.text.sentences import sentences, terms, words
from pipeline.text.tokens import Count, estimate, estimate_line

Part = tuple[int, int]
"""A sentence or line, from … until."""
# A sentence that is longer than the room is taken apart into pieces of this share of it.
_PIECES = 2
# What a word counts that the first part holds: it is what the whole text is about.
_OF_TOPIC = 0.25
# A word is looked for without its last letter, which other forms of it may not have, but no shorter than this.
_SHORTEST = 3


class Wanted(NamedTuple):
    """Words that are looked for."""

    terms: frozenset[str]
    language: str
    # how they begin: most texts hold none, and taking them apart takes long
    beginnings: tuple[str, ...]

    @classmethod
    def of(cls, question: str, language: str) -> "Wanted":
        """Return the content words of a question in a language."""
        found = frozenset(terms(words(question), language))
        return cls(found, language, tuple(term[: max(len(term) - 1, _SHORTEST)] for term in found))

    def held(self, text: str) -> frozenset[str]:
        """Return those that a text holds."""
        low = text.lower().replace("\u2019", "'")
        if not any(beginning in low for beginning in self.beginnings):
            return frozenset()
        return self.terms.intersection(terms(words(low), self.language))


NOTHING = Wanted(frozenset(), "english", ())
"""No words are wanted."""


def shown(text: str, wanted: Wanted, tokens: int, count: Count = estimate_line) -> str:
    """Return a message as a context shows it, within `tokens`: of a longer one, what the question is about.

    >>> ferry = Wanted.of("When does the ferry go?", "english")
    >>> shown("Tea is at five.\\n\\nThe ferry goes at eight.\\nBring a coat.", ferry, 12)
    '… The ferry goes at eight. …'
    """
    whole = truncate.displayed(text)
    # a token is a character at least, and a line's end
    if 2 * len(whole) < tokens or count(whole) <= tokens:
        return whole
    lines = whole if "\n" in whole else visible(text)
    return harmless(about(lines, wanted, tokens, count))


def about(text: str, wanted: Wanted, tokens: int, count: Count = estimate) -> str:
    """Return the run of sentences that holds most of the wanted words, within `tokens` by `count`.

    A word counts the less, the more sentences hold it, and little if the first one does: it is the topic of the text.

    On one line, but for code, whose lines are what sentences are elsewhere; with an ellipsis where something is left
    out. Where no word of the question occurs it is the beginning.

    >>> ferry = Wanted.of("When does the ferry go?", "english")
    >>> about("Tea is at five. The ferry goes at eight. Bring a coat.", ferry, 9)
    '… The ferry goes at eight. …'
    """
    is_code = truncate.is_code(text)
    whole = text if is_code else " ".join(text.split())
    if count(whole) <= tokens:
        return whole
    gap = "\n" if is_code else " "
    room = tokens - 2 * count(truncate.ELLIPSIS)
    if room < 1:
        return truncate.within_tokens(whole, tokens, count)
    parts = [
        piece
        for part in (_lines(text) if is_code else _sentences(whole, text))
        for piece in _pieces(whole, part, room, count)
    ]
    first, end = _best_run(whole, parts, wanted, room, count)
    before = truncate.ELLIPSIS + gap if first else ""
    while end > first:
        after = gap + truncate.ELLIPSIS if end < len(parts) else ""
        found = before + whole[parts[first][0] : parts[end - 1][1]] + after
        if count(found) <= tokens:
            return found
        end -= 1
    start, stop = parts[first]
    return truncate.within_tokens(before + whole[start:stop], tokens, count)


def _best_run(whole: str, parts: Sequence[Part], wanted: Wanted, room: int, count: Count) -> tuple[int, int]:
    """Return the run that holds most of the wanted words, from … until: the middle one of those with as much."""
    found = [wanted.held(whole[start:stop]) for start, stop in parts]
    weights = {
        term: (_OF_TOPIC if term in found[0] else 1.0) / times
        for term, times in Counter(chain(*found)).items()
    }
    costs = [count(whole[start:stop]) for start, stop in parts]
    inside: Counter[str] = Counter()
    spent = hits = end = 0
    best, first, last = (0.0, 0), 0, 0
    ends: list[int] = []
    for start in range(len(parts)):
        while end < len(parts) and (end == start or spent + costs[end] <= room):
            spent, hits, end = spent + costs[end], hits + len(found[end]), end + 1
            inside.update(found[end - 1])
        ends.append(end)
        # in one order, so that the same words are worth the same
        worth = (sum(weights[term] for term in sorted(inside)), hits)
        if worth > best:
            best, first, last = worth, start, start
        elif worth == best and last == start - 1:
            last = start
        spent, hits = spent - costs[start], hits - len(found[start])
        for term in found[start]:
            inside[term] -= 1
            if not inside[term]:
                del inside[term]
    start = (first + last) // 2 if best[0] else 0
    return start, ends[start]


def _sentences(whole: str, text: str) -> Iterator[Part]:
    """Yield where the sentences of a text are in it as one line."""
    end = 0
    for sentence in sentences(text):
        line = " ".join(sentence.split())
        start = whole.find(line, end)
        if line and start >= 0:
            end = start + len(line)
            yield start, end


def _lines(text: str) -> Iterator[Part]:
    start = 0
    for line in text.split("\n"):
        yield start, start + len(line)
        start += len(line) + 1


def _pieces(whole: str, part: Part, room: int, count: Count) -> Iterator[Part]:
    """Yield a part as it is, or its pieces if there is no room for it."""
    start, stop = part
    said = whole[start:stop]
    if count(said) <= room:
        yield part
        return
    for chunk in chunking.split(said, limit=max(room // _PIECES, 1), overlap=0, count=count):
        yield start + chunk.start, start + chunk.end
