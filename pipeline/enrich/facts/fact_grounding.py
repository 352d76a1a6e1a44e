"""Check that the transcript states a model's fact."""

import re
from collections.abc import Sequence
from itertools import chain

from pipeline.enrich.summaries.answers import foreign_link, stems
from pipeline.text.calendars import calendar
from pipeline.text.sentences import words
from schemas.sessions import Message

MIN_FOUND_SHARE = 0.3
"""Share of a fact's content words that must occur in its messages and those beside them: a true fact in the model's
own words has about two thirds, an invented one hardly any."""
# Messages of fewer content words count as answers to the one before them.
_TELLING_TERMS = 3
_YEARS = range(1900, 2201)
# A number up to this may have been written in words, or be part of a date.
_MAX_UNSAID_NUMBER = 31
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_TIME = re.compile(r"\d{1,2}:\d{2}")
# A Latin name in a script without spaces is a word of its own.
_SCRIPTS_MEET = re.compile("(?<=[A-Za-z0-9])(?=[\u0e00-\u9fff])")


class Transcript:
    """The messages of a transcript, in order, and their words."""

    def __init__(self, messages: Sequence[Message], language: str = "english") -> None:
        self._language = language
        self._messages = messages
        self._lines = [f"{message.speaker}: {message.content}" for message in messages]
        self._words = _folded("\n".join(self._lines))

    def names(self, name: str) -> bool:
        """Tell whether all words of a name occur, whatever their case."""
        name_words = _folded(name)
        return bool(name_words) and name_words <= self._words

    def states(self, content: str, subject: str, evidence: Sequence[int]) -> bool:
        """Tell whether a fact's words, numbers and links come from these messages and those beside them."""
        near = sorted({index for place in evidence for index in (place - 1, place, place + 1)})
        lines = [self._lines[index] for index in near if 0 <= index < len(self._lines)]
        text = "\n".join(lines)
        numbers = frozenset(_NUMBER.findall(text))
        unsaid = frozenset(_NUMBER.findall(content)) - numbers
        if foreign_link(content, text) or not all(map(_may_be_unsaid, unsaid)):
            return False
        at = self._messages[evidence[0]].sent_at
        _, undated = calendar.dates(content, at, at, self._language)
        names = (subject, *(self._messages[index].speaker for index in evidence))
        fact_terms = stems(_SCRIPTS_MEET.sub(" ", undated)).difference(unsaid, *map(stems, names))
        grounded = fact_terms & (stems(text) | numbers)
        if not grounded or len(grounded) < MIN_FOUND_SHARE * len(fact_terms):
            return False
        cited = frozenset(chain.from_iterable(stems(self._messages[index].content) for index in evidence))
        return bool(fact_terms & cited) or len(cited) < _TELLING_TERMS


def _may_be_unsaid(number: str) -> bool:
    """Tell whether a number may come from a computed date or time, or was written in words."""
    if _TIME.fullmatch(number):
        return True
    return number.isdecimal() and (int(number) <= _MAX_UNSAID_NUMBER or int(number) in _YEARS)


def _folded(text: str) -> frozenset[str]:
    return frozenset(word.casefold().replace("\u2019", "'").removesuffix("'s") for word in words(text))
