"""Values that finding returns and ranking takes: candidates, and statistics of their scope."""

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
    # whether it is a question put to a bot, or an answer that says nothing, see `pipeline.recall.find.asides`
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
    # how far meaning is to be trusted: less where the embedding model does not know the chat's language
    trust: float = 1.0
    # the same for each other query
    others: Sequence["Statistics"] = ()
