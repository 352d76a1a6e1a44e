"""Calibrate similarity, so that figures mean the same in every embedding space."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.recall.ask.weights import OTHER_QUERY_WEIGHT
from pipeline.recall.find.candidate import Statistics
from pipeline.text.bm25 import idf


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The range of cosines to a question: 0.3 is high where unrelated texts are at 0.1."""

    # mean cosine of the chat's messages
    mean: float = 0.0
    # highest cosine found; None if nothing was compared
    best: float | None = None

    @classmethod
    def of(cls, cosines: Iterable[float | None], mean: float) -> "Scale":
        """Return the scale whose best is the highest of these cosines."""
        return cls(mean=mean, best=max((cosine for cosine in cosines if cosine is not None), default=None))

    def similarity(self, cosine: float | None) -> float | None:
        """Return `0.5 + (cosine - mean) / (best - mean) / 2`: 0.5 for the chat's average message, 1 for the best.

        None for what has no vector, or if the best is no better than the average.
        """
        if cosine is None or self.best is None or self.best - self.mean <= 1e-9:
            return None
        return min(1.0, max(0.0, 0.5 + (cosine - self.mean) / (self.best - self.mean) / 2))


def best_cosines(cosines: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the best cosine of each id, given those to each query, the question first.

    >>> best_cosines([{7: 0.5, 8: 0.1}, {7: 0.6, 8: 0.5}])
    {7: 0.5, 8: 0.4}
    """
    first, *rest = cosines
    best = dict(first)
    for of_query in rest:
        for id_, cosine in of_query.items():
            best[id_] = max(best.get(id_, -1.0), OTHER_QUERY_WEIGHT * cosine)
    return best


def share_of_words(held: Collection[str], words: Collection[str], statistics: Statistics) -> float:
    """Return the share of the question's words that are held, weighted by idf; 0 without words."""

    def tells(word: str) -> float:
        return idf(statistics.messages, statistics.document_frequency.get(word, 0))

    total = sum(map(tells, words))
    return sum(tells(word) for word in words if word in held) / total if total > 0 else 0.0
