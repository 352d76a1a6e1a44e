"""The evaluations for people, as tables of percentages."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from ops.dev.eval.measures import COUNTS, GROUPS, OURS
from ops.dev.figures import table

_EXPLAINED = (
    "R, S: of the evidence among the first messages, of its sessions among the first sessions.\n"
    "C: of the answer's pieces in a context of that many tokens. Astray: unexpected pieces shown, of how many.\n"
    "Sum: BM25 and cosine, each spread from 0 to 1 over the chat, untuned."
)
_SHOWN_EXPLAINED = (
    "Used: tokens of a context. About: of the lines' tokens, those in evidence or within two messages of it.\n"
    "Best 3 messages: in a session that holds evidence. Fell back: searched the whole chat."
)


def chats_tables(tables: Mapping[str, Any]) -> Iterator[Table]:
    """Show the ways of searching side by side, Backscroll by groups of questions, and what contexts show."""
    title = f"{tables['questions']} questions with an answer on {len(tables['chats'])} chats; shares in %"
    yield table(title, {way: _cells(row) for way, row in tables["all"].items()}, _EXPLAINED)
    plain_ways = [way for way in tables["all"] if way != OURS]
    for group in GROUPS:
        if len(tables[f"by_{group}"]) > 1:
            rows = {
                name: {"n": part["questions"], **_cells(part[OURS])}
                | {way: percent(part[way].get("R@10")) for way in plain_ways}
                for name, part in tables[f"by_{group}"].items()
            }
            yield table(f"{OURS} by {group}, and R@10 of plain search", rows)
    shown = {name: _cells(row) for name, row in tables["shown"].items()}
    yield table("What contexts show; shares in %", shown, _SHOWN_EXPLAINED)


def fit_tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """Show the weights, and how well they rank beside the shipped ones."""
    weights = {
        name: {"weight": weight, "by hand": "yes" if name in result["by_hand"] else ""}
        for name, weight in result["weights"].items()
    }
    yield table("Weights", weights)
    ranking = {f"L2 {l2}, one chat left out": shares for l2, shares in result["cross_validated"].items()}
    ranking |= {f"{which} weights": result[which] for which in ("shipped", "fitted")}
    rows = {
        name: {f"R@{k}": percent(share) for k, share in shares.items()} for name, shares in ranking.items()
    }
    title = f"{result['questions']} questions, {result['pairs']:,} pairs, L2 {result['l2']:g}; shares in %"
    yield table(title, rows)


def memories_tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """Show what was learned, a column for each way to learn."""
    rows: dict[str, dict[str, Any]] = {}
    for way, figures in result.items():
        for name, value in _flat(figures):
            rows.setdefault(name, {})[way] = percent(value) if isinstance(value, float) else value
    yield table("What is learned from the sample of facts; shares in %", rows)


def _flat(figures: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the figures of nested groups, with the groups' names before theirs."""
    for name, value in figures.items():
        label = f"{above}{name.replace('_', ' ')}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{label}: ")
        else:
            yield label, value


def percent(share: float | None) -> str:
    """Return a share in per cent."""
    return "–" if share is None else f"{100 * share:.1f}"


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value if name.startswith(("used", *COUNTS)) else percent(value)
        for name, value in row.items()
        if not name.startswith(("right", "shown"))
    }
