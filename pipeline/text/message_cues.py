"""Read off a message's text all that ranking needs of it, once, so that it can be stored with the message."""

from typing import NamedTuple

from pipeline.text import addressing, answer_types, dialogue_acts
from pipeline.text.cues import Cues, cues_of, plain
from pipeline.text.sentences import sentences

# Who only agrees uses few words.
_LONGEST_YES = 60


class MessageCues(NamedTuple):
    """What a message is, by its text only."""

    # the share of it that asks
    asks: float
    # the shares of I and we, and of you, among its words
    first_person: float
    second_person: float
    has_time: bool
    has_number: bool
    # it states a decision
    decides: bool
    # it only says yes to what was proposed before it
    agrees: bool
    # it only says that it has no answer
    says_nothing: bool


def read(text: str, language: str, *, of_a_bot: bool = False) -> MessageCues:
    """Return the cues of a message of a chat in this language; a bot says nothing in more words than people do.

    >>> read("ok, we take the 18:30 train then", "english").decides, read("wann kommst du", "german").asks
    (True, 1.0)
    """
    said, cues = plain(text), cues_of(language)
    words = answer_types.words_of(said)
    first, second = answer_types.shares_of_persons(words, said, cues)
    return MessageCues(
        asks=answer_types.share_that_asks(said, cues),
        first_person=first,
        second_person=second,
        has_time=answer_types.holds_time(words, said, cues),
        has_number=answer_types.holds_number(words, said, cues),
        decides=decides(text, said, cues),
        agrees=len(said) <= _LONGEST_YES and cues.agrees.search(said) is not None,
        says_nothing=addressing.says_nothing(text, language, of_a_bot=of_a_bot),
    )


def decides(text: str, said: str, cues: Cues) -> bool:
    """Tell whether a message states a decision in one of its sentences; `said` is the text as `plain` returns it."""
    return cues.decided.may_be_in(said) and any(
        not dialogue_acts.is_question(sentence) and dialogue_acts.states_decision(plain(sentence), cues)
        for sentence in sentences(text)
    )
