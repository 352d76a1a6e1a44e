"""Excerpt the part of a long text that a question is about, as whole sentences or whole lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from pipeline.text import tokens, truncate
from pipeline.text.fencing import harmless, visible
from pipeline.text.sentences import sentences, terms, words
from pipeline.text.tokens import Count, estimate, estimate_line

Part = tuple[int, int]
"""Start and end of a sentence or line."""
# A sentence that does not fit is split into pieces of this share of the room.
_PIECES = 2
# Weight of a word in the first part: it is the topic of the whole text.
_OF_TOPIC = 0.25
# Other forms of a word begin as it does, with two thirds of its letters, and no fewer than these.
_SHORTEST = 3


class Wanted(NamedTuple):
    """Words to search for."""

    terms: frozenset[str]
    language: str
    # the beginnings of these words and their other forms: a quick check, as most texts contain none
    beginnings: tuple[str, ...]

    @classmethod
    def of(cls, question: str, language: str) -> "Wanted":
        """Return the content words of a question in a language."""
        stems = frozenset(terms(words(question), language))
        return cls(stems, language, tuple(term[: max(-(-2 * len(term) // 3), _SHORTEST)] for term in stems))

    def held(self, text: str) -> frozenset[str]:
        """Return the wanted terms that a text contains."""
        return self.terms.intersection(terms(self._words(text), self.language))

    def begun(self, text: str) -> frozenset[str]:
        """Return the beginnings with which words of a text begin.

        >>> sorted(Wanted.of("wann darf ich waschen?", "german").begun("Die Waschmaschine läuft bis 20 Uhr."))
        ['wasch']
        """
        lower = self._words(text)
        return frozenset(start for start in self.beginnings if any(word.startswith(start) for word in lower))

    def _words(self, text: str) -> Sequence[str]:
        """Return the words of a text in lower case; none if it can contain no wanted word."""
        low = text.lower().replace("\u2019", "'")
        return words(low) if any(beginning in low for beginning in self.beginnings) else ()


def displayed(
    text: str, wanted: Wanted, tokens: int, count: Count = estimate_line, *, in_lines: bool = False
) -> str:
    """Return a text as a context shows it, within `tokens`: a longer one is excerpted about the question.

    On one line, but for code, and for what is to keep its lines (`in_lines`).

    >>> ferry = Wanted.of("When does the ferry go?", "english")
    >>> displayed("Tea is at five.\\n\\nThe ferry goes at eight.\\nBring a coat.", ferry, 12)
    '… The ferry goes at eight. …'
    """
    whole = truncate.in_lines(text) if in_lines else truncate.displayed(text)
    # a token is a character at least, and a line's end
    if 2 * len(whole) < tokens or count(whole) <= tokens:
        return whole
    in_lines = "\n" in whole
    return harmless(best_part(whole if in_lines else visible(text), wanted, tokens, count, in_lines=in_lines))


def best_part(
    text: str, wanted: Wanted, tokens: int, count: Count = estimate, *, in_lines: bool = False
) -> str:
    """Return the run of sentences that holds most of the wanted words, within `tokens` by `count`.

    A word counts the less, the more sentences hold it, and little if the first one does: it is the topic of the text.
    Other forms of a word count half of it.

    On one line, or `in_lines`: then a line is what sentences are elsewhere, but for a long one. With an ellipsis where
    something is left out. Where no word of the question occurs it is the beginning.

    >>> ferry = Wanted.of("When does the ferry go?", "english")
    >>> best_part("Tea is at five. The ferry goes at eight. Bring a coat.", ferry, 9)
    '… The ferry goes at eight. …'
    """
    whole = text if in_lines else " ".join(text.split())
    if count(whole) <= tokens:
        return whole
    room = tokens - 2 * count(truncate.ELLIPSIS)
    if room < 1:
        return truncate.within_tokens(whole, tokens, count)
    parts = [
        piece
        for part in (_lines(whole, room, count) if in_lines else _sentences(whole, text))
        for piece in _pieces(whole, part, room, count)
    ]
    first, end = _best_run(whole, parts, wanted, room, count)
    before = truncate.ELLIPSIS + _gap(whole, parts, first) if first else ""
    while end > first:
        after = _gap(whole, parts, end) + truncate.ELLIPSIS if end < len(parts) else ""
        excerpt = before + whole[parts[first][0] : parts[end - 1][1]] + after
        if count(excerpt) <= tokens:
            return excerpt
        end -= 1
    start, stop = parts[first]
    return truncate.within_tokens(before + whole[start:stop], tokens, count)


def _gap(whole: str, parts: Sequence[Part], place: int) -> str:
    """Return the gap between a part and the one before: a space, or a line end with the next indentation."""
    space = whole[parts[place - 1][1] : parts[place][0]]
    return space[space.rindex("\n") :] if "\n" in space else " "


def _best_run(whole: str, parts: Sequence[Part], wanted: Wanted, room: int, count: Count) -> tuple[int, int]:
    """Return the start and end of the run with most of the wanted words: the middle one of equal runs."""
    texts = [whole[start:stop] for start, stop in parts]
    held = [wanted.held(part) | wanted.begun(part) for part in texts]
    weights = {
        term: (_OF_TOPIC if term in held[0] else 1.0) / times for term, times in Counter(chain(*held)).items()
    }
    costs = [count(part) for part in texts]
    inside: Counter[str] = Counter()
    spent = hits = end = 0
    best, first, last = (0.0, 0), 0, 0
    ends: list[int] = []
    for start in range(len(parts)):
        while end < len(parts) and (end == start or spent + costs[end] <= room):
            spent, hits, end = spent + costs[end], hits + len(held[end]), end + 1
            inside.update(held[end - 1])
        ends.append(end)
        # summed in a fixed order, so that equal sets of words have equal sums
        worth = (sum(weights[term] for term in sorted(inside)), hits)
        if worth > best:
            best, first, last = worth, start, start
        elif worth == best and last == start - 1:
            last = start
        spent, hits = spent - costs[start], hits - len(held[start])
        for term in held[start]:
            inside[term] -= 1
            if not inside[term]:
                del inside[term]
    start = (first + last) // 2 if best[0] else 0
    return start, ends[start]


def _sentences(whole: str, text: str) -> Iterator[Part]:
    """Yield the spans of a text's sentences in the text on one line."""
    return _places(whole, (" ".join(sentence.split()) for sentence in sentences(text)))


def _lines(text: str, room: int, count: Count) -> Iterator[Part]:
    """Yield the spans of a text's lines without indentation; for a line over half the room, of its sentences."""
    for start, stop in _places(text, (line.strip() for line in text.split("\n"))):
        line = text[start:stop]
        if 2 * count(line) <= room:
            yield start, stop
        else:
            for begin, end in _places(line, sentences(line)):
                yield start + begin, start + end


def _places(whole: str, texts: Iterable[str]) -> Iterator[Part]:
    """Yield the spans of these texts, one after the other."""
    end = 0
    for part in texts:
        start = whole.find(part, end)
        if part and start >= 0:
            end = start + len(part)
            yield start, end


def _pieces(whole: str, part: Part, room: int, count: Count) -> Iterator[Part]:
    """Yield a part, or its pieces if it does not fit."""
    start, stop = part
    text = whole[start:stop]
    if count(text) <= room:
        yield part
        return
    for chunk in tokens.split_chunks(text, limit=max(room // _PIECES, 1), overlap=0, count=count):
        yield start + chunk.start, start + chunk.end
