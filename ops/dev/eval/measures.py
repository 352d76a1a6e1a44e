"""What an evaluation counts: pure, from the ranks of what was found."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

SESSION_KS = (3, 5, 10)
TURN_KS = (5, 10, 20)
# Bootstrap resamples of a confidence interval.
_RESAMPLES = 2000


def share_found(evidence: Iterable[Hashable], ranked: Sequence[Hashable], k: int) -> float:
    """Return the share of the evidence among the first `k`."""
    wanted = set(evidence)
    return len(wanted & set(ranked[:k])) / len(wanted)


@dataclass(frozen=True, kw_only=True)
class QuestionShares:
    """How one question went."""

    category: str
    # share of its sessions, and of its turns, among the first k
    session: dict[int, float]
    turn: dict[int, float]
    # share of its turns whose text is in the context, by budget
    coverage: dict[int, float]


def tables(answered: Sequence[QuestionShares]) -> dict[str, Any]:
    """Means over the questions, as `--json` prints them; shares from 0 to 1."""
    categories = sorted({one.category for one in answered})
    by_category = {name: table([one for one in answered if one.category == name]) for name in categories}
    return table(answered) | {"by_category": by_category}


def table(answered: Sequence[QuestionShares]) -> dict[str, Any]:
    """Means over the questions, whatever their category."""
    return {
        "questions": len(answered),
        "session": _shares([one.session for one in answered]),
        "turn": _shares([one.turn for one in answered]),
        "coverage": _means([one.coverage for one in answered]),
    }


def _shares(shares: Sequence[dict[int, float]]) -> dict[str, dict[str, float]]:
    """Mean share of the evidence, share of questions with any of it, and with all."""
    return {
        "mean": _means(shares),
        "any": _means([{k: float(v > 0) for k, v in one.items()} for one in shares]),
        "all": _means([{k: float(v == 1) for k, v in one.items()} for one in shares]),
    }


def _means(shares: Sequence[dict[int, float]]) -> dict[str, float]:
    ks = sorted({k for one in shares for k in one})
    return {str(k): round(fmean(one[k] for one in shares), 4) for k in ks}


def confidence_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the mean of values, by the percentile bootstrap.

    Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    resampled = np.random.default_rng(0).choice(np.array(values), (_RESAMPLES, len(values)))
    low, high = np.quantile(resampled.mean(axis=1), (0.025, 0.975))
    return float(low), float(high)
