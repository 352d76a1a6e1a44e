"""Logistic regression, as the judge applies it. Pure."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """Weights of signals, by name, and a constant: together the logarithm of the odds."""

    constant: float
    weights: Mapping[str, float]
    # of questions, the probabilities below which there is no evidence, and from which on it is strong
    none_below: float = 0.0
    strong_from: float = 1.0

    def probabilities(self, signals: Mapping[str, Array]) -> Array:
        """Return the probability of each row; signals without a weight do not count."""
        odds = self.constant + sum(weight * signals[name] for name, weight in self.weights.items())
        # beyond this an exponential overflows, and nothing changes any more
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -60.0, 60.0))), dtype=np.float64)


@cache
def fitted(judged: str, by: str) -> Logistic:
    """Return the fitted weights for what is `judged` (`question`, `message`, `text`), and what it can be judged `by`.

    That is `both`, `words`, or `meaning`.
    """
    table = tomllib.loads((files(__package__) / "fitted.toml").read_text("utf-8"))[judged][by]
    own = {name: table.pop(name) for name in ("constant", "none_below", "strong_from") if name in table}
    return Logistic(weights=table, **own)
