"""BM25's constants, which statements and ranking share, as Robertson and Zaragoza give them.

The Probabilistic Relevance Framework: BM25 and Beyond, 2009.
"""

import math

K1 = 1.2
B = 0.75


def idf(total: int, frequency: int) -> float:
    """Return the inverse document frequency of a term in `frequency` of `total` texts; always above 0."""
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
