"""Each conversation read with weights that were chosen on the others only, which shows what fitting has added.

The search goes coordinate by coordinate, from a start that knows nothing of the conversations: every piece of evidence
counts a quarter of the words, meaning a half, and what is around counts half a step away. Each weight in turn is tried
at nothing, half and twice its value, and a better one is kept, for some rounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ops.dev.eval.gather import Gathered, measured
from ops.dev.eval.measures import SESSION_KS, TURN_KS, QuestionShares, share_found, tables
from ops.dev.observe import Say
from pipeline.ranking.bm25 import session_words
from pipeline.ranking.model import Candidate, Weights
from pipeline.ranking.rank import SECOND, SESSION_WORDS

ROUNDS = 2
_START = {
    "words": 1.0,
    "meaning": 0.5,
    "asks": -0.25,
    "decay": 0.5,
    "decay_back": 0.5,
    "burst_step": 1.0,
    "half_substance": 1.0,
}
_DAYS = 7.0
# The scale of all others, and so never tried.
_FIXED = frozenset({"words"})
# Shares, which do not grow above 1.
_SHARES = frozenset({"decay", "decay_back", "burst_step"})
# Those that shape a part without being its factor, and are not shares.
_SCALES = frozenset({"half_substance", "date_half_life_days"})
# All others are factors of the parts that a score is the sum of.
ADDED = tuple(field.name for field in fields(Weights) if field.name not in _SHARES | _SCALES)
Matrix: TypeAlias = NDArray[np.float64]


def start() -> Weights:
    """Weights that were chosen on nothing."""
    names = [field.name for field in fields(Weights)]
    return Weights(**{name: _START.get(name, _DAYS if name.endswith("_days") else 0.25) for name in names})


def leave_one_out(
    by_conversation: Mapping[str, Sequence[Gathered]],
    budgets: tuple[int, ...],
    progress: Say,
) -> dict[str, Any]:
    """Judge each question by weights chosen on the other conversations; return the tables and these weights."""
    answered: list[QuestionShares] = []
    chosen: dict[str, Any] = {}
    for name, ours in by_conversation.items():
        others = [one for other, them in by_conversation.items() if other != name for one in them]
        weights = search(others, lambda stage, name=name: progress(f"for {name}: {stage}"))  # type: ignore[misc]
        answered += [measured(one, budgets, weights=weights) for one in ours]
        chosen[name] = asdict(weights)
    return tables(answered) | {"weights": chosen}


def search(gathered: Sequence[Gathered], progress: Say) -> Weights:
    """Search the weights that find most of the evidence of these questions."""
    best, tried = start(), Tried(gathered)
    score = tried.goodness(best)
    for turn in range(1, ROUNDS + 1):
        for field in fields(Weights):
            if field.name in _FIXED:
                continue
            progress(f"round {turn} of {ROUNDS}, {field.name}, {100 * score:.1f} % found")
            for value in _tried(field.name, getattr(best, field.name)):
                other = replace(best, **{field.name: value})
                found = tried.goodness(other)
                if found > score:
                    best, score = other, found
    return best


def _tried(name: str, now: float) -> list[float]:
    if name in _SCALES:
        return [now / 2, now * 2]
    if name in _SHARES:
        return [now / 2, min(1.0, now * 1.5)]
    return [0.0, now / 2, now * 2] if now else [_START.get(name, 0.25)]


class Tried:
    """How good weights are on some questions.

    A score is a sum of parts, each its weight times what was found: candidates are ranked anew only when a weight
    changes that shapes the parts, such as `decay`, and else added up by numpy.
    """

    def __init__(self, gathered: Sequence[Gathered]) -> None:
        self._gathered = gathered
        self._shape: Weights | None = None
        self._parts: list[_Parts] = []

    def goodness(self, weights: Weights) -> float:
        """Return the mean share of the evidence among the first sessions and turns, over all ks."""
        shape = replace(weights, **dict.fromkeys(ADDED, 1.0))
        if shape != self._shape:
            self._parts = [_parts(one, shape) for one in self._gathered]
            self._shape = shape
        factors = np.array([getattr(weights, name) for name in ADDED])
        return fmean(self._found(parts, factors) for parts in self._parts)

    def _found(self, parts: "_Parts", factors: Matrix) -> float:
        # a tie goes to the candidate that comes first
        scores = parts.values @ factors
        order = np.argsort(-scores, kind="stable")
        turns = [parts.candidates[i].external_id for i in order[: max(TURN_KS)]]
        best: dict[int, list[float]] = {}
        for i in order:
            session = parts.candidates[i].session
            if session and len(two := best.setdefault(session, [])) < 2:
                two.append(scores[i])
        whole = {
            session: two[0] + SECOND * sum(two[1:]) + SESSION_WORDS * parts.session_words[session]
            for session, two in best.items()
        }
        sessions = sorted(whole, key=lambda session: -whole[session])
        evidence = parts.one.question.evidence
        wanted = {parts.one.filled.session_of[turn] for turn in evidence}
        shares = [share_found(wanted, sessions, k) for k in SESSION_KS]
        return fmean(shares + [share_found(evidence, turns, k) for k in TURN_KS])


class _Parts(NamedTuple):
    """A question's candidates and what each is scored by: `(candidates, len(ADDED))`."""

    one: Gathered
    values: Matrix
    candidates: list[Candidate]
    session_words: Mapping[int, float]


def _parts(one: Gathered, shape: Weights) -> _Parts:
    ranked = one.ranked(shape).ranked
    candidates = [hit.candidate for hit in ranked]
    values = np.array([[hit.parts[name] for name in ADDED] for hit in ranked])
    return _Parts(one, values, candidates, session_words(candidates))
