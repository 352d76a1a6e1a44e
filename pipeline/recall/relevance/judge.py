"""Judge what was found for a question: whether the chat knows, and each memory and passage. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from pipeline.recall.find.candidate import Statistics
from pipeline.recall.rank.ranked import Scored
from pipeline.recall.relevance import signals
from pipeline.recall.relevance.evidence import By, Evidence
from pipeline.recall.relevance.logistic import Array, fitted
from pipeline.text.excerpt import Wanted
from schemas.evidence import EvidenceLevel

LIMIT = 0.45
"""Minimum worth to be shown. It was chosen on the fitted chats, at a budget of 2,000 tokens."""
BEST = 3
"""Messages whose mean score is worth 1: the best alone may be chance."""
NO_SCALE = ("length", "phrase", "exact")
"""Parts of a score that do not set what others are worth: a long message, or one that has the very words."""
OF_WORDS = ("words", "session_words")
"""Parts of a score that mean nothing where the question is in another language than the chat."""
MIN_MESSAGES = 50
"""Messages of a chat below which nobody can say that it does not know: their cosines have no distribution."""
LEVELS: Sequence[EvidenceLevel] = ("none", "weak", "strong")
NEAREST = 3
"""Messages shown where there is no evidence, marked as such."""


def evidence(ranked: Sequence[Scored], statistics: Statistics, by: By, unsure: str = "") -> Evidence:
    """Judge whether a chat knows what it is asked, from its messages, best first.

    Where it cannot be told, for the reason `unsure`, or as the chat has few messages, evidence is never none.
    """
    judge = fitted("question", by)
    found = signals.of_question([hit for hit in ranked if not hit.candidate.aside], statistics)
    probability = float(judge.probabilities(found)[0])
    if statistics.messages < MIN_MESSAGES:
        unsure = (
            unsure or f"the chat has {statistics.messages} messages, and {MIN_MESSAGES} are needed to tell"
        )
    values = {name: float(found[name][0]) for name in judge.weights}
    level: EvidenceLevel = "strong" if probability >= judge.strong_from else "weak"
    if probability < judge.none_below and not unsure:
        level = "none"
    return Evidence(
        level=level,
        probability=round(probability, 4),
        share=1.0 if unsure else min(1.0, probability / judge.full_from),
        parts={name: round(weight * values[name], 4) for name, weight in judge.weights.items()},
        signals=values,
        unsure=unsure,
    )


def worths(ranked: Sequence[Scored], evidence: Evidence | None, by: By = "both") -> list[float]:
    """Return what messages are worth: the score as a share of the mean of the best `BEST`, times the evidence's share.

    Without evidence only the `NEAREST` are worth showing. Asides are worth nothing.
    """
    ignored = ("length", *OF_WORDS) if by == "meaning" else ("length",)
    scores = [0.0 if hit.candidate.aside else max(_without(hit, ignored), 0.0) for hit in ranked]
    heard = [hit for hit in ranked if not hit.candidate.aside]
    best = sorted(_without(hit, {*ignored, *NO_SCALE}) for hit in heard)[-BEST:]
    mean = sum(best) / max(len(best), 1)
    shares = [min(score / mean, 1.0) if mean > 0 else 0.0 for score in scores]
    if evidence is None:
        return shares
    if evidence.level == "none":
        nearest = sorted(shares, reverse=True)[:NEAREST]
        return [LIMIT if nearest and 0 < share >= nearest[-1] else 0.0 for share in shares]
    return [share * evidence.share for share in shares]


def _without(hit: Scored, parts: Collection[str]) -> float:
    return hit.score - sum(hit.parts.get(name, 0.0) for name in parts)


def texts(
    contents: Sequence[str],
    cosines: Sequence[float | None],
    wanted: Wanted,
    by: By,
    named: Sequence[bool] | None = None,
) -> Array:
    """Return the probability of each memory, or of each passage, to say what is asked; see `signals.of_texts`.

    One that waits for its vector is judged by its words alone.
    """
    found = signals.of_texts(contents, cosines, wanted, named or [False] * len(contents))
    waits = [cosine is None for cosine in cosines]
    by_words = fitted("text", "words").probabilities(found)
    return np.where(waits, by_words, fitted("text", by).probabilities(found))


def with_told(evidence: Evidence, told: float, by: By) -> Evidence:
    """Return the evidence of a context whose best memory or passage answers with the probability `told`.

    What messages do not say, one of these may.
    """
    level = level_of_text(told, by)
    if LEVELS.index(level) <= LEVELS.index(evidence.level):
        return evidence
    probability = round(max(told, evidence.probability), 4)
    return replace(evidence, level=level, probability=probability, told=told)


def level_of_text(best: float, by: By) -> EvidenceLevel:
    """Return whether the best memory, or passage, that was found for a question answers it."""
    if best < LIMIT:
        return "none"
    return "strong" if best >= fitted("text", by).strong_from else "weak"
