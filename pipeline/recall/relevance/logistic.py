"""Logistic regression, as the judge applies it. Pure."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

LIMITS = ("constant", "none_below", "full_from", "strong_from")
"""What a table holds beside weights."""
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """Weights of signals, by name, and a constant: together the logarithm of the odds."""

    constant: float
    weights: Mapping[str, float]
    # the probabilities below which there is no evidence, from which on it takes nothing from what lines are worth, and
    # from which on it is strong
    none_below: float = 0.0
    full_from: float = 1.0
    strong_from: float = 1.0

    def probabilities(self, signals: Mapping[str, Array]) -> Array:
        """Return the probability of each row; signals without a weight do not count."""
        odds = self.constant + sum(weight * signals[name] for name, weight in self.weights.items())
        # beyond this an exponential overflows, and nothing changes any more
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -60.0, 60.0))), dtype=np.float64)


@cache
def fitted(judged: str, by: str) -> Logistic:
    """Return the fitted weights for what is `judged` (`question`, `text`), and what it can be judged `by`.

    That is `both`, `words`, or `meaning`.
    """
    table = tomllib.loads((files(__package__) / "fitted.toml").read_text("utf-8"))[judged][by]
    own = {name: table.pop(name) for name in LIMITS if name in table}
    return Logistic(weights=table, **own)
