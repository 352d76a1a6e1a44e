"""BM25 of messages read together with their neighbours."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline.recall.find.candidate import Candidate, Statistics
from pipeline.text.bm25 import K1, B, idf

# Weight of a message's words one step later and one step earlier; nothing beyond `STEPS`.
LATER, EARLIER = 0.7, 0.4
STEPS = 4
# They count half as much after this long a silence.
SILENCE_SECONDS = 3600.0

Array = npt.NDArray[np.float64]


class Kernel:
    """Weights by which candidates count for their neighbours: 0 across a gap or another session."""

    def __init__(self, ordered: Sequence[Candidate]) -> None:
        """Compute the links between candidates, which are in order of session and place."""
        size = len(ordered)
        session = np.fromiter((c.session for c in ordered), np.int64, size)
        place = np.fromiter((c.place for c in ordered), np.int64, size)
        sent = np.fromiter((c.sent_at.timestamp() for c in ordered), np.float64, size)
        linked = (session[1:] == session[:-1]) & (place[1:] == place[:-1] + 1) & (session[1:] != 0)
        silence = np.exp2(-np.maximum(np.diff(sent), 0.0) / SILENCE_SECONDS)
        self.link: Array = np.where(linked, silence, 0.0)

    def around(self, values: Array) -> Array:
        """Add to each value, along the last axis, the weighted values of its neighbours."""
        total = values.copy()
        chain = np.ones(max(values.shape[-1] - 1, 0))
        for step in range(1, min(STEPS, values.shape[-1] - 1) + 1):
            # the links from each candidate to the one `step` after it
            chain = self.link if step == 1 else chain[:-1] * self.link[step - 1 :]
            total[..., step:] += LATER**step * chain * values[..., :-step]
            total[..., :-step] += EARLIER**step * chain * values[..., step:]
        return total


def saturated(times: Array, lengths: Array, mean_length: float, idfs: Array) -> Array:
    """Return BM25: for each text, the sum over the terms of idf times saturated frequency."""
    norm = K1 * (1 - B + B * lengths / max(mean_length, 1e-9))
    # the maximum for each term is its idf times K1 + 1
    return np.asarray((idfs[:, None] * times * (K1 + 1) / (times + norm)).sum(axis=0), dtype=np.float64)


def shares(scores: Array, attainable: float) -> Array:
    """Return the geometric mean of two shares: of the best score, and of the attainable score.

    Where few of the terms are found, meaning decides.
    """
    top = scores.max(initial=0.0)
    return scores / math.sqrt(top * attainable) if top > 0 and attainable > 0 else np.zeros_like(scores)


def words(ordered: Sequence[Candidate], kernel: Kernel, substance: Array, statistics: Statistics) -> Array:
    """Return BM25 of every candidate, read together with its surroundings, from 0 to 1.

    Frequencies and lengths around it are sums weighted by distance, as of fields in BM25F (Robertson, Zaragoza and
    Taylor, Simple BM25 Extension to Multiple Weighted Fields, 2004); a message gains as far as it has substance itself.
    """
    terms = list(statistics.document_frequency)
    idfs = np.array([idf(statistics.messages, statistics.document_frequency[term]) for term in terms])
    if not terms or not ordered:
        return np.zeros(len(ordered))
    attainable = float(idfs.sum()) * (K1 + 1)
    times = np.array([[c.terms.get(term, 0) for c in ordered] for term in terms], np.float64)
    lengths = np.fromiter((c.length for c in ordered), np.float64, len(ordered))
    # a message amid neighbours gathers this multiple of the mean length
    reach = 1 + sum(LATER**step + EARLIER**step for step in range(1, STEPS + 1))
    near = saturated(kernel.around(times), kernel.around(lengths), statistics.mean_length * reach, idfs)
    return shares(near * substance, attainable)
