"""What evaluations count: pure, a row of figures for each question and way of searching, and the means of rows.

`R@k` and `S@k` are the shares of the evidence among the first k messages, and of its sessions among the first k; `C n`
the share of the answer's pieces in a context of n tokens; `astray n` counts the pieces in it that lead astray, of
`astray of` that there could be.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ops.dev.eval.samples import UNANSWERABLE, SampleQuestion
from pipeline.text.truncate import one_line

BUDGETS = (800, 2000)
TURN_KS = (5, 10, 20)
SESSION_KS = (3, 5, 10)
OURS = "backscroll"
# Figures whose names begin so are counts, of which sums are shown; all others are shares or sizes.
COUNTS = ("astray", "right", "shown")

Row = Mapping[str, float]
"""Figures of one question, or the means of many."""


@dataclass(frozen=True, kw_only=True)
class WayResult:
    """What one way of searching gave for one question."""

    # external ids, best first
    ranked: Sequence[str]
    # the sessions that speak most for an answer, best first
    sessions: Sequence[int]
    # what a bot would be shown, by budget
    shown: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One question of a chat, and how it went by each way."""

    chat: str
    language: str
    kind: str
    question: str
    by_way: Mapping[str, Row]
    # what Backscroll's own contexts show, as `precision` counts it
    shown: Row = field(default_factory=dict)


GROUPS = ("language", "kind", "chat")
"""What questions are grouped by."""


def share_found(evidence: Iterable[Hashable], ranked: Sequence[Hashable], k: int) -> float:
    """Return the share of the evidence among the first `k`."""
    wanted = set(evidence)
    return len(wanted & set(ranked[:k])) / len(wanted)


def measured(case: SampleQuestion, session_of: Mapping[str, int], result: WayResult) -> Row:
    """Measure what a way gave for a question; one without an answer has no shares."""
    wanted = {session_of[id_] for id_ in case.evidence if id_ in session_of}
    pieces, astray = list(map(one_line, case.tokens)), list(map(one_line, case.unexpected))
    row: dict[str, float] = {"astray of": len(astray)}
    if case.evidence:
        row |= {f"R@{k}": share_found(case.evidence, result.ranked, k) for k in TURN_KS}
    if wanted:
        row |= {f"S@{k}": share_found(wanted, result.sessions, k) for k in SESSION_KS}
    for budget, shown in result.shown.items():
        text = one_line(shown)
        row[f"astray {budget}"] = _held(astray, text)
        if pieces:
            row[f"C {budget}"] = _held(pieces, text) / len(pieces)
    return row


def _held(pieces: Collection[str], text: str) -> int:
    return sum(piece in text for piece in pieces)


def means(rows: Sequence[Row]) -> Row:
    """Return the mean of each figure over the rows that have it; counts are summed, and `right X` is of `shown X`."""
    figures: dict[str, float] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        figures[name] = sum(values) if name.startswith(COUNTS) else round(fmean(values), 4)
    for name in [
        name.removeprefix("shown ") for name, count in figures.items() if name[:6] == "shown " and count
    ]:
        figures[name] = round(figures[f"right {name}"] / figures[f"shown {name}"], 4)
    return figures


def tables(answered: Sequence[Answered]) -> dict[str, Any]:
    """Return what `--json` prints: by way the figures of all questions, and by chat, kind and language.

    `shown` is what Backscroll's contexts show, for questions with an answer and without.
    """
    having = [answer for answer in answered if answer.kind != UNANSWERABLE]
    without = [answer for answer in answered if answer.kind == UNANSWERABLE]
    return {
        "questions": len(having),
        "chats": list(dict.fromkeys(answer.chat for answer in answered)),
        "all": _by_way(having),
        **{f"by_{name}": _grouped(having, name) for name in GROUPS},
        "shown": {
            "with answer": means([answer.shown for answer in having]),
            "without": means([answer.shown for answer in without]),
        },
    }


def _by_way(answered: Sequence[Answered]) -> dict[str, Row]:
    ways = answered[0].by_way if answered else ()
    return {way: means([answer.by_way[way] for answer in answered]) for way in ways}


def _grouped(answered: Sequence[Answered], by: str) -> dict[str, Any]:
    """Return the figures of each group of questions, by its name."""
    groups: dict[str, list[Answered]] = {}
    for answer in answered:
        groups.setdefault(getattr(answer, by), []).append(answer)
    return {name: {"questions": len(group), **_by_way(group)} for name, group in groups.items()}
