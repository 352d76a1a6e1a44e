"""Fit the judge of relevance: logistic regressions over what it looks at, each chat left out in turn to choose limits.

Every question counts the same within its source, and every source (the chats written for this, real talk of each kind)
as much as the others. What is judged by words alone is fitted where the space has no meaning, as of hashed words.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from pipeline.recall import relevance
from pipeline.recall.find.candidates import Statistics
from pipeline.recall.rank.rank import Scored
from pipeline.recall.relevance import LIMIT, Array, By, Logistic
from pipeline.text.excerpt import Wanted

Kind = Literal["answerable", "removed", "absent"]
"""Questions that the chat answers, those without their evidence, and those that nobody there ever answered."""
How = Literal["literal", "reworded", "shared", "other"]
"""How a memory or passage is asked for: `shared`, for something near it; `other`, for what was said in the chat."""
OF_WORDS, OF_MEANING = (
    ("coverage", "coverage_together", "session_words", "unknown"),
    ("cosine", "cosine_rise"),
)
QUESTION: Mapping[By, Sequence[str]] = {
    "both": (*OF_WORDS, *OF_MEANING, "score", "score_lead"),
    "words": (*OF_WORDS, "score", "score_lead"),
    "meaning": OF_MEANING,
}
"""What questions are judged by."""
TEXT: Mapping[By, Sequence[str]] = {
    "both": ("coverage", "coverage_far", "coverage_cosine", "cosine", "rise", "far", "named"),
    "words": ("coverage", "coverage_far", "named"),
    "meaning": ("cosine", "rise", "far", "named"),
}
FALLING = ("far", "coverage_far", "unknown")
"""What speaks against an answer, the more of it there is; all else speaks for one, or does not count."""
REMOVED_WEIGHT = 0.3
"""Of a question without its evidence: often something else in the chat answers it as well."""
NONE_OF_ANSWERABLE, LESS_OF_ANSWERABLE, STRONG_OF_ABSENT = 0.03, 0.1, 0.05
"""Shares of mistakes at which evidence is called none, fewer lines are worth showing, or it is called strong."""
SHOWN_OF_LITERAL, SHOWN_OF_REWORDED = 0.97, 0.65
"""Shares of memories and passages to show to someone who asks in the same words, and in other words."""
L2 = 1e-3


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question with what ranking found for it, as the judge gets it."""

    source: str
    chat: str
    kind: Kind
    # best first, without asides
    ranked: Sequence[Scored]
    statistics: Statistics


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The memories, or the passages, that were found for a question."""

    chat: str
    how: How
    wanted: Wanted
    texts: Sequence[str]
    cosines: Sequence[float | None]
    named: Sequence[bool]
    # whether each of the texts answers it
    right: Sequence[bool]


class Rows(NamedTuple):
    """What a logistic regression learns from: signals, whether it is so, what each row counts, and its chat."""

    values: Array
    labels: Array
    counts: Array
    chats: Sequence[str]


def logistic(names: Sequence[str], rows: Rows, l2: float = L2) -> Logistic:
    """Return the weights of the least mean loss, with `l2` times the squares of those of signals in their spread.

    None is above 0 of what is `FALLING`, none below of anything else: signals that resemble each other would be played
    off against each other otherwise, and such weights mean nothing on other chats.
    """
    mean, spread = rows.values.mean(axis=0), rows.values.std(axis=0) + 1e-9
    scaled = np.column_stack([(rows.values - mean) / spread, np.ones(len(rows.labels))])
    counts = rows.counts / rows.counts.sum()

    def cost(at: Array) -> tuple[float, Array]:
        odds = scaled @ at
        loss = counts @ (np.logaddexp(0.0, odds) - rows.labels * odds) + l2 * (at[:-1] @ at[:-1])
        slope = scaled.T @ (counts * (1 / (1 + np.exp(-odds)) - rows.labels))
        slope[:-1] += 2 * l2 * at[:-1]
        return float(loss), slope

    bounds = [(None, 0.0) if name in FALLING else (0.0, None) for name in names]
    start, free = np.zeros(scaled.shape[1]), [(None, None)]
    best = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds + free).x
    weights = best[:-1] / spread
    named = dict(zip(names, np.round(weights, 4).tolist(), strict=True))
    return Logistic(constant=round(float(best[-1] - weights @ mean), 4), weights=named)


def left_out(names: Sequence[str], rows: Rows) -> Array:
    """Return the logarithm of the odds of each row, by what is learned from all chats but its own."""
    chats, odds = np.array(rows.chats), np.zeros(len(rows.labels))
    for chat in sorted(set(rows.chats)):
        inside = chats == chat
        rest = Rows(rows.values[~inside], rows.labels[~inside], rows.counts[~inside], ())
        found = logistic(names, rest)
        odds[inside] = (
            rows.values[inside] @ np.array([found.weights[name] for name in names]) + found.constant
        )
    return odds


def _equally(keys: Sequence[str], within: Array) -> Array:
    """Return what rows count: all of one key as much as all of another."""
    totals: Counter[str] = Counter()
    for key, count in zip(keys, within.tolist(), strict=True):
        totals[key] += count
    return np.array([count / totals[key] for key, count in zip(keys, within.tolist(), strict=True)])


def _columns(found: Mapping[str, Array], names: Sequence[str]) -> Array:
    return np.column_stack([found[name] for name in names])


def question_rows(asked: Sequence[Asked], names: Sequence[str]) -> Rows:
    """Return a row for each question."""
    values = [_columns(relevance.of_question(each.ranked, each.statistics), names)[0] for each in asked]
    counts = np.array([REMOVED_WEIGHT if each.kind == "removed" else 1.0 for each in asked])
    labels = np.array([each.kind == "answerable" for each in asked], np.float64)
    # that the chat knows is as likely as that it does not, of whatever source
    keys = [f"{each.source} {label}" for each, label in zip(asked, labels, strict=True)]
    return Rows(np.array(values), labels, _equally(keys, counts), [each.chat for each in asked])


def text_rows(told: Iterable[Pool], names: Sequence[str]) -> Rows:
    """Return a row for each memory or passage that was found for a question."""
    values: list[Array] = []
    labels: list[bool] = []
    counts: list[float] = []
    chats: list[str] = []
    for each in told:
        values.append(_columns(relevance.of_texts(each.texts, each.cosines, each.wanted, each.named), names))
        labels += each.right
        counts += [1 / len(each.texts)] * len(each.texts)
        chats += [each.chat] * len(each.texts)
    return Rows(np.concatenate(values), np.array(labels, np.float64), np.array(counts), chats)


def fitted(asked: Sequence[Asked], told: Sequence[Pool], by: By) -> dict[str, dict[str, float]]:
    """Fit both judges: their weights, and the probabilities of their levels."""
    rows = question_rows(asked, QUESTION[by])
    question, odds = logistic(QUESTION[by], rows), left_out(QUESTION[by], rows)
    kinds = np.array([each.kind for each in asked])
    weak = float(np.quantile(odds[kinds == "answerable"], NONE_OF_ANSWERABLE))
    full = float(np.quantile(odds[kinds == "answerable"], LESS_OF_ANSWERABLE))
    strong = max(weak, float(np.quantile(odds[kinds == "absent"], 1 - STRONG_OF_ABSENT)))
    rows = text_rows(told, TEXT[by])
    text, odds = logistic(TEXT[by], rows), left_out(TEXT[by], rows)
    hows = np.concatenate([[each.how] * len(each.texts) for each in told])
    # by words alone nothing is found in others
    how, share = ("literal", SHOWN_OF_LITERAL) if by == "words" else ("reworded", SHOWN_OF_REWORDED)
    shift = float(
        np.log(LIMIT / (1 - LIMIT)) - np.quantile(odds[(hows == how) & (rows.labels == 1)], 1 - share)
    )

    # the best that is found where nothing answers
    asked_vainly = np.concatenate([[index] * len(each.texts) for index, each in enumerate(told)])
    vain = [odds[asked_vainly == index].max() for index, each in enumerate(told) if not any(each.right)]
    sure = max(float(np.quantile(vain, 1 - STRONG_OF_ABSENT)) + shift, float(np.log(LIMIT / (1 - LIMIT))))

    def probability(odds: float) -> float:
        return round(float(1 / (1 + np.exp(-odds))), 3)

    return {
        "question": {
            "none_below": probability(weak),
            "full_from": probability(full),
            "strong_from": probability(strong),
            **_table(question),
        },
        "text": {"strong_from": probability(sure)}
        | _table(Logistic(constant=round(text.constant + shift, 4), weights=text.weights)),
    }


def _table(judge: Logistic) -> dict[str, float]:
    return {"constant": judge.constant, **judge.weights}
