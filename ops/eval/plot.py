"""Draw how much of the evidence a context holds against its tokens, as a PNG."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.errors import SettingsError

BUDGETS = (200, 400, 600, 800, 1200, 1600, 2000, 3000, 4000)


def require() -> None:
    """Raise `SettingsError` now, rather than after minutes, when nothing here can draw."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SettingsError("drawing needs the `eval` extra: pip install 'backscroll[eval]'") from None


def draw(tables: Mapping[str, Any], file: Path) -> None:
    """The coverage of each category by budget, and of all; `tables` are those of `measures.tables`."""
    require()
    # the object interface: pyplot would keep figures and look for a screen
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    lines = {"all": tables, **tables["by_category"]}
    for name, part in lines.items():
        budgets = [int(budget) for budget in part["coverage"]]
        shares = [100 * share for share in part["coverage"].values()]
        width = 2.5 if name == "all" else 1
        axes.plot(
            budgets, shares, marker=".", linewidth=width, label=f"{name} ({part['questions']} questions)"
        )
    axes.set(xlabel="tokens of the context", ylabel="evidence in it, %", ylim=(0, 102))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, format="png")
