"""Rank a chat's messages, and its sessions, for a question: what the words say, what they mean, how people talk.

Every score is a sum of parts, each switched off by its weight. Nothing is looked at alone: a message is read with
what was said around it, each neighbour counting less by its distance (a decay to the power of the steps between
them). A talk goes forward, so what was said before carries farther than what came after. The steps are short inside
one person's run of messages, so that a burst of five short ones is read much as one long one, and infinite between
sessions. One such kernel serves words and vectors alike.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from operator import add, attrgetter, mul, sub, truediv
from typing import NamedTuple

from pipeline import talk, verbatim
from pipeline.question import Question

# BM25's constants as Robertson and Zaragoza give them (The Probabilistic Relevance Framework, 2009).
K1 = 1.2
B = 0.75
# What a session's second best message adds for it: one good hit may be chance, two seldom are.
SECOND = 0.2
# What the words of the session as one text add for it.
SESSION_WORDS = 0.3


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What each piece of evidence adds, where the best of its kind adds its weight.

    Chosen on three LoCoMo conversations, the same cut into messengers' short messages, and the sample chats, and
    rounded by hand; the optimum is flat (a third more or less of any but `words` moves the figures by a point).
    """

    # BM25 of the message read together with what was said around it, the less the less of the question it covers
    words: float = 1.6
    # what that gains by words of much the same meaning
    related: float = 1.6
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
    # asked how things stand now, the newest counts most
    latest: float = 0.5
    # people tell of themselves: the share of I and we, less that of you
    about_self: float = 0.6
    # sent at the time that the question names, or that it counts from an event
    date: float = 0.8
    # what the question puts in quotation marks stands here as it is: more than all else together makes up for
    phrase: float = 6.0
    # an identifier, address, path or long number of the question stands here as it is
    exact: float = 1.0
    # what a message's words still count one step later, and one step earlier, from 0 to 1
    decay: float = 0.7
    decay_back: float = 0.4
    # the step between two messages of one speaker in a row; a change of speaker is 1
    burst_step: float = 0.7
    # a message of so many distinct words has half the substance that any could have: "haha" answers nothing
    half_substance: float = 1.0
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
    # for the question's lexemes, how much of what may stand in their place is in it, see `pipeline.thesaurus`
    related: Mapping[str, float] = {}


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What the whole scope is like that the candidates come from."""

    messages: int
    # distinct lexemes of a message
    mean_length: float
    # in how many messages each of the question's lexemes stands; 0 for those that stand in none
    document_frequency: Mapping[str, int]
    mean_cosine: float = 0.0


class Scored(NamedTuple):
    """A candidate with its score, and what it is made of."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float]


def rank(
    question: Question, candidates: Sequence[Candidate], statistics: Statistics, weights: Weights
) -> list[Scored]:
    """The candidates, best first; equal ones newer first. Takes time in proportion to their number."""
    ordered = sorted(candidates, key=lambda c: (c.session, c.place))
    later, earlier = _carries(ordered, weights)
    mass = _smooth([1.0] * len(ordered), later, earlier)
    substance = [c.length / (c.length + weights.half_substance) if c.length else 0.0 for c in ordered]
    own, words = _words(ordered, later, earlier, substance, statistics, weights)
    meaning = _meaning(ordered, statistics.mean_cosine)
    near = _smooth(meaning, later, earlier)
    best: dict[int, float] = {}
    for candidate, value in zip(ordered, meaning, strict=True):
        best[candidate.session] = max(best.get(candidate.session, value), value)
    most = max(words, default=0.0) or 1.0
    texts = [c.text for c in ordered]
    asks = [talk.asks(text) for text in texts]
    answers = _answers(ordered, asks, [w / most + 0.5 * m for w, m in zip(words, meaning, strict=True)])
    nothing = [0.0] * len(ordered)

    def part(weight: float, values: Iterable[float], *, wanted: object = True) -> list[float]:
        """A part of every candidate's score; what nobody asks for is not looked at."""
        return [weight * value for value in values] if weight and wanted else nothing

    parts = {
        "words": part(weights.words, own),
        "related": part(weights.related, map(sub, words, own), wanted=weights.related),
        "meaning": part(weights.meaning, meaning),
        "meaning_near": part(weights.meaning_near, map(truediv, near, mass)),
        "meaning_session": part(
            weights.meaning_session,
            (best[c.session] * share for c, share in zip(ordered, substance, strict=True)),
        ),
        "speaker": part(
            weights.speaker, (c.speaker in question.speakers for c in ordered), wanted=question.speakers
        ),
        "asks": part(weights.asks, asks),
        "answers": part(weights.answers, answers),
        "when": part(weights.when, map(talk.says_when, texts), wanted=question.asks_when),
        "number": part(weights.number, map(talk.says_number, texts), wanted=question.asks_number),
        "latest": part(weights.latest, _newness(ordered), wanted=question.asks_now),
        "about_self": part(weights.about_self, map(talk.about_self, texts)),
        "phrase": part(
            weights.phrase,
            (verbatim.share(question.phrases, text) for text in texts),
            wanted=question.phrases,
        ),
        "exact": part(
            weights.exact,
            (verbatim.share(question.identifiers, text) for text in texts),
            wanted=question.identifiers,
        ),
        "date": part(
            weights.date,
            (_date_fit(c.sent_at, question, weights.date_half_life_days) for c in ordered),
            wanted=question.spans or question.event,
        ),
    }
    rows = list(zip(*parts.values(), strict=True))
    scores = [sum(row) for row in rows]
    best_first = sorted(
        range(len(rows)), key=lambda i: (scores[i], ordered[i].sent_at, ordered[i].id), reverse=True
    )
    return [Scored(ordered[i], scores[i], dict(zip(parts, rows[i], strict=True))) for i in best_first]


