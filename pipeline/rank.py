"""Rank a chat's messages, and its sessions, for a question: what the words say, what they mean, how people talk.

Every score is a sum of parts, each switched off by its weight. The parts look at a message in its context (the
turns around it in its session), since people answer across several short messages. A turn is a run of messages
by one speaker: distances are counted in turns, so that a burst of five short messages is as one long one.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.question import MONTHS, Question

# BM25's constants as Robertson and Zaragoza give them (The Probabilistic Relevance Framework, 2009).
K1 = 1.2
B = 0.75

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SELF = frozenset(
    "i me my mine myself we us our ours i'm i've i'd i'll we're we've we'd we'll im ive".split()
)
_OTHER = frozenset("you your yours yourself you're you've you'd you'll u ur youre".split())  # noqa: SIM905
_TIME_WORDS = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|last|next|since|recently|soon|weekend|weeks?|months?|years?|days?"
    r"|this (?:morning|week|month|year|past)|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    rf"|{'|'.join(MONTHS)}|\d{{4}})\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What each piece of evidence is worth beside the best keyword match in context, which is worth `words`."""

    # BM25 of the message with its context as one text
    words: float = 1.0
    # cosine of the message itself, above the mean of the scope, as a share of the best
    meaning: float = 0.5
    # the mean of that over its context
    meaning_near: float = 0.25
    # the best of that in its session: the best turn speaks for the session
    meaning_session: float = 0.25
    # the question names this speaker
    speaker: float = 0.2
    # a question seldom holds the answer
    asks: float = -0.15
    # what follows somebody else's question answers it
    answers: float = 0.15
    # asked when, this message says when
    when: float = 0.4
    # people tell of themselves: the share of I and we, less that of you
    about_self: float = 0.75
    # sent at the time that the question names
    date: float = 0.7
    # what a word still counts one turn away
    decay: float = 0.7
    # turns on either side that a context reaches
    reach: int = 6
    date_half_life_days: float = 5.0


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A message that may answer, or stands beside one that may."""

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
    """The candidates, best first; equal ones newer first."""
    ordered = sorted(candidates, key=lambda c: (c.session, c.place))
    turns = _turns(ordered)
    contexts = list(_contexts(ordered, turns, weights))
    words = _normalized(_words(ordered, contexts, statistics, weights))
    meaning = _meaning(ordered, statistics)
    best: dict[int, float] = {}
    for candidate, value in zip(ordered, meaning, strict=True):
        best[candidate.session] = max(best.get(candidate.session, -1.0), value)
    scored = []
    for i, candidate in enumerate(ordered):
        mass = sum(share for _, share in contexts[i])
        near = sum(share * meaning[j] for j, share in contexts[i]) / mass
        parts = {
            "words": weights.words * words[i],
            "meaning": weights.meaning * meaning[i],
            "meaning_near": weights.meaning_near * near,
            "meaning_session": weights.meaning_session * best[candidate.session],
            "speaker": weights.speaker * (candidate.speaker in question.speakers),
            "asks": weights.asks * _asks(candidate),
            "answers": weights.answers * _follows_question(i, ordered, turns),
            "when": weights.when * (question.asks_when and bool(_TIME_WORDS.search(candidate.text))),
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


def _turns(ordered: Sequence[Candidate]) -> list[int]:
    """The number of the turn that each message belongs to."""
    numbers: list[int] = []
    for previous, candidate in zip([None, *ordered], ordered, strict=False):
        if previous is None:
            numbers.append(0)
        elif (previous.session, previous.speaker) == (candidate.session, candidate.speaker):
            numbers.append(numbers[-1])
        else:
            numbers.append(numbers[-1] + 1)
    return numbers


Context = list[tuple[int, float]]
"""The messages of a context as `(index, share)`; its own share is 1."""


def _contexts(ordered: Sequence[Candidate], turns: Sequence[int], weights: Weights) -> Iterator[Context]:
    """For each message, those around it in its session and what each counts."""
    shares = [weights.decay**distance for distance in range(4 * weights.reach + 1)]
    for i, candidate in enumerate(ordered):
        context = [(i, 1.0)]
        for step in (-1, 1):
            inside = 0
            for j in range(i + step, -1 if step < 0 else len(ordered), step):
                distance = abs(turns[j] - turns[i])
                if (
                    ordered[j].session != candidate.session
                    or distance > weights.reach
                    or abs(j - i) > 4 * weights.reach
                ):
                    break
                # within one's own turn every message is a step away
                inside += distance == 0
                context.append((j, shares[distance or inside]))
        yield context


def _words(
    ordered: Sequence[Candidate], contexts: Sequence[Context], statistics: Statistics, weights: Weights
) -> list[float]:
    """BM25 of every message with its context as one text, each word counting by its distance."""
    total = statistics.messages
    idf = {
        term: math.log(1 + (total - df + 0.5) / (df + 0.5))
        for term, df in statistics.document_frequency.items()
        if df
    }
    usual = statistics.mean_length * (1 + 2 * sum(weights.decay**d for d in range(1, weights.reach + 1)))
    scores = []
    for context in contexts:
        frequency: dict[str, float] = {}
        length = 0.0
        for j, share in context:
            length += share * ordered[j].length
            for term, count in ordered[j].terms.items():
                frequency[term] = frequency.get(term, 0.0) + share * count
        norm = K1 * (1 - B + B * length / usual) if usual else K1
        scores.append(sum(idf.get(term, 0.0) * tf * (K1 + 1) / (tf + norm) for term, tf in frequency.items()))
    return scores


def _meaning(ordered: Sequence[Candidate], statistics: Statistics) -> list[float]:
    """Cosines above the mean of the scope, as shares of the best; 0 for what has no vector yet."""
    mean = statistics.mean_cosine
    top = max((c.cosine - mean for c in ordered if c.cosine is not None), default=0.0)
    if top <= 1e-9:
        return [0.0] * len(ordered)
    return [0.0 if c.cosine is None else (c.cosine - mean) / top for c in ordered]


def _normalized(scores: list[float]) -> list[float]:
    top = max(scores, default=0.0)
    return [score / top for score in scores] if top > 0 else scores


def _asks(candidate: Candidate) -> bool:
    return candidate.text.rstrip().endswith("?")


def _follows_question(i: int, ordered: Sequence[Candidate], turns: Sequence[int]) -> bool:
    """Whether the turn before this one, by somebody else in the same session, asks something."""
    for j in range(i - 1, -1, -1):
        if ordered[j].session != ordered[i].session or turns[j] < turns[i] - 1:
            return False
        if turns[j] == turns[i] - 1 and _asks(ordered[j]):
            return True
    return False


def _about_self(text: str) -> float:
    words = [word.lower().replace("’", "'") for word in _WORD.findall(text)]
    return sum((word in _SELF) - (word in _OTHER) for word in words) / max(len(words), 8)


def _date_fit(sent_at: datetime, question: Question, half_life_days: float) -> float:
    fit = 0.0
    for start, end in question.spans:
        away = max((start - sent_at).total_seconds(), (sent_at - end).total_seconds(), 0.0) / 86_400
        fit = max(fit, 0.5 ** (away / half_life_days))
    return fit
