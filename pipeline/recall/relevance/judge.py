"""Judge what was found for a question: whether the chat knows, and each message, memory and passage. Pure."""

from collections.abc import Sequence

import numpy as np

from pipeline.recall.find.candidate import Statistics
from pipeline.recall.rank.ranked import Scored
from pipeline.recall.relevance import signals
from pipeline.recall.relevance.evidence import By, Evidence
from pipeline.recall.relevance.logistic import Array, fitted
from pipeline.text.excerpt import Wanted
from schemas.evidence import EvidenceLevel

LIMIT = 0.45
"""Minimum worth to be shown; see `worths`."""
MIN_MESSAGES = 50
"""Messages of a chat below which nobody can say that it does not know: their cosines have no distribution."""
NEAREST = 3
"""Messages shown where there is no evidence, marked as such."""


def messages(hits: Sequence[Scored], statistics: Statistics, by: By) -> list[Scored]:
    """Return messages by their probability to be an answer, given that there is one, best first; asides come last.

    It is the score from then on, and its parts are those of the logarithm of the odds.
    """
    judge, found = fitted("message", by), signals.of_messages(hits, statistics)
    probabilities = judge.probabilities(found)
    order = sorted(range(len(hits)), key=lambda i: (hits[i].candidate.aside, -probabilities[i]))
    columns = {name: (weight * found[name]).tolist() for name, weight in judge.weights.items()}
    return [
        hits[i]._replace(
            score=float(probabilities[i]),
            parts={"constant": judge.constant, **{name: values[i] for name, values in columns.items()}},
        )
        for i in order
    ]


def evidence(
    ranked: Sequence[Scored], judged: Sequence[Scored], statistics: Statistics, by: By, unsure: str = ""
) -> Evidence:
    """Judge whether a chat knows what it is asked, from its messages as they were ranked, and as they are judged.

    Where it cannot be told, for the reason `unsure`, or as the chat has few messages, evidence is never none.
    """
    parts_of = {hit.candidate.id: hit for hit in ranked}
    best_first = [parts_of[hit.candidate.id] for hit in judged if not hit.candidate.aside]
    probabilities = [hit.score for hit in judged if not hit.candidate.aside]
    judge = fitted("question", by)
    found = signals.of_question(best_first, statistics, probabilities)
    probability = float(judge.probabilities(found)[0])
    if statistics.messages < MIN_MESSAGES:
        unsure = (
            unsure or f"the chat has {statistics.messages} messages, and {MIN_MESSAGES} are needed to tell"
        )
    level: EvidenceLevel = "strong" if probability >= judge.strong_from else "weak"
    if probability < judge.none_below and not unsure:
        level = "none"
    parts = {name: round(float(weight * found[name][0]), 4) for name, weight in judge.weights.items()}
    return Evidence(level=level, probability=round(probability, 4), parts=parts, unsure=unsure)


def worths(judged: Sequence[Scored], evidence: Evidence | None) -> list[float]:
    """Return what messages are worth: the probability that the chat knows, times how each stands beside the best.

    Of `signals.BEST` the mean is worth all of it. Without evidence only the `NEAREST` are worth showing. Asides are
    worth nothing.
    """
    scores = np.array([0.0 if hit.candidate.aside else hit.score for hit in judged])
    best = np.sort(scores)[::-1][: signals.BEST].mean() if len(scores) else 0.0
    relative = np.minimum(scores / best, 1.0) if best > 0 else scores
    if evidence is None:
        return [float(value) for value in relative]
    if evidence.level == "none":
        return [LIMIT if place < NEAREST and value > 0 else 0.0 for place, value in enumerate(relative)]
    return [float(value) for value in relative * max(evidence.probability, LIMIT)]


def texts(
    contents: Sequence[str],
    cosines: Sequence[float | None],
    wanted: Wanted,
    by: By,
    named: Sequence[bool] | None = None,
) -> Array:
    """Return the probability of each memory, or of each passage, to say what is asked; see `signals.of_texts`."""
    found = signals.of_texts(contents, cosines, wanted, named or [False] * len(contents))
    return fitted("text", by).probabilities(found)


def level_of_text(best: float, by: By) -> EvidenceLevel:
    """Return whether the best memory, or passage, that was found for a question answers it."""
    if best < LIMIT:
        return "none"
    return "strong" if best >= fitted("text", by).strong_from else "weak"