def rank_sessions(scored: Sequence[Scored]) -> list[tuple[int, Scored]]:
    """`(session, its best message)`, best first: the best messages of the session speak for it.

    `scored` is best first. To the score of a session's best message are added `SECOND` of that of its second best
    and `SESSION_WORDS` of `session_words`: the parts `second` and `session_words`. Messages that are not placed yet
    speak for none.
    """
    words = session_words([hit.candidate for hit in scored])
    best: dict[int, Scored] = {}
    second: dict[int, float] = {}
    for hit in scored:
        session = hit.candidate.session
        if session and session in best:
            second.setdefault(session, hit.score)
        elif session:
            best[session] = hit
    whole = []
    for session, hit in best.items():
        added = {"second": SECOND * second.get(session, 0.0), "session_words": SESSION_WORDS * words[session]}
        whole.append(
            (session, Scored(hit.candidate, hit.score + sum(added.values()), {**hit.parts, **added}))
        )
    return sorted(whole, key=lambda one: -one[1].score)


def session_words(candidates: Sequence[Candidate]) -> dict[int, float]:
    """BM25 of each session's candidates as one text among those of the other sessions, from 0 to 1.

    As for messages, that is the geometric mean of its shares of the best and of what could be reached.
    """
    lengths: Counter[int] = Counter()
    counted: dict[str, Counter[int]] = defaultdict(Counter)
    for candidate in candidates:
        lengths[candidate.session] += candidate.length
        for term, frequency in candidate.terms.items():
            counted[term][candidate.session] += frequency
    usual = max(sum(lengths.values()) / max(len(lengths), 1), 1e-9)
    scores = dict.fromkeys(lengths, 0.0)
    attainable = 0.0
    for sessions in counted.values():
        idf = math.log(1 + (len(lengths) - len(sessions) + 0.5) / (len(sessions) + 0.5))
        attainable += idf * (K1 + 1)
        for session, frequency in sessions.items():
            norm = K1 * (1 - B + B * lengths[session] / usual)
            scores[session] += idf * frequency * (K1 + 1) / (frequency + norm)
    top = max(scores.values(), default=0.0)
    return {session: s / math.sqrt(top * attainable) if top > 0 else 0.0 for session, s in scores.items()}


def _carries(ordered: Sequence[Candidate], weights: Weights) -> tuple[list[float], list[float]]:
    """What still counts of each candidate at the next, and of the next at it: nothing across sessions."""
    # one step is the next speaker's turn; nothing passes from one session to another
    on, back = weights.decay, weights.decay_back
    burst_on, burst_back = math.pow(on, weights.burst_step), math.pow(back, weights.burst_step)
    later, earlier = [], []
    for one, other in pairwise(ordered):
        if one.session != other.session:
            later.append(0.0)
            earlier.append(0.0)
        elif one.speaker == other.speaker:
            later.append(burst_on)
            earlier.append(burst_back)
        else:
            later.append(on)
            earlier.append(back)
    return later, earlier


def _smooth(values: Sequence[float], later: Sequence[float], earlier: Sequence[float]) -> list[float]:
    """Each value plus what every other carries to it: one pass forward and one back."""
    before, carried = [0.0], 0.0
    for factor, value in zip(later, values, strict=False):
        carried = factor * (value + carried)
        before.append(carried)
    after, carried = [0.0], 0.0
    for factor, value in zip(reversed(earlier), reversed(values), strict=False):
        carried = factor * (value + carried)
        after.append(carried)
    return [value + a + b for value, a, b in zip(values, before, reversed(after), strict=False)]


def _sessions(ordered: Sequence[Candidate]) -> Iterator[tuple[int, int]]:
    """From where to where each session's candidates stand, the end not included."""
    end = 0
    for _, inside in groupby(ordered, key=attrgetter("session")):
        start, end = end, end + sum(1 for _ in inside)
        yield start, end


