"""Values that ranking returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.recall.find.candidate import Candidate
from pipeline.recall.find.candidates import CandidateSet
from pipeline.recall.find.memory_search import RetrievedMemory
from pipeline.recall.find.sessions import RetrievedSession, RetrievedWeek
from pipeline.recall.relevance.evidence import By, Evidence
from schemas.sessions import Message


class Scored(NamedTuple):
    """A candidate, its score, and the score's parts."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float]


class Ranking(NamedTuple):
    """Ranked messages, best first, and the candidates they come from."""

    hits: list[Scored]
    retrieved: CandidateSet


@dataclass(frozen=True, kw_only=True)
class Narrowing:
    """The sessions that fit well enough, the next best ones, and the ranked messages of the former."""

    chosen: Sequence[RetrievedSession]
    others: Sequence[RetrievedSession]
    # only messages of the chosen sessions
    ranking: Ranking


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """Everything found for a context, ranked."""

    # None: nothing was searched
    retrieved: CandidateSet | None = None
    ranked: Sequence[Scored] = ()
    sessions: Sequence[RetrievedSession] = ()
    # None: the messages of all sessions are shown
    narrowing: Narrowing | None = None
    # newest first
    recent: Sequence[Message] = ()
    memories: Sequence[RetrievedMemory] = ()
    weeks: Sequence[RetrievedWeek] = ()
    # all sessions of the time that the question asks to sum up, in order
    overview: Sequence[RetrievedSession] = ()
    # number of memories that may not be shown here; counted for an explanation
    hidden_memories: int = 0
    # messages that rank lower only because they are too similar to better ones
    passed_over: frozenset[int] = frozenset()
    # whether the chat knows; None: not judged
    evidence: Evidence | None = None
    # what memories and passages are judged by
    judged_by: By = "words"
    # what could not be done
    degraded: Sequence[str] = ()

    @property
    def fell_back(self) -> bool:
        """Whether no session fits well enough, so that messages of all of them are shown."""
        return self.narrowing is not None and not self.narrowing.chosen
