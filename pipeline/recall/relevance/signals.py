"""What the judge of relevance looks at: how a question's words and meaning match messages, memories and passages. Pure.

Shares of words are weighted by rarity (BM25's idf), so that a word which the chat never had weighs most. Cosines stand
above the mean of the chat's own, and are counted in the spread of those that were found: what is high for one question
is usual for another.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isnan

import numpy as np

from pipeline.recall.find.candidate import Statistics
from pipeline.recall.rank.ranked import Scored
from pipeline.recall.relevance.logistic import Array
from pipeline.text.bm25 import idf
from pipeline.text.excerpt import Wanted

BEST, FIRST = 3, 10
"""Best messages that are looked at, as the best alone may be chance, and the place up to which scores fall or not."""
LEAST_SPREAD = 0.05
"""Of cosines: less is rounding, or there are too few."""


def of_question(ranked: Sequence[Scored], statistics: Statistics) -> dict[str, Array]:
    """Return the signals of a question, each an array of one, from its ranked messages, best first."""
    first = ranked[:FIRST]
    rarity = _rarity(statistics)
    shares = [_share(hit.candidate.terms, rarity) for hit in first[:BEST]]
    held = set[str]().union(*(hit.candidate.terms for hit in first[:BEST]))
    nearest = max(_known(hit.candidate.best_cosine for hit in ranked), default=statistics.mean_cosine)
    scores = [hit.score - hit.parts.get("length", 0.0) for hit in first] or [0.0]
    values = {
        "coverage": max(shares, default=0.0),
        "coverage_together": _share(held, rarity),
        "session_words": max((hit.parts.get("session_words", 0.0) for hit in first[:BEST]), default=0.0),
        "unknown": _share(
            [word for word, count in statistics.document_frequency.items() if not count], rarity
        ),
        "cosine": nearest,
        "cosine_rise": nearest - statistics.mean_cosine,
        "score": scores[0],
        "score_lead": scores[0] - scores[-1],
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
    coverage = np.array([_share(words, rarity) for words in held])
    known = _known(cosines)
    rise, far = _rises(cosines, float(np.mean(known)) if known else 0.0)
    cosine = np.nan_to_num(np.array([cosine or 0.0 for cosine in cosines], np.float64))
    return {
        "coverage": coverage,
        "coverage_far": coverage.max(initial=0.0) - coverage,
        "coverage_cosine": coverage * cosine,
        "cosine": cosine,
        "rise": rise,
        "far": far,
        "named": np.array(named, np.float64),
    }


def _rarity(statistics: Statistics) -> dict[str, float]:
    """Return the idf of each of the question's words."""
    return {word: idf(statistics.messages, count) for word, count in statistics.document_frequency.items()}


def _share(held: Iterable[str], rarity: Mapping[str, float]) -> float:
    """Return the share of words, by rarity, that are held; 0 without words."""
    return sum(rarity.get(word, 0.0) for word in held) / (sum(rarity.values()) or 1.0)


def _known(cosines: Iterable[float | None]) -> list[float]:
    """Return the cosines of what has a vector, and not one of zeros, to which no cosine is a number."""
    return [cosine for cosine in cosines if cosine is not None and not isnan(cosine)]


def _rises(cosines: Sequence[float | None], mean: float) -> tuple[Array, Array]:
    """Return how far cosines stand above a mean and below the best of them, in their spread; 0 without a vector."""
    values = np.array([np.nan if cosine is None else cosine for cosine in cosines], np.float64)
    if not len(values) or np.isnan(values).all():
        return np.zeros(len(values)), np.zeros(len(values))
    spread = max(float(np.nanstd(values)), LEAST_SPREAD)
    return np.nan_to_num((values - mean) / spread), np.nan_to_num((np.nanmax(values) - values) / spread)
