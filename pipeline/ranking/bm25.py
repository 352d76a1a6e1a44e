"""BM25 of messages read with their neighbours, and of whole sessions; `smooth` serves vectors, too."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import add, attrgetter, mul

from pipeline.ranking.model import Candidate, Statistics, Weights

# BM25's constants as Robertson and Zaragoza give them (The Probabilistic Relevance Framework, 2009).
K1 = 1.2
B = 0.75


def idf(total: int, frequency: int) -> float:
    """Return the inverse document frequency of a term in `frequency` of `total` texts; always above 0."""
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


def carries(ordered: Sequence[Candidate], weights: Weights) -> tuple[list[float], list[float]]:
    """Return what each candidate carries to the next, and the next to it; nothing across sessions."""
    # one step is the next speaker's turn; nothing passes from one session to another
    on, back = weights.decay, weights.decay_back
    burst_on, burst_back = math.pow(on, weights.burst_step), math.pow(back, weights.burst_step)
    later, earlier = [], []
    for one, other in pairwise(ordered):
        is_burst = one.speaker == other.speaker
        forward, backward = (burst_on, burst_back) if is_burst else (on, back)
        later.append(forward if one.session == other.session else 0.0)
        earlier.append(backward if one.session == other.session else 0.0)
    return later, earlier


def smooth(values: Sequence[float], later: Sequence[float], earlier: Sequence[float]) -> list[float]:
    """Add to each value what every other carries to it, by the factors between them: one pass forward and one back."""
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
    """Yield the half-open range of each session's candidates."""
    end = 0
    for _, inside in groupby(ordered, key=attrgetter("session")):
        start, end = end, end + sum(1 for _ in inside)
        yield start, end


def _norms(lengths: Iterable[float], usual: float) -> list[float]:
    """Return the length norm of each text, given the usual length."""
    return [K1 * (1 - B + B * length / usual) for length in lengths]


def _add(
    scores: list[float], start: int, tells: float, frequencies: Iterable[float], norms: Sequence[float]
) -> None:
    """Add what a term adds to the scores of texts, from the one at `start`: its idf times its saturated frequency."""
    for i, frequency in enumerate(frequencies, start):
        scores[i] += tells * frequency * (K1 + 1) / (frequency + norms[i])


def words_around(
    ordered: Sequence[Candidate],
    later: Sequence[float],
    earlier: Sequence[float],
    substance: Sequence[float],
    statistics: Statistics,
    weights: Weights,
) -> list[list[float]]:
    """Return BM25 of every candidate with its surroundings, from 0 to 1: of the question's own words; of all.

    A synonym counts by its share (`Candidate.related`). Frequencies and lengths are sums weighted by distance, as of
    fields in BM25F (Robertson, Zaragoza and Taylor, Simple BM25 Extension to Multiple Weighted Fields, 2004); a message
    gains as far as it has substance itself. The result is the geometric mean of two shares: of the best score, and of
    what the question's words could give together. Where few of them are found, meaning decides.
    """
    total = statistics.messages
    lengths = smooth([float(c.length) for c in ordered], later, earlier)
    # a message amid neighbours of one step each gathers so many times the mean length
    reach = 1 / max(1 - weights.decay, 0.01) + 1 / max(1 - weights.decay_back, 0.01) - 1
    usual = max(statistics.mean_length, 1e-9) * reach
    norms = _norms(lengths, usual)
    tells = {term: idf(total, frequency) for term, frequency in statistics.document_frequency.items()}
    attainable = sum(tells.values()) * (K1 + 1)
    own, scores = [0.0] * len(ordered), [0.0] * len(ordered)
    for start, end in _sessions(ordered):
        inside = ordered[start:end]
        on, back = later[start : end - 1], earlier[start : end - 1]
        # a word counts all over its session, and in no other
        held = {term for c in inside for term in c.terms}
        near = {term for c in inside for term in c.related} if weights.related else set()
        for term in (term for term in tells if term in held or term in near):
            frequencies = smooth([c.terms.get(term, 0) for c in inside], on, back)
            _add(own, start, tells[term], frequencies, norms)
            if term in near:
                more = smooth([c.related.get(term, 0.0) for c in inside], on, back)
                frequencies = list(map(add, frequencies, more))
            _add(scores, start, tells[term], frequencies, norms)
    top = max(map(mul, scores, substance), default=0.0)
    scale = 1 / math.sqrt(top * attainable) if top > 0 else 0.0
    return [[s * share * scale for s, share in zip(each, substance, strict=True)] for each in (own, scores)]


def session_words(candidates: Sequence[Candidate]) -> dict[int, float]:
    """Return BM25 of each session as one text among the others, from 0 to 1 by the same geometric mean."""
    lengths: Counter[int] = Counter()
    counted: dict[str, Counter[int]] = defaultdict(Counter)
    for candidate in candidates:
        lengths[candidate.session] += candidate.length
        for term, frequency in candidate.terms.items():
            counted[term][candidate.session] += frequency
    norms = _norms(lengths.values(), max(sum(lengths.values()) / max(len(lengths), 1), 1e-9))
    scores = [0.0] * len(lengths)
    attainable = 0.0
    for sessions in counted.values():
        tells = idf(len(lengths), len(sessions))
        attainable += tells * (K1 + 1)
        _add(scores, 0, tells, (sessions[session] for session in lengths), norms)
    top = max(scores, default=0.0)
    scale = math.sqrt(top * attainable) if top > 0 else 1.0
    return {session: score / scale for session, score in zip(lengths, scores, strict=True)}
