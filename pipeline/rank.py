"""Rank a chat's messages, and its sessions, for a question: what the words say, what they mean, how people talk.

Every score is a sum of parts, each switched off by its weight. Nothing is looked at alone: a message is read with
what was said around it, each neighbour counting less by its distance (`decay` to the power of the steps between
them). The steps are short inside one person's run of messages, so that a burst of five short ones is read much as
one long one, and infinite between sessions. One such kernel serves words and vectors alike.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pipeline.question import MONTHS, Question

# BM25's constants as Robertson and Zaragoza give them (The Probabilistic Relevance Framework, 2009).
K1 = 1.2
B = 0.75

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SELF = frozenset(
    "i me my mine myself we us our ours i'm i've i'd i'll we're we've we'd we'll im ive".split()
)
_OTHER = frozenset("you your yours yourself you're you've you'd you'll u ur youre".split())
_TIME_WORDS = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|last|next|since|recently|soon|weekend|weeks?|months?|years?|days?"
    r"|this (?:morning|week|month|year|past)|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    rf"|{'|'.join(MONTHS)}|\d{{4}})\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What each piece of evidence adds, where the best keyword match in its context adds `words`.

    Chosen on three LoCoMo conversations, rounded by hand; the optimum is flat (a third more or less of any but
    `words` moves the figures by a point at most).
    """

    # BM25 of the message read together with what was said around it
    words: float = 1.0
    # cosine of the message itself, as its share of the best
    meaning: float = 0.5
    # the mean of that over what was said around it
    meaning_near: float = 0.3
    # the best of that in the session: the best message speaks for the session
    meaning_session: float = 0.4
    # the question names this speaker
    speaker: float = 0.25
    # a question seldom holds the answer
    asks: float = -0.2
    # what follows somebody else's question often is the answer
    answers: float = 0.1
    # asked when, this message says when
    when: float = 0.4
    # people tell of themselves: the share of I and we, less that of you
    about_self: float = 0.75
    # sent at the time that the question names
    date: float = 0.8
    # what a message's words still count one step away, from 0 to 1
    decay: float = 0.6
    # the step between two messages of one speaker in a row; a change of speaker is 1
    burst_step: float = 0.7
    date_half_life_days: float = 5.0


