"""Recognize dialogue acts by wording: promises, open questions, and what people tell a bot to keep or to drop."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from re import Match
from typing import Literal, NamedTuple, get_args

from pipeline.text import cues
from pipeline.text.caches import pattern
from pipeline.text.cues import Cues, Phrases, Words, answer_types, cues_of, plain, read
from pipeline.text.languages import LANGUAGES


@dataclass(frozen=True, kw_only=True)
class Sentence:
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


def is_decided(sentence: Sentence) -> bool:
    """Tell whether the sentence says that something is decided."""
    return not sentence.asks and sentence.cues.decides.are_in(sentence.plain)


def asks_somebody(sentence: Sentence, called: Container[str]) -> bool:
    """Tell whether a sentence asks something that is more than small talk, with or without a mark.

    Who is asked may be `called` first, by a word in lower case.
    """
    first, _, rest = sentence.plain.partition(" ")
    asking = rest if first.strip("@,.:") in called else sentence.plain
    return (
        len(sentence.words) > 1
        and not sentence.cues.small_talk.are_in(asking)
        and answer_types.share_that_asks(asking, sentence.cues) > 0
    )


def repeats(question: Sentence, earlier: Sentence) -> bool:
    """Tell whether a sentence has more than half of the words with meaning of an earlier one."""
    return 2 * len({*question.terms} & {*earlier.terms}) > len({*earlier.terms})


def is_settled(index: int, sentences: Sequence[Sentence], own: Container[int]) -> bool:
    """Tell whether the question at `index` to the person whose messages are `own` needs no answer any more.

    They have answered: they say something soon after it, reply to it, or use a word of it later. Or another has: by a
    reply, or soon with most of its words. Or who asked says that it is settled.
    """
    question = sentences[index]
    for later in sentences[index + 1 :]:
        if later.message == question.message or later.asks:
            continue
        is_soon = later.message <= question.message + _ANSWER_WINDOW
        is_reply = later.answers == question.message
        if later.message in own:
            settles = is_soon or is_reply or not {*later.terms}.isdisjoint(question.terms)
        elif not (is_soon or is_reply) or later.cues.unsure.are_in(later.plain):
            settles = False
        else:
            by_asker = later.speaker == question.speaker and later.cues.settled.are_in(later.plain)
            settles = (is_reply and bool(later.terms)) or (is_soon and (by_asker or repeats(later, question)))
        if settles:
            return True
    return False


RequestKind = Literal["remember", "call_me", "forget", "wrong"]
"""Keep a statement, call somebody by a name, forget a statement, call the last one wrong."""
KINDS: tuple[RequestKind, ...] = get_args(RequestKind)


class BotRequest(NamedTuple):
    """A request to a bot that a text may begin with."""

    kind: RequestKind
    # with the groups `cue`, the request as it is worded, and `what` it is about (None: nothing follows)
    match: Match[str]
    # words of its language such as `we`, of those who speak for a group
    us: Words


def request_candidates(text: str) -> Iterator[BotRequest]:
    """Yield the requests that a text, as `plain` returns it, may begin with.

    >>> [(request.kind, request.match["what"]) for request in request_candidates("please remember that i am vegan")]
    [('remember', 'i am vegan')]
    """
    for by_kind, us in _requests():
        for kind, ways in by_kind.items():
            if match := ways.begun(text):
                yield BotRequest(kind, match, us)


def request_phrases(language: str) -> Mapping[RequestKind, Phrases]:
    """Return how people of a language tell a bot each kind of request."""
    source = read(language)
    return {kind: Phrases(cues.request(source, text) for text in source["kept"][kind]) for kind in KINDS}


@cache
def _requests() -> tuple[tuple[Mapping[RequestKind, Phrases], Words], ...]:
    return tuple((request_phrases(language), _us(language)) for language in LANGUAGES)


def _us(language: str) -> Words:
    us = read(language)["kept"]["us"].split()
    if read(language).get("spaced", True):
        return Words(whole=frozenset(us))
    return Words(whole=frozenset(), pieces=pattern("|".join(us)))