def _words(
    ordered: Sequence[Candidate],
    later: Sequence[float],
    earlier: Sequence[float],
    substance: Sequence[float],
    statistics: Statistics,
    weights: Weights,
) -> list[list[float]]:
    """BM25 of every candidate with its surroundings as one text, from 0 to 1: of the question's own words; of all.

    A word of much the same meaning counts as the question's own does, by its share (`Candidate.related`).

    Frequencies and lengths are sums weighted by distance, as those of fields are in BM25F (Robertson, Zaragoza
    and Taylor, Simple BM25 Extension to Multiple Weighted Fields, 2004). What is lent by neighbours counts as far as
    the message has substance itself. The result is the geometric mean of two shares, that of the best score and
    that of what the question's words could give together: where few of them are found, meaning decides.
    """
    total = statistics.messages
    lengths = _smooth([float(c.length) for c in ordered], later, earlier)
    # a message amid neighbours of one step each gathers so many times the mean length
    reach = 1 / max(1 - weights.decay, 0.01) + 1 / max(1 - weights.decay_back, 0.01) - 1
    usual = max(statistics.mean_length, 1e-9) * reach
    norms = [K1 * (1 - B + B * length / usual) for length in lengths]
    idf = {
        term: math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
        for term, frequency in statistics.document_frequency.items()
    }
    attainable = sum(idf.values()) * (K1 + 1)
    own, scores = [0.0] * len(ordered), [0.0] * len(ordered)
    for start, end in _sessions(ordered):
        inside = ordered[start:end]
        on, back = later[start : end - 1], earlier[start : end - 1]
        # a word counts all over its session, and nowhere in the others
        held = {term for c in inside for term in c.terms}
        near = {term for c in inside for term in c.related} if weights.related else set()
        for term in (term for term in idf if term in held or term in near):
            frequencies = _smooth([c.terms.get(term, 0) for c in inside], on, back)
            for i, tf in enumerate(frequencies, start):
                own[i] += idf[term] * tf * (K1 + 1) / (tf + norms[i])
            if term in near:
                more = _smooth([c.related.get(term, 0.0) for c in inside], on, back)
                frequencies = list(map(add, frequencies, more))
            for i, tf in enumerate(frequencies, start):
                scores[i] += idf[term] * tf * (K1 + 1) / (tf + norms[i])
    top = max(map(mul, scores, substance), default=0.0)
    scale = 1 / math.sqrt(top * attainable) if top > 0 else 0.0
    return [[s * share * scale for s, share in zip(each, substance, strict=True)] for each in (own, scores)]


def _meaning(ordered: Sequence[Candidate], mean: float) -> list[float]:
    """`(cosine - mean) / (best - mean)`: 0 for the scope's average and for what has no vector, 1 for its best."""
    span = max((c.cosine for c in ordered if c.cosine is not None), default=mean) - mean
    return [(c.cosine - mean) / span if c.cosine is not None and span > 1e-9 else 0.0 for c in ordered]


def _answers(ordered: Sequence[Candidate], asks: Sequence[float], relevance: Sequence[float]) -> list[float]:
    """For each message, how relevant the question is that it may answer, 0 where none was asked.

    That is the most relevant question in the run of somebody else's messages right before its speaker's run.
    """
    found: list[float] = []
    asked_before = asked_now = 0.0
    session, speaker = 0, ""
    for candidate, share, relevant in zip(ordered, asks, relevance, strict=True):
        if candidate.session != session:
            asked_before = asked_now = 0.0
        elif candidate.speaker != speaker:
            asked_before, asked_now = asked_now, 0.0
        session, speaker = candidate.session, candidate.speaker
        found.append(asked_before)
        # a message half of which asks is a question
        if share:
            asked_now = max(asked_now, relevant * min(1.0, 2 * share))
    return found


def _newness(ordered: Sequence[Candidate]) -> list[float]:
    """The share of the candidates that are older: 0 for the first, 1 for the last."""
    found = [0.0] * len(ordered)
    for place, i in enumerate(sorted(range(len(ordered)), key=lambda i: ordered[i].sent_at)):
        found[i] = place / max(len(ordered) - 1, 1)
    return found


def _date_fit(sent_at: datetime, question: Question, half_life_days: float) -> float:
    """1 inside a time that the question names, half as much every half-life away from it, 0 without one."""
    fit = question.event.fit(sent_at) if question.event else 0.0
    for start, end in question.spans:
        away = max((start - sent_at).total_seconds(), (sent_at - end).total_seconds(), 0.0) / 86_400
        fit = max(fit, 0.5 ** (away / half_life_days))
    return fit
