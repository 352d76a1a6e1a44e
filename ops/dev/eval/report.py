"""The evaluations for people, as tables."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.table import Table

# Of the many figures those by which a part is judged.
_JUDGED = [(level, k) for level, ks in (("session", "3 5 10"), ("turn", "5 10 20")) for k in ks.split()]


def locomo_tables(tables: Mapping[str, Any]) -> Iterator[Table]:
    """Show how much of the evidence was found, by category; what each part is worth; what fitting has added."""
    title = f"{tables['questions']} questions on {', '.join(tables['conversations'])}; shares in %"
    found = _table(title, ("questions", "what"), ("mean", "any", "all"))
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


def _compared(title: str, base: Mapping[str, Any], others: Mapping[str, Any]) -> Table:
    """Show the means of one run, and how far others are from them."""
    budgets = list(next(iter(others.values()))["coverage"])
    heads = [*(f"{level} R@{k}" for level, k in _JUDGED), *(f"{int(budget):,} tok." for budget in budgets)]
    table = _table(title, ("",), heads)
    before = _judged(base, budgets)
    table.add_row("all as it is", *map(_tenths, before))
    table.add_section()
    for name, other in others.items():
        differences = [now - then for then, now in zip(before, _judged(other, budgets), strict=True)]
        table.add_row(name, *(f"{100 * each:+.1f}" for each in differences))
    return table


def _judged(tables: Mapping[str, Any], budgets: Iterable[str]) -> list[float]:
    means = [tables[level]["mean"][k] for level, k in _JUDGED]
    return means + [tables["coverage"][budget] for budget in budgets]


def _tenths(share: float) -> str:
    return f"{100 * share:.1f}"


_GROUPS = {
    "by_chat_kind": "kind of chat",
    "by_language": "language",
    "by_kind": "kind of question",
    "by_chat": "chat",
}
_LEVELS = (("turn", ("5", "10", "20")), ("session", ("5",)), ("coverage", ("800", "2000")))
_HEADS = {"turn": "R@", "session": "S@", "coverage": "C "}
_LEVELS_EXPLAINED = (
    "R, S: of the evidence among the first messages, of its sessions among the first sessions.\n"
    "C: of the answer's pieces in a context of so many tokens."
)
_PLAIN = ("bm25", "vectors", "sum")


def chats_tables(tables: Mapping[str, Any]) -> Iterator[Table]:
    """Show the ways of searching side by side, Backscroll by groups of questions, and the ratios of translations."""
    heads = [*_heads(), "astray 800", "2000"]
    ways = _table(
        f"{tables['questions']} questions with an answer; shares in %", ("way",), [*heads, "told apart"]
    )
    for way, part in tables["all"].items():
        apart = tables["unanswerable"][way]["told_apart"]
        ways.add_row(way, *_way_cells(part), "–" if apart is None else f"{apart:.2f}")
    ways.caption = (
        f"{_LEVELS_EXPLAINED} Astray: unexpected pieces shown, of how many.\n"
        "Told apart: the chance that a question with an answer scores higher than one without.\n"
        "Sum: BM25 and cosine, each spread from 0 to 1 over the chat, untuned."
    )
    yield ways
    ours = next(iter(tables["all"]))
    others = [way for way in _PLAIN if way in tables["all"]]
    for group, label in _GROUPS.items():
        if len(tables[group]) > 1:
            table = _table(f"{ours}, and R@10 of plain search", (label,), ["n", *heads, *others])
            for name, part in tables[group].items():
                plain = [_tenths(part[way]["turn"]["10"]) for way in others]
                table.add_row(name, str(part["questions"]), *_way_cells(part[ours]), *plain)
            yield table
    yield _precision_table(tables["precision"], ours)
    if tables["ratios"]:
        table = _table("Translations: figures as % of the original's", ("translation", "by"), _heads())
        for name, part in tables["ratios"].items():
            for way in (each for each in part if each != "of"):
                cells = [part[way][level].get(k) for level, ks in _LEVELS for k in ks]
                table.add_row(
                    f"{name} / {part['of']}", way, *("–" if c is None else _tenths(c) for c in cells)
                )
        yield table


def _precision_table(precision: Mapping[str, Any], way: str) -> Table:
    """Show how much of the contexts is about the question, at both budgets; by groups at the larger one."""
    heads = ["used", "tokens", "no recent", "headings", "summaries", "memories", "first line", "no answer"]
    table = _table(f"What contexts of {way} show; shares in %", ("", "budget"), heads)
    every = precision["all"][way]
    largest = max(every, key=int)
    rows = [("all", budget, found) for budget, found in every.items()]
    for group in ("by_chat_kind", "by_language"):
        rows += [(name, largest, part[way][largest]) for name, part in precision[group].items()]
    for name, budget, found in rows:
        shares = [found["tokens"], found["tokens_without_history"]]
        shares += [found[kind]["share"] for kind in ("headings", "summaries", "memories")]
        shares.append(found["first_line"])
        table.add_row(
            name,
            f"{int(budget):,}",
            _whole(found["used_tokens"]),
            *("–" if share is None else _tenths(share) for share in shares),
            _whole(found["without_answer"]["used_tokens"]),
        )
    three, fell_back = every[largest]["best_three"]["share"], every[largest]["fell_back"]
    table.caption = (
        "Used: tokens of a context; no answer: of one for a question that has none. Tokens: of the lines shown, those\n"
        "in evidence or within two messages of it; no recent: without recent talk. Headings, summaries: whose session\n"
        "holds evidence. Memories: learned from such messages. First line: of the messages found and the memories.\n"
        f"Of the best three messages of all questions {'–' if three is None else _tenths(three)} % lie in a session "
        f"with evidence; {'–' if fell_back is None else _tenths(fell_back)} % fell back to the whole chat."
    )
    return table


def _whole(tokens: float | None) -> str:
    return "–" if tokens is None else f"{tokens:,.0f}"


def _way_cells(part: Mapping[str, Any]) -> list[str]:
    shares = [_tenths(part[level][k]) if k in part[level] else "–" for level, ks in _LEVELS for k in ks]
    return shares + [f"{count} of {part['unexpected_of']}" for count in part["unexpected"].values()]


def group_tables(found: Mapping[str, Any]) -> Iterator[Table]:
    """Show the questions of small chats by themselves and in the large group, and the difference in points."""
    heads = _heads()
    rows = {"all": found["all"], **found["by_part"], **found["by_kind"]}
    size = f"{found['people']} people, {found['messages']:,} messages"
    title = f"{found['questions']} questions in small chats, and in a group of {size}; shares in %"
    table = _table(
        title, ("", "way"), ["n", *(f"{head}\n{place}" for head in heads for place in ("", "group", "±"))]
    )
    for name, part in rows.items():
        label, count = name, str(part["questions"])
        ways = list(part["points"]) if name == "all" or name in found["by_part"] else list(part["points"])[:1]
        for way in ways:
            cells = []
            for level, ks in _LEVELS:
                for k in ks:
                    shares = [part[place][way][level].get(k) for place in ("alone", "group")]
                    cells += ["–" if share is None else f"{100 * share:.0f}" for share in shares]
                    points = part["points"][way][level].get(k)
                    cells.append("–" if points is None else f"{points:+.1f}")
            table.add_row(label, way, count, *cells)
            label = count = ""
        table.add_section()
    intervals = [f"{way}: {_intervals(levels)}" for way, levels in found["all"]["intervals"].items()]
    difference = "±: points in the group less those alone; 95 % confidence intervals over all questions:"
    table.caption = "\n".join([_LEVELS_EXPLAINED, difference, *intervals])
    yield table


def _heads() -> list[str]:
    return [_HEADS[level] + k for level, ks in _LEVELS for k in ks]


def _intervals(levels: Mapping[str, Any]) -> str:
    ends = (levels[level].get(k) for level, ks in _LEVELS for k in ks)
    shown = (
        f"{head} {each[0]:+.1f} to {each[1]:+.1f}" for head, each in zip(_heads(), ends, strict=True) if each
    )
    return ", ".join(shown)


def fit_tables(found: Mapping[str, Any]) -> Iterator[Table]:
    """Show the weights with what each feature is worth, and how well they rank beside the shipped ones."""
    judged = found["held"]["questions"] or found["fit"]["questions"]
    features = _table(
        f"Weights, and points lost without each on {judged} held questions",
        ("feature",),
        ["weight", "", "n", "R@5", "R@10", ""],
    )
    for name, part in found["features"].items():
        lost = [f"{100 * part['lost'][k]:+.1f}" for k in part["lost"]]
        kept = "kept" if name in found["fixed"] else ""
        small = "< 0.3" if part["small"] else ""
        features.add_row(name, f"{found['weights'][name]:.2f}", kept, str(part["questions"]), *lost, small)
    features.caption = (
        "n: questions in which the feature tells candidates apart. Without it all else is fitted anew."
    )
    yield features
    ranking = _table(
        f"L2 {found['l2']:g}, {found['pairs']:,} pairs; shares in %", ("", "weights"), ["n", "R@5", "R@10"]
    )
    for strength, shares in found["cross_validated"].items():
        ranking.add_row(
            "one chat left out",
            f"L2 {strength}",
            str(found["fit"]["questions"]),
            *map(_tenths, shares.values()),
        )
    for part in ("fit", "held"):
        for weights in ("shipped", "fitted") if found[part]["questions"] else ():
            shares = found[part][weights].values()
            ranking.add_row(part, weights, str(found[part]["questions"]), *map(_tenths, shares))
    for chat, part in found["by_chat"].items():
        for weights, label in (("shipped", "shipped"), ("left_out", "fitted without it")):
            ranking.add_row(chat, label, str(part["questions"]), *map(_tenths, part[weights].values()))
    yield ranking
    pasted = Table("", title="To be pasted", show_header=False, box=None)
    for name, value in found["weights"].items():
        pasted.add_row(f"{name}: float = {value:g}")
    yield pasted


def _table(title: str, left: Iterable[str], right: Iterable[str]) -> Table:
    """Draw a table with headings of words, and of figures."""
    table = Table(*left, title=title)
    for name in right:
        table.add_column(name, justify="right")
    return table
