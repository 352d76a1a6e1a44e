"""The coverage of an evaluation, drawn."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.errors import SettingsError

PLOTTED_BUDGETS = (200, 400, 600, 800, 1200, 1600, 2000, 3000, 4000)


def require_drawing() -> None:
    """Raise `SettingsError` now, rather than after minutes, when nothing here can draw."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SettingsError("drawing needs the `eval` extra: pip install 'backscroll[eval]'") from None


def draw(tables: Mapping[str, Any], file: Path) -> None:
    """Draw the coverage by budget of each category and of all as a PNG; `tables` are those of `measures.tables`."""
    require_drawing()
    # the object interface: pyplot would keep figures and look for a screen
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for name, part in {"all": tables, **tables["by_category"]}.items():
        budgets = [int(budget) for budget in part["coverage"]]
        shares = [100 * share for share in part["coverage"].values()]
        label, width = f"{name} ({part['questions']} questions)", 2.5 if name == "all" else 1
        axes.plot(budgets, shares, marker=".", linewidth=width, label=label)
    axes.set(xlabel="tokens of the context", ylabel="evidence in it, %", ylim=(0, 102))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, format="png")
