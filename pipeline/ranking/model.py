"""Values that ranking takes and returns: candidates, statistics of their scope, weights, scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from schemas.sessions import RepliedTo


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weight of each feature, whose best value is 1.

    Chosen on three LoCoMo conversations, whole and cut into short messages, and the sample chats; rounded by hand.
    """

    # BM25 of the message read together with what was said around it, the less the less of the question it covers
    words: float = 1.6
    # what that gains by words of much the same meaning
    related: float = 1.0
    # cosine of the message itself, as its share of the best
    meaning: float = 0.5
    # the mean of that over what was said around it
    meaning_near: float = 0.2
    # the best of that in the session: the best message speaks for the session
    meaning_session: float = 0.5
    # the question names this speaker
    speaker: float = 0.25
    # a question seldom holds the answer: the share of the message that asks
    asks: float = -0.3
    # what follows somebody else's question often is the answer: how well that question matches this one
    answers: float = 0.2
    # asked when, this message says when
    when: float = 0.4
    # asked how many, how long or how much, this message holds a number
    number: float = 0.2
    # asked where, this message names a place
    where: float = 0.25
    # asked who, this message tells of somebody
    who: float = 0.25
    # asked how things stand now, the newest counts most
    latest: float = 0.5
    # people tell of themselves: the share of I and we, less that of you
    about_self: float = 0.6
    # asked what was decided, this message decides it
    decision: float = 4.0
    # a question that was put to a bot, or an answer that says nothing, ranks behind all else
    aside: float = -10.0
    # linked to somebody or something that the question names, with `entity_hops`
    linked: float = 0.3
    # sent at the time that the question names, or that it counts from an event
    date: float = 1.2
    # the message contains what the question quotes: this outweighs all else together
    phrase: float = 6.0
    # the message contains an identifier, address, path or long number of the question
    exact: float = 1.0
    # what a message's words still count one step later, and one step earlier, from 0 to 1
    decay: float = 0.7
    decay_back: float = 0.4
    # the step between two messages of one speaker in a row; a change of speaker is 1
    burst_step: float = 0.7
    # a message of this many distinct words has half the substance that any could have: "haha" answers nothing
    half_substance: float = 1.0
    date_half_life_days: float = 5.0


OTHER_QUERY_WEIGHT = 0.8
"""What a match with another query counts, where one with the question counts 1."""


class QueryMatch(NamedTuple):
    """How a message matches another query than the question; the fields are those of `Candidate`."""

    terms: Mapping[str, int] = {}
    related: Mapping[str, float] = {}
    cosine: float | None = None


class Candidate(NamedTuple):
    """A message that may answer, or is beside one that may; a tuple, which is made faster than a dataclass."""

    id: int
    # the session that it is in; 0 as long as it has not been placed
    session: int
    # among the candidates of its session, in order from 0
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
    # for the question's lexemes, how much of what may stand in their place is in it, see `pipeline.question.thesaurus`
    related: Mapping[str, float] = {}
    # the message of its chat that it answers, where that is there
    answered: RepliedTo | None = None
    # whether it is a question put to a bot, or an answer that says nothing, see `pipeline.ranking.asides`
    aside: bool = False
    # of each other query
    others: Sequence[QueryMatch] = ()
    # once it is ranked: for `keywords` and `vectors`, the number from 1 of the other query that finds it better than
    # the question
    found_by: Mapping[str, int] = {}
    # how well it is linked to what the question names, from 0 to 1, and by what: `Lena by ‹Porto›`
    linked: float = 0.0
    linked_to: str = ""

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
    # the same for each other query
    others: Sequence["Statistics"] = ()


class Scored(NamedTuple):
    """A candidate, its score, and the score's parts."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float]
