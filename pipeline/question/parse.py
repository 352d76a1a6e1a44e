"""Parse a question: whom it names, which times, what it asks for, and what is left to search for.

Names of participants and dates say where to look, and are seldom in the messages sought: they leave the searched text
and return as preferences.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.question.temporal_anchor import Timed
from pipeline.text import answer_types, calendar, exact_match
from pipeline.text.caches import pattern
from pipeline.text.cues import AnswerType
from pipeline.text.exact_match import Verbatim

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# The most times of one question that count, the first ones named: each is compared with every candidate.
MAX_SPANS = 16
# Words that open a question more often than they are names.
_OPENERS = frozenset({"will", "may", "can", "might"})


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a question asks for, from its words."""

    # as it was asked
    text: str
    # without the participants' names and dates: what is embedded and looked up
    content: str
    # the participants that it names; none when it names them all
    speakers: frozenset[str]
    # what it asks for
    asks: frozenset[AnswerType]
    # the language that it is read in
    language: str
    # the times that it names, each from … until, the end not included, in order of time
    spans: tuple[tuple[datetime, datetime], ...]
    # the time that it counts from an event, once that was found in the talk
    event: Timed | None = None
    # what it puts in quotation marks
    phrases: tuple[Verbatim, ...] = ()
    # identifiers, addresses, paths and long numbers in it
    identifiers: tuple[Verbatim, ...] = ()

    @property
    def exact(self) -> tuple[Verbatim, ...]:
        """Return all pieces that a message may contain word for word."""
        return self.phrases + self.identifiers


def read(text: str, speakers: Sequence[str], earliest: datetime, now: datetime, language: str) -> Question:
    """Parse a question in a language; `speakers` are the participants' names.

    A date without a year means every year from `earliest` to `now`, in the time zone of `now`, from which "yesterday"
    and the like count. A name or date inside quotation marks or an identifier is neither.
    """
    parts = {part.casefold() for speaker in speakers for part in (speaker, *_WORD.findall(speaker))}
    exact, content, marked = exact_match.taken(text, parts)
    # their words stay in what is searched: "the camping trip last year" may be called that in the talk
    dated, undated = calendar.dates(content, earliest, now)
    spans = sorted(list(dict.fromkeys([*calendar.relative(content, now), *dated]))[:MAX_SPANS])
    content = undated
    named = set()
    # of the hundreds who may have spoken few stand in the question, and only these are worth a pattern
    folded = content.casefold()
    for speaker in speakers:
        for part in filter(lambda part: part.casefold() in folded, _WORD.findall(speaker)):
            if _is_in(part, content, text):
                named.add(speaker)
                content = _mention(part, text).sub(" ", content)
    exact = (exact + exact_match.numbers(content))[: exact_match.MAX_PIECES]
    content = exact_match.put_back(" ".join(content.split()), marked)
    return Question(
        text=text,
        content=content if _WORD.search(content) else text,
        speakers=frozenset(named) if len(named) < len(set(speakers)) else frozenset(),
        asks=answer_types.asked(text, language),
        language=language,
        spans=tuple(spans),
        phrases=tuple(piece for piece in exact if piece.kind == "phrase"),
        identifiers=tuple(piece for piece in exact if piece.kind != "phrase"),
    )


def named(text: str, names: Iterable[str], handles: Iterable[str] = ()) -> set[str]:
    """Return the names of which a text has a part, and the handles that it has as a whole, with or without `@`.

    >>> sorted(named("What does Ann's brother owe @ben.k?", ["Ann Lee", "Olek"], ["ben.k", "brother.ben"]))
    ['Ann Lee', 'ben.k']
    """
    folded = text.casefold()
    parts = [(name, part) for name in names for part in _WORD.findall(name)]
    parts += [(handle, handle) for handle in handles]
    return {name for name, part in parts if part.casefold() in folded and _is_in(part, text, text)}


def _is_in(name: str, content: str, question: str) -> bool:
    """Return whether what is left of a question names somebody by this name."""
    found = _mention(name, question).search(content) if len(name) > 1 else None
    return found is not None and not (found.start() == 0 and name.lower() in _OPENERS)


def _mention(name: str, question: str) -> re.Pattern[str]:
    spellings = "|".join(map(re.escape, sorted(_spellings(name, question), key=len, reverse=True)))
    return pattern(rf"@?\b(?:{spellings})\b(?:['’]s\b)?")


def _spellings(name: str, question: str) -> set[str]:
    """Return how the question would spell a name: lower case only if it has no capitals, as "will" is not Will."""
    return {name, name.capitalize()} | ({name.lower()} if question == question.lower() else set())
