"""Rate from 0 to 1 how much anything that a context may show is worth its tokens. Pure.

Below `LIMIT` nothing is shown. It was chosen on the fitted chats, at a budget of 2,000 tokens: with
multilingual-e5-small, 1,218 tokens are used there; they hold 95.0 % of the answers, and 16.7 % of them are evidence or
within two messages of it.
"""

from collections.abc import Sequence

from pipeline.recall.rank.ranked import Scored
from pipeline.text.excerpt import Wanted

LIMIT = 0.45
"""Minimum worth to be shown."""
# The mean score of this many best messages is worth 1: the best alone may be chance.
_BEST = 3
# Unrelated texts have lower cosines with any embedding model, as spaces are calibrated: `pipeline.clients.calibration`.
_UNRELATED = 0.2
# A text without a word of the question needs this cosine; one with all of them half of it.
_RELATED, _WORDS = 0.4, 0.5
_SURE = ("phrase", "exact", "date", "named")
"""Parts of a score that tie a message to the question without a word or meaning in common."""


def message_worths(ranked: Sequence[Scored]) -> list[float]:
    """Return what ranked messages are worth: the score as a share of the mean of the best three.

    All are worth nothing if none of these three holds a word of the question, is like it, or is where it points to.
    Asides are always worth nothing.
    """
    scores = [
        0.0 if hit.candidate.aside else max(hit.score - hit.parts.get("length", 0.0), 0.0) for hit in ranked
    ]
    best = sorted(zip(scores, ranked, strict=True), key=lambda scored: -scored[0])[:_BEST]
    mean = sum(score for score, _ in best) / len(best) if any(_is_related(hit) for _, hit in best) else 0.0
    return [min(score / mean, 1.0) if mean > 0 else 0.0 for score in scores]


def text_worth(text: str, cosine: float | None, wanted: Wanted) -> float:
    """Return what a memory or passage is worth: half the share of the question's words in it, plus its cosine.

    On a scale on which `_RELATED` is worth `LIMIT`. Without a vector its words alone decide.
    """
    share = len(wanted.held(text)) / len(wanted.terms) if wanted.terms else 0.0
    if cosine is None:
        return share
    return min((_WORDS * share + max(cosine, 0.0)) * LIMIT / _RELATED, 1.0)


def _is_related(hit: Scored) -> bool:
    candidate = hit.candidate
    return (
        bool(candidate.terms)
        or any(other.terms for other in candidate.others)
        or (candidate.best_cosine or 0.0) >= _UNRELATED
        or any(hit.parts.get(name, 0.0) > 0 for name in _SURE)
    )
