"""What each part of retrieval is worth: turned off one at a time, everything else as it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from ops.eval.gather import Gathered, measured
from ops.eval.measures import Answered, tables
from pipeline.ranking.model import Weights
from pipeline.retrieval.profiles import Parameters

# What turns a weight off where that is not 0; None: it only shapes another one.
_OFF: Mapping[str, float | None] = {"burst_step": 1.0, "date_half_life_days": None}

Part = Callable[[Gathered], Answered]


def parts(budgets: tuple[int, ...]) -> dict[str, Part]:
    """By name, how a question goes without that part."""

    def without(weight: str, value: float) -> Part:
        return lambda one: measured(
            one, budgets, weights=replace(one.prepared.request.weights, **{weight: value})
        )

    def by(change: Callable[[Gathered], Gathered]) -> Part:
        return lambda one: measured(change(one), budgets, weights=one.prepared.request.weights)

    def with_parameters(change: Callable[[Parameters], Parameters]) -> Part:
        return lambda one: measured(one, budgets, parameters=change(one.prepared.request.parameters))

    found: dict[str, Part] = {
        "vectors (all meaning)": by(lambda one: one.without_vectors()),
        "keywords (all words)": by(lambda one: one.without_words()),
    }
    for field in fields(Weights):
        value = _OFF.get(field.name, 0.0)
        if value is not None:
            found[field.name] = without(field.name, value)
    return found | {
        "session summaries": with_parameters(lambda p: replace(p, sessions=0)),
        "dropping duplicates": with_parameters(lambda p: replace(p, duplicate_jaccard=1.0)),
    }


def ablated(
    gathered: Sequence[Gathered],
    names_stayed: Sequence[Gathered],
    budgets: tuple[int, ...],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Tables as `measures.tables` makes them, without categories, by the name of the part that is off.

    `names_stayed` are the same questions gathered with their names and dates in the query.
    """
    found = {}
    for name, part in parts(budgets).items():
        progress(f"without {name}")
        found[name] = _table([part(one) for one in gathered])
    found["taking names and dates out of the query"] = _table(
        [measured(one, budgets) for one in names_stayed]
    )
    return found


def _table(answered: Sequence[Answered]) -> dict[str, Any]:
    return {name: part for name, part in tables(answered).items() if name != "by_category"}
