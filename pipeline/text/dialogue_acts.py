"""Recognize dialogue acts by wording: decisions, proposals, promises, unanswered questions; see `phrases.txt`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile

from pipeline.text.phrases import PHRASES


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One sentence of a conversation."""

    # position of its message among the messages
    message: int
    speaker: str
    text: str
    # its words as written, see `pipeline.text.sentences.words`
    words: tuple[str, ...]
    # the stems of those with meaning, see `pipeline.text.sentences.terms`
    terms: tuple[str, ...]
    # the message that this one answers, by its position, where the platform says so
    answers: int | None = None

    @cached_property
    def plain(self) -> str:
        """Return the text with the typewriter's apostrophe, as the patterns have it."""
        return self.text.replace("\u2019", "'")

    @cached_property
    def asks(self) -> bool:
        """Tell whether it is a question."""
        return _QUESTION.search(self.text) is not None


# A question mark with no word after it; read from the last word on, so that each run of marks is gone through once.
_QUESTION = re.compile(r"(?<!\W)[^\w?\uff1f\u061f]*+[?\uff1f\u061f]\W*+\Z")
_DECIDED = re.compile(PHRASES["decided"], re.IGNORECASE)
_HEDGED = re.compile(PHRASES["hedged"], re.IGNORECASE)
_AGREES = re.compile(
    r"^\W*(?:agreed|deal|done|sold|\+1|ok(?:ay)? (?:deal|decided|let'?s do (?:it|that))|let'?s do (?:it|that|this)"
    r"|works for me|no objections?|seconded|combinado|fechado|vale|d'accord|abgemacht|einverstanden)"
    r"\b\W*(?:\w+\W*){0,3}$",
    re.IGNORECASE,
)
_PROPOSES = re.compile(PHRASES["proposes"], re.IGNORECASE)
_PROMISES = re.compile(PHRASES["promises"], re.IGNORECASE)
_UNSURE = re.compile(PHRASES["unsure"], re.IGNORECASE)
_WONDERS = re.compile(PHRASES["wonders"], re.IGNORECASE)
_SMALL_TALK = re.compile(PHRASES["small talk"], re.IGNORECASE)
_ANSWER_WINDOW = 6  # messages after a question in which its answer is looked for
_FEWEST_TERMS = 2


def decides(sentence: Sentence) -> bool:
    """Tell whether the sentence states a decision: no question, not hedged, and about something."""
    return (
        not sentence.asks
        and bool(sentence.terms)
        and _DECIDED.search(sentence.plain) is not None
        and _HEDGED.search(sentence.plain) is None
    )


def agrees(sentence: Sentence) -> bool:
    """Tell whether the sentence only says yes to what was proposed before it."""
    return not sentence.asks and _AGREES.search(sentence.plain) is not None


def proposes(sentence: Sentence) -> bool:
    """Tell whether the sentence proposes something."""
    return len(sentence.terms) >= _FEWEST_TERMS and _PROPOSES.search(sentence.plain) is not None


def promises(sentence: Sentence) -> bool:
    """Tell whether somebody takes on a task in the sentence, or is asked to."""
    return bool(sentence.terms) and _PROMISES.search(sentence.plain) is not None


def stays_open(index: int, sentences: Sequence[Sentence]) -> bool:
    """Tell whether the sentence at `index` asks something that nobody answers later.

    An answer is another speaker's next message, or one that replies to it or has a word of it; no question, no "no
    idea".
    """
    asked = sentences[index]
    if not asked.asks:
        return len(asked.terms) >= _FEWEST_TERMS and _WONDERS.search(asked.plain) is not None
    if len(asked.terms) < _FEWEST_TERMS or _SMALL_TALK.search(asked.plain):
        return False
    after = list(
        takewhile(lambda s: s.message <= asked.message + _ANSWER_WINDOW, islice(sentences, index + 1, None))
    )
    if any(s.message == asked.message and not s.asks for s in after):
        return False  # who goes on talking after a question rarely waits for the answer
    replies = [s for s in after if s.speaker != asked.speaker]
    return not any(_answers(reply, asked, replies[0].message) for reply in replies)


def _answers(reply: Sentence, asked: Sentence, first: int) -> bool:
    """Tell whether a reply answers; `first` is the first message by another speaker after the question."""
    related = reply.answers == asked.message or not set(reply.terms).isdisjoint(asked.terms)
    if reply.asks or _UNSURE.search(reply.plain):
        return False
    return related or reply.message == first
