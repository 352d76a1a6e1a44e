"""What evaluations count: pure, a row of figures for each question and way of searching, and the means of rows.

`R@k` and `S@k` are the shares of the evidence among the first k messages, and of its sessions among the first k; `C n`
the share of the answer's pieces in a context of n tokens; `astray n` counts the pieces in it that lead astray, of
`astray of` that there could be.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ops.dev.eval.samples import UNANSWERABLE, SampleQuestion
from pipeline.text.truncate import one_line
from schemas.context import Context

BUDGETS = (800, 2000)
TURN_KS = (5, 10, 20)
SESSION_KS = (3, 5, 10)
OURS = "backscroll"
# Blocks that nobody recalled: the question and the standing orders.
NOT_RECALLED = frozenset({"guardrails", "question"})
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
    kind: str
    question: str
    by_way: Mapping[str, Row]
    # what Backscroll's own contexts show, as `precision` counts it
    shown: Row


def measured(case: SampleQuestion, session_of: Mapping[str, int], result: WayResult) -> Row:
    """Measure what a way gave for a question; one without an answer has no shares."""
    wanted = holding(case, session_of)
    pieces, astray = list(map(one_line, case.tokens)), list(map(one_line, case.unexpected))
    row: dict[str, float] = {"astray of": len(astray)}
    if case.evidence:
        evidence = set(case.evidence)
        row |= {f"R@{k}": len(evidence.intersection(result.ranked[:k])) / len(evidence) for k in TURN_KS}
    if wanted:
        row |= {f"S@{k}": len(wanted.intersection(result.sessions[:k])) / len(wanted) for k in SESSION_KS}
    for budget, shown in result.shown.items():
        text = one_line(shown)
        row[f"astray {budget}"] = sum(piece in text for piece in astray)
        if pieces:
            row[f"C {budget}"] = sum(piece in text for piece in pieces) / len(pieces)
    return row


def holding(case: SampleQuestion, session_of: Mapping[str, int]) -> set[int]:
    """Return the sessions that hold evidence."""
    return {session_of[id_] for id_ in case.evidence if id_ in session_of}


def precision(context: Context, sessions: Collection[int]) -> Row:
    """Return what a context shows, and how much of it is right: in `sessions`, those that hold evidence.

    `used`: tokens of the whole context. `best 3`: of the messages found, those in a session that holds evidence. `fell
    back`: whether a profile that narrows to sessions searched the whole chat, as none fits.
    """
    best = context.explain.messages[:3] if context.explain else []
    return {
        "used": context.used_tokens,
        "shown best 3": len(best),
        "right best 3": sum(hit.session_id in sessions for hit in best),
        "fell back": context.fell_back,
    }


def recalled_text(context: Context) -> str:
    """Return the text of a context that was recalled, without the question and the standing orders."""
    return "\n".join(block.text for block in context.blocks if block.kind not in NOT_RECALLED)


def means(rows: Sequence[Row]) -> Row:
    """Return the mean of each figure over the rows that have it; counts are summed, and `right X` is of `shown X`."""
    figures: dict[str, float] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        figures[name] = sum(values) if name.startswith(COUNTS) else round(fmean(values), 4)
    for name in [name.removeprefix("shown ") for name in figures if name.startswith("shown ")]:
        if count := figures[f"shown {name}"]:
            figures[name] = round(figures[f"right {name}"] / count, 4)
    return figures


def summed_up(answered: Sequence[Answered]) -> dict[str, Any]:
    """Return what `--json` prints: by way the figures of all questions with an answer, and of those of each chat.

    `shown` is what Backscroll's contexts show, for questions with an answer and without.
    """
    having = [answer for answer in answered if answer.kind != UNANSWERABLE]
    without = [answer.shown for answer in answered if answer.kind == UNANSWERABLE]
    chats: dict[str, list[Answered]] = {answer.chat: [] for answer in answered}
    for answer in having:
        chats[answer.chat].append(answer)
    return {
        "questions": len(having),
        "chats": list(chats),
        "all": _by_way(having),
        "by_chat": {name: {"questions": len(group), **_by_way(group)} for name, group in chats.items()},
        "shown": {"with answer": means([answer.shown for answer in having]), "without": means(without)},
    }


def _by_way(answered: Sequence[Answered]) -> dict[str, Row]:
    ways = answered[0].by_way if answered else ()
    return {way: means([answer.by_way[way] for answer in answered]) for way in ways}
