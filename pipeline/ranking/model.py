"""Values that ranking takes and returns: candidates, statistics of their scope, weights, scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pipeline.text.message_cues import MessageCues
from schemas.sessions import RepliedTo


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
    # the best of that in its session
    session: float = 0.68
    # the share of the question's words that occur in its session, squared: all of them seldom meet by chance
    session_words: float = 0.14
    # its distinct words, beside twice the mean: a long message holds more
    length: float = 0.58
    # the question names its speaker, or somebody whom it mentions
    named: float = 0.4
    # a question seldom holds the answer: the share of the message that does not ask
    tells: float = 0.06
    # what answers somebody else's question often is the answer: how well that question matches this one
    answers: float = 0.22
    # asked when, this message says when
    when: float = 0.26
    # asked how many, how long or how much, this message holds a number
    number: float = 0.3
    # asked how things stand now, the newest counts most
    latest: float = 0.25
    # the asker's affinity to those who spoke in its session
    affinity: float = 0.4
    # sent at the time that the question names, or that it counts from an event
    date: float = 1.2
    # the message contains what the question quotes: this outweighs all else together
    phrase: float = 6.0
    # the message contains an identifier, address, path or long number of the question
    exact: float = 1.0


OTHER_QUERY_WEIGHT = 0.8
"""What a match with another query counts, where one with the question counts 1."""


class QueryMatch(NamedTuple):
    """How a message matches another query than the question; the fields are those of `Candidate`."""

    terms: Mapping[str, int] = {}
    cosine: float | None = None


class Candidate(NamedTuple):
    """A message that may answer, or is beside one that may; a tuple, which is made faster than a dataclass."""

    id: int
    # the session that it is in; 0 as long as it has not been placed
    session: int
    # its order in its session: the next message is 1 later, what is left out in between leaves a gap
    place: int
    external_id: str
    speaker: str
    role: str
    text: str
    sent_at: datetime
    # the question's lexemes in it, and how often
    terms: Mapping[str, int]
    # distinct lexemes
    length: int
    # to the question's vector; None while it has none
    cosine: float | None
    # what it is by its text only
    cues: MessageCues
    # the asker's mean affinity to those who spoke in its session, from 0 to 1
    affinity: float = 0.0
    # the message of its chat that it answers, where that is there
    answered: RepliedTo | None = None
    # whose words it passes on; empty: nobody knows; None: they are the speaker's own
    forwarded_from: str | None = None
    # whether it is a question put to a bot, or an answer that says nothing, see `pipeline.ranking.asides`
    aside: bool = False
    # of each other query
    others: Sequence[QueryMatch] = ()
    # once it is ranked: for `keywords` and `vectors`, the number from 1 of the other query that finds it better than
    # the question
    found_by: Mapping[str, int] = {}

    @property
    def best_cosine(self) -> float | None:
        """The cosine to the question, or `OTHER_QUERY_WEIGHT` times that to another query, if that is more."""
        if not self.others:
            return self.cosine
        others = [OTHER_QUERY_WEIGHT * other.cosine for other in self.others if other.cosine is not None]
        return max([*others, *([] if self.cosine is None else [self.cosine])], default=None)


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Statistics of the whole scope that the candidates come from."""

    messages: int
    # distinct lexemes of a message
    mean_length: float
    # the number of messages with each of the question's lexemes; 0 for those in none
    document_frequency: Mapping[str, int]
    mean_cosine: float = 0.0
    # how far meaning is to be trusted: less where the embedding model does not know the chat's language
    trust: float = 1.0
    # the same for each other query
    others: Sequence["Statistics"] = ()


class Scored(NamedTuple):
    """A candidate, its score, and the score's parts."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float]
