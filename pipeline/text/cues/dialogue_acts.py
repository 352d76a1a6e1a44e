"""Recognize dialogue acts by wording: promises and open questions; see `pipeline.text.cues`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.text.cues import Cues, cues_of, plain


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
    # of its chat
    language: str
    # the message that this one answers, by its position, where the platform says so
    answers: int | None = None

    @cached_property
    def plain(self) -> str:
        """Return the text as the patterns have it."""
        return plain(self.text)

    @property
    def cues(self) -> Cues:
        """Return the cues of its language."""
        return cues_of(self.language)

    @cached_property
    def asks(self) -> bool:
        """Tell whether it is a question."""
        return is_question(self.text)


# A question mark with no word after it; matched from the last word on, so that each run of marks is scanned once.
_QUESTION = re.compile(r"(?<!\W)[^\w?\uff1f\u061f]*+[?\uff1f\u061f]\W*+\Z")
_ANSWER_WINDOW = 6  # messages after a question in which its answer is looked for
_FEWEST_TERMS = 2


def is_question(sentence: str) -> bool:
    """Tell whether a sentence has a question mark at its end."""
    return _QUESTION.search(sentence) is not None


def promises(sentence: Sentence) -> bool:
    """Tell whether somebody takes on a task in the sentence, or is asked to."""
    return bool(sentence.terms) and sentence.cues.promises.are_in(sentence.plain)


def stays_open(index: int, sentences: Sequence[Sentence]) -> bool:
    """Tell whether the sentence at `index` asks something that nobody answers later.

    An answer is another speaker's next message, or one that replies to it or has a word of it; no question, no "no
    idea".
    """
    question = sentences[index]
    if not question.asks:
        return len(question.terms) >= _FEWEST_TERMS and question.cues.wonders.are_in(question.plain)
    if len(question.terms) < _FEWEST_TERMS or question.cues.small_talk.are_in(question.plain):
        return False
    first: int | None = None
    for later in (sentences[i] for i in range(index + 1, len(sentences))):
        if later.message > question.message + _ANSWER_WINDOW:
            break
        if later.message == question.message and not later.asks:
            return False  # a speaker who goes on after a question rarely waits for the answer
        if later.speaker != question.speaker:
            first = later.message if first is None else first
            if _answers(later, question, first):
                return False
    return True


def _answers(reply: Sentence, question: Sentence, first: int) -> bool:
    """Tell whether a reply answers; `first` is the first message by another speaker after the question."""
    if reply.asks or reply.cues.unsure.are_in(reply.plain):
        return False
    return (
        reply.message == first
        or reply.answers == question.message
        or not set(reply.terms).isdisjoint(question.terms)
    )