class Candidate(NamedTuple):
    """A message that may answer, or stands beside one that may.

    A tuple, not a dataclass: a thousand of them are made for each query, in a third of the time.
    """

    id: int
    # the session that it lies in; 0 as long as it has not been placed
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


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What the whole scope is like that the candidates come from."""

    messages: int
    # distinct lexemes of a message
    mean_length: float
    # in how many messages each of the question's lexemes stands
    document_frequency: Mapping[str, int]
    mean_cosine: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A candidate with its score, and what it is made of."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float]


def rank(
    question: Question, candidates: Sequence[Candidate], statistics: Statistics, weights: Weights
) -> list[Scored]:
    """The candidates, best first; equal ones newer first. Takes time in proportion to their number."""
    ordered = sorted(candidates, key=lambda c: (c.session, c.place))
    carry = [_carry(one, other, weights) for one, other in pairwise(ordered)]
    mass = _smooth([1.0] * len(ordered), carry)
    words = _normalized(_words(ordered, carry, statistics, weights))
    meaning = _meaning(ordered, statistics.mean_cosine)
    near = _smooth(meaning, carry)
    best: dict[int, float] = {}
    for candidate, value in zip(ordered, meaning, strict=True):
        best[candidate.session] = max(best.get(candidate.session, value), value)
    answers = _answers(ordered)
    scored = []
    for i, candidate in enumerate(ordered):
        parts = {
            "words": weights.words * words[i],
            "meaning": weights.meaning * meaning[i],
            "meaning_near": weights.meaning_near * near[i] / mass[i],
            "meaning_session": weights.meaning_session * best[candidate.session],
            "speaker": weights.speaker * (candidate.speaker in question.speakers),
            "asks": weights.asks * _asks(candidate.text),
            "answers": weights.answers * answers[i],
            "when": weights.when * (question.asks_when and _says_when(candidate.text)),
            "about_self": weights.about_self * _about_self(candidate.text),
            "date": weights.date * _date_fit(candidate.sent_at, question, weights.date_half_life_days),
        }
        scored.append(Scored(candidate=candidate, score=sum(parts.values()), parts=parts))
    return sorted(scored, key=lambda s: (-s.score, -s.candidate.sent_at.timestamp(), -s.candidate.id))


def rank_sessions(scored: Sequence[Scored]) -> list[tuple[int, Scored]]:
    """`(session, its best message)`, best first: the best turn of the session speaks for the session.

    `scored` is best first. Messages that are not placed yet speak for none.
    """
    best: dict[int, Scored] = {}
    for hit in scored:
        if hit.candidate.session:
            best.setdefault(hit.candidate.session, hit)
    return list(best.items())


def _carry(one: Candidate, other: Candidate, weights: Weights) -> float:
    """What still counts of one candidate at the next: `decay` to the steps between them, 0 across sessions."""
    if one.session != other.session:
        return 0.0
    return math.pow(weights.decay, weights.burst_step if one.speaker == other.speaker else 1.0)


def _smooth(values: Sequence[float], carry: Sequence[float]) -> list[float]:
    """Each value plus what every other carries to it: one pass forward and one back."""
    forward = list(values)
    for i, factor in enumerate(carry):
        forward[i + 1] += factor * forward[i]
    total, carried = list(forward), 0.0
    for i in range(len(carry) - 1, -1, -1):
        carried = carry[i] * (values[i + 1] + carried)
        total[i] += carried
    return total


def _words(
    ordered: Sequence[Candidate], carry: Sequence[float], statistics: Statistics, weights: Weights
) -> list[float]:
    """BM25 of every candidate with its surroundings as one text.

    Frequencies and lengths are sums weighted by distance, as those of fields are in BM25F (Robertson, Zaragoza
    and Taylor, Simple BM25 Extension to Multiple Weighted Fields, 2004).
    """
    total = statistics.messages
    lengths = _smooth([float(c.length) for c in ordered], carry)
    # a message amid neighbours of one step each gathers (1 + decay) / (1 - decay) times the mean length
    reach = (1 + weights.decay) / max(1 - weights.decay, 0.01)
    usual = max(statistics.mean_length, 1e-9) * reach
    norms = [K1 * (1 - B + B * length / usual) for length in lengths]
    scores = [0.0] * len(ordered)
    for term, frequency in statistics.document_frequency.items():
        idf = math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
        for i, tf in enumerate(_smooth([float(c.terms.get(term, 0)) for c in ordered], carry)):
            if tf > 0:
                scores[i] += idf * tf * (K1 + 1) / (tf + norms[i])
    return scores


def _meaning(ordered: Sequence[Candidate], mean: float) -> list[float]:
    """`(cosine - mean) / (best - mean)`: 0 for the scope's average and for what has no vector, 1 for its best."""
    span = max((c.cosine for c in ordered if c.cosine is not None), default=mean) - mean
    return [(c.cosine - mean) / span if c.cosine is not None and span > 1e-9 else 0.0 for c in ordered]


def _normalized(scores: list[float]) -> list[float]:
    top = max(scores, default=0.0)
    return [score / top for score in scores] if top > 0 else scores


def _asks(text: str) -> bool:
    return text.rstrip().endswith("?")


def _answers(ordered: Sequence[Candidate]) -> list[bool]:
    """For each message, whether the run of somebody else's right before its speaker's run asked something."""
    flags: list[bool] = []
    asked_before = asked_now = False
    for previous, candidate in zip([None, *ordered], ordered, strict=False):
        if previous is None or previous.session != candidate.session:
            asked_before = asked_now = False
        elif previous.speaker != candidate.speaker:
            asked_before, asked_now = asked_now, False
        flags.append(asked_before)
        asked_now = asked_now or _asks(candidate.text)
    return flags


@lru_cache(maxsize=65_536)
def _says_when(text: str) -> bool:
    return bool(_TIME_WORDS.search(text))


@lru_cache(maxsize=65_536)
def _about_self(text: str) -> float:
    """The share of first-person words less that of second-person ones; few words are not taken at their word."""
    words = _WORD.findall(text.lower().replace("’", "'"))
    return sum((word in _SELF) - (word in _OTHER) for word in words) / max(len(words), 8)


def _date_fit(sent_at: datetime, question: Question, half_life_days: float) -> float:
    """1 inside a time that the question names, half as much every half-life away from it, 0 without one."""
    fit = 0.0
    for start, end in question.spans:
        away = max((start - sent_at).total_seconds(), (sent_at - end).total_seconds(), 0.0) / 86_400
        fit = max(fit, 0.5 ** (away / half_life_days))
    return fit
