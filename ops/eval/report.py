"""The evaluation over the sample chats as tables for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from ops.eval.own import KS, WAYS

_TOP = ("top3_relevant", "top3_precision", "top3_on_topic")


def own_tables(tables: Mapping[str, Any]) -> Iterator[Table]:
    """How much was found, by chat and kind, and what came back where there was nothing to find.

    In every cell Backscroll's figure stands before that of plain vector search.
    """
    found = Table(
        title=f"Backscroll / plain vector search: shares in %, contexts of {tables['budget']} tokens",
        caption="Top 3: any evidence among the first three hits; precision: how much of what could stand there\n"
        "does; on topic: how many of the three lie in a session with evidence.\n"
        "Complete: every expected piece in the context. Noise: unexpected pieces shown, of how many.",
    )
    heads = (
        "chat, kind",
        "n",
        *(f"R@{k}" for k in KS),
        "top 3",
        "precision",
        "on topic",
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
