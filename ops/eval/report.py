"""The evaluations as tables for people."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.table import Table

from ops.eval.own import KS, WAYS

# Of the many figures those by which a part is judged.
_JUDGED = (
    ("session", "3"),
    ("session", "5"),
    ("session", "10"),
    ("turn", "5"),
    ("turn", "10"),
    ("turn", "20"),
)
_TOP = ("top3_relevant", "top3_precision", "top3_on_topic", "top3_sessions")


def locomo_tables(tables: Mapping[str, Any]) -> Iterator[Table]:
    """How much of the evidence was found, by category; what each part is worth; what fitting has added."""
    names = ", ".join(tables["conversations"])
    found = Table(title=f"{tables['questions']} questions on {names}; shares in %")
    for name in ("questions", "what", "mean", "any", "all"):
        found.add_column(name, justify="left" if name in {"questions", "what"} else "right")
    for name, part in {"all": tables, **tables["by_category"]}.items():
        label = f"{name} ({part['questions']})"
        for level in ("session", "turn"):
            for k in part[level]["mean"]:
                shares = [_tenths(part[level][kind][k]) for kind in ("mean", "any", "all")]
                found.add_row(label, f"{level} R@{k}", *shares)
                label = ""
        for budget, share in part["coverage"].items():
            found.add_row("", f"coverage, {int(budget):,} tokens", _tenths(share), "", "")
        found.add_section()
    yield found
    if "ablated" in tables:
        yield _compared("Without one part: percentage points lost (-) or won", tables, tables["ablated"])
    if "leave_one_out" in tables:
        others = {"each by weights chosen on the others": tables["leave_one_out"]}
        yield _compared("By the shipped weights, and what others would change", tables, others)


def _compared(title: str, base: Mapping[str, Any], others: Mapping[str, Any]) -> Table:
    """The means of one run, and how far others are from them."""
    table = Table(title=title)
    table.add_column("")
    for level, k in _JUDGED:
        table.add_column(f"{level} R@{k}", justify="right")
    budgets = list(next(iter(others.values()))["coverage"])
    for budget in budgets:
        table.add_column(f"{int(budget):,} tok.", justify="right")
    before = _judged(base, budgets)
    table.add_row("all as it is", *map(_tenths, before))
    table.add_section()
    for name, other in others.items():
        differences = [now - then for then, now in zip(before, _judged(other, budgets), strict=True)]
        table.add_row(name, *(f"{100 * each:+.1f}" for each in differences))
    return table


def _judged(tables: Mapping[str, Any], budgets: Iterable[str]) -> list[float]:
    return [
        *(tables[level]["mean"][k] for level, k in _JUDGED),
        *(tables["coverage"][budget] for budget in budgets),
    ]


def _tenths(share: float) -> str:
    return f"{100 * share:.1f}"


def own_tables(tables: Mapping[str, Any]) -> Iterator[Table]:
    """How much was found, by chat and kind, and what came back where there was nothing to find.

    In every cell Backscroll's figure stands before that of plain vector search.
    """
    found = Table(
        title=f"Backscroll / plain vector search: shares in %, contexts of {tables['budget']} tokens",
        caption="Top 3: any evidence among the first three hits; precision: how much of what could stand there\n"
        "does; on topic: how many of the three lie in a session with evidence.\n"
        "Sessions: any evidence in the first three sessions.\n"
        "Complete: every expected piece in the context. Noise: unexpected pieces shown, of how many.",
    )
    heads = (
        "chat, kind",
        "n",
        *(f"R@{k}" for k in KS),
        "top 3",
        "precision",
        "on topic",
        "sessions",
        "complete",
        "noise",
    )
    for name in heads:
        found.add_column(name, justify="left" if name == "chat, kind" else "right")
    found.add_row(*_row("all", tables["all"]))
    for kind, part in sorted(tables["by_kind"].items()):
        found.add_row(*_row(f"  {kind}", part))
    for chat, of_chat in tables["by_chat"].items():
        found.add_section()
        found.add_row(*_row(chat, of_chat))
        if len(of_chat["by_kind"]) > 1:
            for kind, part in sorted(of_chat["by_kind"].items()):
                found.add_row(*_row(f"  {kind}", part))
    yield found

    missing = Table(title="Questions whose answer is nowhere")
    for name in ("", "n", "returned something", "mean top score", "of the answerable", "told apart"):
        missing.add_column(name, justify="right" if name else "left")
    for way, part in tables["unanswerable"].items():
        missing.add_row(way, *(str(value) for value in part.values()))
    yield missing


def _row(label: str, part: Mapping[str, Any]) -> list[str]:
    ways = [part[way] for way in WAYS]
    return [
        label,
        str(part["questions"]),
        *(" / ".join(_percent(way["recall"][str(k)]) for way in ways) for k in KS),
        *(" / ".join(_percent(way[name]) for way in ways) for name in _TOP),
        " / ".join(str(way["complete_count"]) for way in ways),
        " / ".join(str(way["noise_count"]) for way in ways) + f" of {ways[0]['noise_of']}",
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"
