"""Candidates and the statistics of their scope, as passed from finding to ranking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pipeline.recall.ask.weights import OTHER_QUERY_WEIGHT
from pipeline.text.cues.message_cues import MessageCues
from schemas.sessions import RepliedTo


class QueryMatch(NamedTuple):
    """How a message matches another query than the question; the fields are those of `Candidate`."""

    terms: Mapping[str, int] = {}
    cosine: float | None = None


class Candidate(NamedTuple):
    """A message that may answer, or a neighbour of one; a tuple, which is created faster than a dataclass."""

    id: int
    # its session; 0 until it is placed in one
    session: int
    # its position in its session: the next message is 1 later, omitted messages leave a gap
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
    # cosine to the question's vector; None until it is embedded
    cosine: float | None
    # what its text alone says
    cues: MessageCues
    # the asker's mean affinity to those who spoke in its session, from 0 to 1
    affinity: float = 0.0
    # the message of its chat that it answers, if that is stored
    answered: RepliedTo | None = None
    # author of a forwarded text; empty if unknown; None if the speaker's own
    forwarded_from: str | None = None
    # whether it is a question put to a bot, or an answer that says nothing, see `pipeline.recall.find.asides`
    aside: bool = False
    # of each other query
    others: Sequence[QueryMatch] = ()
    # set by ranking: for `keywords` and `vectors`, the number from 1 of the other query that matches better than the
    # question
    found_by: Mapping[str, int] = {}

    @property
    def best_cosine(self) -> float | None:
        """The cosine to the question, or `OTHER_QUERY_WEIGHT` times that to another query, if that is more."""
        if not self.others:
            return self.cosine
        cosines = [OTHER_QUERY_WEIGHT * other.cosine for other in self.others if other.cosine is not None]
        return max([*cosines, *([] if self.cosine is None else [self.cosine])], default=None)


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Statistics of the whole scope that the candidates come from."""

    messages: int
    # distinct lexemes of a message
    mean_length: float
    # the number of messages with each of the question's lexemes; 0 for those in none
    document_frequency: Mapping[str, int]
    mean_cosine: float = 0.0
    # weight of meaning: less if the embedding model does not know the chat's language
    trust: float = 1.0
    # the same for each other query
    others: Sequence["Statistics"] = ()
