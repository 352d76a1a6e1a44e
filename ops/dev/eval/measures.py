"""What evaluations count: pure, from what each way of searching gave for each question."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from ops.dev.eval import precision
from ops.dev.eval.precision import ContextFigures
from ops.dev.eval.samples import UNANSWERABLE, SampleQuestion
from pipeline.text.truncate import one_line

BUDGETS = (800, 2000)
TURN_KS = (5, 10, 20)
SESSION_KS = (3, 5, 10)
LEVELS = ("turn", "session", "coverage")
OURS = "backscroll"
# Bootstrap resamples of a confidence interval.
_RESAMPLES = 2000


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
class QuestionFigures:
    """How one question went by one way; shares from 0 to 1."""

    # of the evidence, and of its sessions, among the first k
    turn: Mapping[int, float]
    session: Mapping[int, float]
    # of the answer's pieces in the context, by budget
    coverage: Mapping[int, float]
    # pieces in the context that lead astray, by budget, and how many there could be
    unexpected: Mapping[int, int]
    unexpected_of: int


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One question of a chat, and how it went by each way."""

    chat: str
    chat_kind: str
    language: str
    kind: str
    question: str
    by_way: Mapping[str, QuestionFigures]
    # what Backscroll's own contexts show, by budget
    precision: Mapping[int, ContextFigures] = field(default_factory=dict)


def share_found(evidence: Iterable[Hashable], ranked: Sequence[Hashable], k: int) -> float:
    """Return the share of the evidence among the first `k`."""
    wanted = set(evidence)
    return len(wanted & set(ranked[:k])) / len(wanted)


def measured(case: SampleQuestion, session_of: Mapping[str, int], found: WayResult) -> QuestionFigures:
    """Measure what a way gave for a question; one without an answer has no shares."""
    shown = {budget: one_line(text) for budget, text in found.shown.items()}
    wanted = {session_of[each] for each in case.evidence if each in session_of}
    pieces = [one_line(token) for token in case.tokens]
    astray = [one_line(piece) for piece in case.unexpected]
    return QuestionFigures(
        turn={k: share_found(case.evidence, found.ranked, k) for k in TURN_KS} if case.evidence else {},
        session={k: share_found(wanted, found.sessions, k) for k in SESSION_KS} if wanted else {},
        coverage={budget: _share(pieces, text) for budget, text in shown.items()} if pieces else {},
        unexpected={budget: sum(piece in text for piece in astray) for budget, text in shown.items()},
        unexpected_of=len(astray),
    )


def _share(pieces: Collection[str], text: str) -> float:
    return sum(piece in text for piece in pieces) / len(pieces)


_GROUPS: Mapping[str, Callable[[Answered], str]] = {
    "by_chat_kind": lambda one: one.chat_kind,
    "by_chat": lambda one: one.chat,
    "by_kind": lambda one: one.kind,
    "by_language": lambda one: one.language,
}


def tables(answered: Sequence[Answered]) -> dict[str, Any]:
    """Return what `--json` prints: by way the figures of all questions, and by chat, kind and language.

    Of questions without an answer only the tokens count that their contexts take, in `precision` (`precision.table`).
    """
    having = with_answer(answered)
    return {
        "questions": len(having),
        "all": by_way(having),
        **{name: grouped(having, key, by_way) for name, key in _GROUPS.items()},
        "precision": {
            "all": by_budget(answered),
            **{name: grouped(answered, key, by_budget) for name, key in _GROUPS.items()},
        },
    }


def with_answer(answered: Iterable[Answered]) -> list[Answered]:
    """Return the questions that have an answer."""
    return [one for one in answered if one.kind != UNANSWERABLE]


def grouped(
    answered: Sequence[Answered],
    key: Callable[[Answered], str],
    figures: Callable[[Sequence[Answered]], dict[str, Any]],
) -> dict[str, Any]:
    """Return the figures of each group of questions, by its name."""
    names = dict.fromkeys(map(key, answered))
    groups = {name: [one for one in answered if key(one) == name] for name in names}
    return {name: {"questions": len(with_answer(group)), **figures(group)} for name, group in groups.items()}


def by_budget(answered: Sequence[Answered]) -> dict[str, Any]:
    """Return how much of Backscroll's contexts is about the question, by budget."""
    having = with_answer(answered)
    without = [one for one in answered if one.kind == UNANSWERABLE]
    return {
        str(budget): precision.table(
            [one.precision[budget] for one in having], [one.precision[budget] for one in without]
        )
        for budget in (answered[0].precision if answered else ())
    }


def by_way(answered: Sequence[Answered]) -> dict[str, Any]:
    """Return the means of each way."""
    ways = answered[0].by_way if answered else ()
    return {way: means([one.by_way[way] for one in answered]) for way in ways}


def means(figures: Sequence[QuestionFigures]) -> dict[str, Any]:
    """Return the means over questions that have an answer; `unexpected` counts the pieces that lead astray."""
    return {
        "turn": _means([one.turn for one in figures]),
        "session": _means([one.session for one in figures]),
        "coverage": _means([one.coverage for one in figures]),
        "unexpected": {
            str(budget): sum(one.unexpected[budget] for one in figures) for budget in figures[0].unexpected
        },
        "unexpected_of": sum(one.unexpected_of for one in figures),
    }


def _means(shares: Iterable[Mapping[int, float]]) -> dict[str, float]:
    given = [one for one in shares if one]
    return {str(k): round(fmean(one[k] for one in given), 4) for k in given[0]} if given else {}


def confidence_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the mean of values, by the percentile bootstrap.

    Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    resampled = np.random.default_rng(0).choice(np.array(values), (_RESAMPLES, len(values)))
    low, high = np.quantile(resampled.mean(axis=1), (0.025, 0.975))
    return float(low), float(high)
