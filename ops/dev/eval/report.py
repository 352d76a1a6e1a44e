"""The evaluations for people, as tables."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.table import Table

from ops.dev.eval.measures import OURS

_GROUPS = {
    "by_chat_kind": "kind of chat",
    "by_language": "language",
    "by_kind": "kind of question",
    "by_chat": "chat",
}
_COLUMNS = [
    *(("turn", k) for k in ("5", "10", "20")),
    *(("session", k) for k in ("3", "5", "10")),
    *(("coverage", budget) for budget in ("800", "2000")),
]
_HEADS = {"turn": "R@", "session": "S@", "coverage": "C "}
_LEVELS_EXPLAINED = (
    "R, S: of the evidence among the first messages, of its sessions among the first sessions.\n"
    "C: of the answer's pieces in a context of that many tokens."
)


def chats_tables(tables: Mapping[str, Any]) -> Iterator[Table]:
    """Show the ways of searching side by side, Backscroll by groups of questions, and what contexts show."""
    heads = [*_heads(), "astray 800", "2000"]
    title = f"{tables['questions']} questions with an answer on {len(tables['chats'])} chats; shares in %"
    ways = _table(title, ("way",), heads)
    for way, part in tables["all"].items():
        ways.add_row(way, *_way_cells(part))
    ways.caption = (
        f"{_LEVELS_EXPLAINED} Astray: unexpected pieces shown, of how many.\n"
        "Sum: BM25 and cosine, each spread from 0 to 1 over the chat, untuned."
    )
    yield ways
    others = [way for way in tables["all"] if way != OURS]
    for group, label in _GROUPS.items():
        if len(tables[group]) > 1:
            table = _table(f"{OURS}, and R@10 of plain search", (label,), ["n", *heads, *others])
            for name, part in tables[group].items():
                plain = [_percent(part[way]["turn"]["10"]) for way in others]
                table.add_row(name, str(part["questions"]), *_way_cells(part[OURS]), *plain)
            yield table
    yield _precision_table(tables["precision"])


def _precision_table(precision: Mapping[str, Any]) -> Table:
    """Show how much of the contexts is about the question, at both budgets; by kind of chat at the larger one."""
    heads = ["used", "tokens", "no recent", "sessions", "best 3", "fell back", "no answer"]
    table = _table("What contexts show; shares in %", ("", "budget"), heads)
    largest = max(precision["all"], key=int)
    rows = [("all", budget, found) for budget, found in precision["all"].items()]
    rows += [(name, largest, part[largest]) for name, part in precision["by_chat_kind"].items()]
    for name, budget, found in rows:
        shares = [found["tokens"], found["tokens_without_history"], found["sessions"]["share"]]
        shares += [found["best_three"]["share"], found["fell_back"]]
        used, unanswered = _whole(found["used_tokens"]), _whole(found["without_answer"]["used_tokens"])
        table.add_row(name, f"{int(budget):,}", used, *map(_percent, shares), unanswered)
    table.caption = (
        "Used: tokens of a context; no answer: of one for a question that has none. Tokens: of the lines shown, those\n"
        "in evidence or within two messages of it; no recent: without recent talk. Sessions, best 3 messages: in a\n"
        "session that holds evidence. Fell back: searched the whole chat."
    )
    return table


def group_tables(found: Mapping[str, Any]) -> Iterator[Table]:
    """Show the questions of small chats by themselves and in the large group, and the difference in points."""
    rows = {"all": found["all"], **found["by_part"], **found["by_kind"]}
    size = f"{found['people']} people, {found['messages']:,} messages"
    title = f"{found['questions']} questions in small chats, and in a group of {size}; shares in %"
    columns = [(level, k) for level, k in _COLUMNS if level != "session" or k == "5"]
    heads = [f"{_HEADS[level]}{k}\n{place}" for level, k in columns for place in ("", "group", "±")]
    table = _table(title, ("", "way"), ["n", *heads])
    for name, part in rows.items():
        for way in part["points"] if name == "all" else (OURS,):
            cells = []
            for level, k in columns:
                cells += [_percent(part[place][way][level].get(k), 0) for place in ("alone", "group")]
                points = part["points"][way][level].get(k)
                cells.append("–" if points is None else f"{points:+.1f}")
            table.add_row(name, way, str(part["questions"]), *cells)
        table.add_section()
    intervals = [f"{way}: {_intervals(levels, columns)}" for way, levels in found["all"]["intervals"].items()]
    difference = "±: points in the group less those alone; 95 % confidence intervals over all questions:"
    table.caption = "\n".join([_LEVELS_EXPLAINED, difference, *intervals])
    yield table


def fit_tables(found: Mapping[str, Any]) -> Iterator[Table]:
    """Show the weights with what each feature is worth, and how well they rank beside the shipped ones."""
    judged = found["held"]["questions"] or found["fit"]["questions"]
    title = f"Weights, and points lost without each on {judged} held questions"
    features = _table(title, ("feature",), ["weight", "", "n", "R@5", "R@10"])
    for name, part in found["features"].items():
        lost = [f"{100 * points:+.1f}" for points in part["lost"].values()]
        kept = "kept" if name in found["fixed"] else ""
        features.add_row(name, f"{found['weights'][name]:.2f}", kept, str(part["questions"]), *lost)
    features.caption = (
        "n: questions in which the feature tells candidates apart. Without it all else is fitted anew."
    )
    yield features
    title = f"L2 {found['l2']:g}, {found['pairs']:,} pairs; shares in %"
    ranking = _table(title, ("", "weights"), ["n", "R@5", "R@10"])
    for strength, shares in found["cross_validated"].items():
        cells = [str(found["fit"]["questions"]), *map(_percent, shares.values())]
        ranking.add_row("one chat left out", f"L2 {strength}", *cells)
    for part in ("fit", "held"):
        for weights in ("shipped", "fitted") if found[part]["questions"] else ():
            shares = found[part][weights].values()
            ranking.add_row(part, weights, str(found[part]["questions"]), *map(_percent, shares))
    yield ranking


def _table(title: str, left: Iterable[str], right: Iterable[str]) -> Table:
    """Draw a table with headings of words, and of figures."""
    table = Table(*left, title=title)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _percent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else f"{100 * share:.{digits}f}"


def _whole(tokens: float | None) -> str:
    return "–" if tokens is None else f"{tokens:,.0f}"


def _heads() -> list[str]:
    return [_HEADS[level] + k for level, k in _COLUMNS]


def _way_cells(part: Mapping[str, Any]) -> list[str]:
    shares = [_percent(part[level].get(k)) for level, k in _COLUMNS]
    return shares + [f"{count} of {part['unexpected_of']}" for count in part["unexpected"].values()]


def _intervals(levels: Mapping[str, Any], columns: Iterable[tuple[str, str]]) -> str:
    ends = [(_HEADS[level] + k, levels[level].get(k)) for level, k in columns]
    return ", ".join(f"{head} {each[0]:+.1f} to {each[1]:+.1f}" for head, each in ends if each)
