"""What the judge of relevance looks at: how a question's words and meaning match messages, memories and passages. Pure.

Shares of words are weighted by rarity (BM25's idf), so that a word which the chat never had weighs most. Cosines stand
above the mean of the chat's own, and are counted in the spread of those that were found: what is high for one question
is usual for another.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log

import numpy as np

from pipeline.recall.find.candidate import Candidate, Statistics
from pipeline.recall.rank.ranked import Scored
from pipeline.recall.relevance.logistic import Array
from pipeline.text.bm25 import idf
from pipeline.text.excerpt import Wanted

BEST = 3
"""Best messages that are looked at first, as the best alone may be chance, and in whose mean scores are counted."""
FIRST = 10
"""Messages whose means tell a clear answer from a crowd of near ones."""
MAX_WORDS = 8
"""Words of a question from which on more say no more."""
LEAST_SPREAD = 0.05
"""Of cosines: less is rounding, or there are too few."""
PARTS = (
    "words",
    "meaning",
    "session",
    "session_words",
    "answers",
    "named",
    "tells",
    "length",
    "date",
    "number",
    "when",
)
"""Parts of a message's score that count by themselves."""


def of_messages(hits: Sequence[Scored], statistics: Statistics) -> dict[str, Array]:
    """Return the signals of ranked messages, best first."""
    signals = {name: np.array([hit.parts.get(name, 0.0) for hit in hits]) for name in PARTS}
    scores = np.array([hit.score - hit.parts.get("length", 0.0) for hit in hits])
    top = np.sort(scores)[::-1][:BEST].mean() if len(scores) else 0.0
    rise, far = _rises([hit.candidate.best_cosine for hit in hits], statistics.mean_cosine)
    coverage = _coverage([hit.candidate for hit in hits], statistics)
    literal = [max(hit.parts.get("phrase", 0.0), hit.parts.get("exact", 0.0)) for hit in hits]
    return signals | {
        "score": scores,
        "share": np.clip(scores / top, 0.0, 1.0) if top > 0 else np.zeros(len(scores)),
        "rank": np.log1p(np.arange(len(scores))),
        "rise": rise,
        "far": far,
        "coverage": coverage,
        "coverage_rise": coverage * rise,
        "literal": np.array(literal),
    }


def of_question(hits: Sequence[Scored], statistics: Statistics, judged: Sequence[float]) -> dict[str, Array]:
    """Return the signals of a question, each an array of one, from its ranked messages, best first, as `judged`."""
    first = hits[:FIRST]
    words = statistics.document_frequency
    rarity = {word: idf(statistics.messages, count) for word, count in words.items()}
    total = sum(rarity.values()) or 1.0
    coverage = _coverage([hit.candidate for hit in first], statistics)
    held = set[str]().union(*(hit.candidate.terms for hit in first[:BEST]))
    cosines = [hit.candidate.best_cosine for hit in hits if hit.candidate.best_cosine is not None]
    near = np.sort(np.array(cosines or [statistics.mean_cosine]))[::-1]
    rise, _ = _rises([hit.candidate.best_cosine for hit in first], statistics.mean_cosine)
    scores = [hit.score - hit.parts.get("length", 0.0) for hit in first] or [0.0]
    values = {
        "coverage": coverage[:BEST].max(initial=0.0),
        "coverage_together": sum(rarity[word] for word in held if word in rarity) / total,
        "coverage_mean": coverage.mean() if len(coverage) else 0.0,
        "session_words": max((hit.parts.get("session_words", 0.0) for hit in first[:BEST]), default=0.0),
        "unknown": sum(rarity[word] for word, count in words.items() if not count) / total,
        "count": min(len(words), MAX_WORDS),
        "wordless": not words,
        "cosine": near[0],
        "cosine_rise": near[0] - statistics.mean_cosine,
        "cosine_mean": near[:FIRST].mean() - statistics.mean_cosine,
        "cosine_lead": near[0] - near[min(FIRST, len(near)) - 1],
        "coverage_rise": (coverage * rise).max(initial=0.0),
        "score": scores[0],
        "score_lead": scores[0] - scores[-1],
        "best": log(max(judged, default=0.0) + 1e-3),
    }
    return {name: np.array([float(value)]) for name, value in values.items()}


def of_texts(
    texts: Sequence[str], cosines: Sequence[float | None], wanted: Wanted, named: Sequence[bool]
) -> dict[str, Array]:
    """Return the signals of memories, or of passages: each beside the others that were found.

    `named` are about a person whom the question names.
    """
    held = [wanted.held(text) for text in texts]
    frequency = Counter(word for words in held for word in words)
    rarity = {word: idf(len(texts), frequency[word]) for word in wanted.terms}
    total = sum(rarity.values()) or 1.0
    coverage = np.array([sum(rarity[word] for word in words) / total for words in held])
    known = [cosine for cosine in cosines if cosine is not None]
    rise, far = _rises(cosines, float(np.mean(known)) if known else 0.0)
    cosine = np.array([cosine or 0.0 for cosine in cosines])
    return {
        "coverage": coverage,
        "coverage_far": coverage.max(initial=0.0) - coverage,
        "coverage_cosine": coverage * cosine,
        "cosine": cosine,
        "rise": rise,
        "far": far,
        "count": np.full(len(texts), float(min(len(wanted.terms), MAX_WORDS))),
        "named": np.array(named, np.float64),
    }


def _coverage(candidates: Sequence[Candidate], statistics: Statistics) -> Array:
    """Return the share of the question's words that each message has, or of another query's if that is more."""
    best = np.zeros(len(candidates))
    queries = [statistics, *statistics.others]
    for number, query in enumerate(queries):
        rarity = {word: idf(query.messages, count) for word, count in query.document_frequency.items()}
        total = sum(rarity.values()) or 1.0
        matches = [c.others[number - 1] if number else c for c in candidates]
        shares = [sum(rarity.get(word, 0.0) for word in match.terms) / total for match in matches]
        best = np.maximum(best, shares)
    return best


def _rises(cosines: Sequence[float | None], mean: float) -> tuple[Array, Array]:
    """Return how far cosines stand above a mean and below the best of them, in their spread; 0 without a vector."""
    values = np.array([np.nan if cosine is None else cosine for cosine in cosines], np.float64)
    if not len(values) or np.isnan(values).all():
        return np.zeros(len(values)), np.zeros(len(values))
    spread = max(float(np.nanstd(values)), LEAST_SPREAD)
    return np.nan_to_num((values - mean) / spread), np.nan_to_num((np.nanmax(values) - values) / spread)


Signals = Mapping[str, Array]
