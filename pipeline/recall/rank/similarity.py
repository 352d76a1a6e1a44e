"""How similar texts are to several queries, and how many of a question's words they hold."""

from collections.abc import Collection, Mapping, Sequence

from pipeline.recall.ask.weights import OTHER_QUERY_WEIGHT
from pipeline.recall.find.candidate import Statistics
from pipeline.text.bm25 import idf


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
