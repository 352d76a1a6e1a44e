"""The weight of each feature of a message."""

from dataclasses import dataclass

OTHER_QUERY_WEIGHT = 0.8
"""Weight of a match with another query, where a match with the question counts 1."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weight of each feature, whose best value is 1.

    Those up to `number` are what `backscroll dev fit` prints, chosen on the sample chats of the part `fit`; the others
    fire for few questions and are chosen by hand.
    """

    # BM25 of the message read together with what was said around it
    words: float = 0.74
    # cosine of the message itself, as its share of the best
    meaning: float = 0.36
    # the best `meaning` in its session
    session: float = 0.68
    # the share of the question's words that occur in its session, squared: all of them seldom meet by chance
    session_words: float = 0.14
    # its distinct words, beside twice the mean: a long message holds more
    length: float = 0.58
    # the question names its speaker, or somebody whom it mentions
    named: float = 0.4
    # a question seldom holds the answer: the share of the message that does not ask
    tells: float = 0.06
    # a reply to somebody else's question often is the answer: how well that question matches this one
    answers: float = 0.22
    # the question asks when, and this message names a time
    when: float = 0.26
    # the question asks how many, how long or how much, and this message holds a number
    number: float = 0.3
    # the question asks how things stand now: the newest counts most
    latest: float = 0.25
    # the asker's affinity to those who spoke in its session
    affinity: float = 0.4
    # sent at the time that the question names, or that it counts from an event
    date: float = 1.2
    # the message contains what the question quotes: this outweighs all else together
    phrase: float = 6.0
    # the message contains an identifier, address, path or long number of the question
    exact: float = 1.0
