"""What the evaluation over chats counts: pure, from what each way of searching gave for each question."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ops.dev.eval import precision
from ops.dev.eval.measures import share_found
from ops.dev.eval.precision import ContextFigures
from ops.dev.eval.samples import UNANSWERABLE, SampleQuestion
from pipeline.text.truncate import one_line
from schemas.context import Context

BUDGETS = (800, 2000)
TURN_KS = (5, 10, 20)
SESSION_KS = (5,)
OURS, BY_WORDS = "backscroll", "by words"
"""Backscroll as it is, and its ranking without vectors."""


@dataclass(frozen=True, kw_only=True)
class WayResult:
    """What one way of searching gave for one question."""

    # external ids, best first
    ranked: Sequence[str]
    # the sessions that speak most for an answer, best first
    sessions: Sequence[int]
    # of the first; 0 when nothing was found
    top_score: float
    # what a bot would be shown, by budget
    shown: Mapping[int, str]
    # Backscroll's own contexts, by budget; plain search has none
    contexts: Mapping[int, Context] = field(default_factory=dict)


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
    top_score: float


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One question of a chat, and how it went by each way."""

    chat: str
    chat_kind: str
    language: str
    kind: str
    question: str
    by_way: Mapping[str, QuestionFigures]
    # by way and budget, of those that build contexts
    precision: Mapping[str, Mapping[int, ContextFigures]] = field(default_factory=dict)


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
        top_score=found.top_score,
    )


def _share(pieces: Collection[str], text: str) -> float:
    return sum(piece in text for piece in pieces) / len(pieces)


_GROUPS: Mapping[str, Callable[[Answered], str]] = {
    "by_chat_kind": lambda one: one.chat_kind,
    "by_chat": lambda one: one.chat,
    "by_kind": lambda one: one.kind,
    "by_language": lambda one: one.language,
}


def tables(answered: Sequence[Answered], translations: Mapping[str, str]) -> dict[str, Any]:
    """Return what `--json` prints: by way the figures of all questions, and by chat, kind and language.

    Questions without an answer count only under `unanswerable`, and for the tokens that `precision` gives by way and
    budget (`precision.table`). `translations` maps chats to those that they translate: `ratios` are the figures of each
    as shares of the original's.
    """
    having = _having(answered)
    return {
        "questions": len(having),
        "all": by_way(having),
        **{name: _grouped(having, key, by_way) for name, key in _GROUPS.items()},
        "ratios": ratios(having, translations),
        "unanswerable": unanswerable(answered),
        "precision": {
            "all": by_budget(answered),
            **{name: _grouped(answered, key, by_budget) for name, key in _GROUPS.items()},
        },
    }


def _having(answered: Sequence[Answered]) -> list[Answered]:
    return [one for one in answered if one.kind != UNANSWERABLE]


def _grouped(
    answered: Sequence[Answered],
    key: Callable[[Answered], str],
    figures: Callable[[Sequence[Answered]], dict[str, Any]],
) -> dict[str, Any]:
    names = dict.fromkeys(map(key, answered))
    groups = {name: [one for one in answered if key(one) == name] for name in names}
    return {name: {"questions": len(_having(group)), **figures(group)} for name, group in groups.items()}


def by_budget(answered: Sequence[Answered]) -> dict[str, Any]:
    """Return the precision of each way that built contexts for all these questions, by budget."""
    first = answered[0].precision if answered else {}
    return {
        way: {
            str(budget): precision.table(
                *(
                    [one.precision[way][budget] for one in answered if (one.kind == UNANSWERABLE) is missing]
                    for missing in (False, True)
                )
            )
            for budget in first[way]
        }
        for way in first
        if all(way in one.precision for one in answered)
    }


def by_way(answered: Sequence[Answered]) -> dict[str, Any]:
    """Return the means of each way that all these questions were asked by."""
    ways = [
        way for way in (answered[0].by_way if answered else ()) if all(way in one.by_way for one in answered)
    ]
    return {way: means([one.by_way[way] for one in answered]) for way in ways}


def means(figures: Sequence[QuestionFigures]) -> dict[str, Any]:
    """Return the means over questions that have an answer; `complete` is the share with all pieces in the context.

    `unexpected` counts the pieces that lead astray.
    """
    return {
        "turn": _means([one.turn for one in figures]),
        "session": _means([one.session for one in figures]),
        "coverage": _means([one.coverage for one in figures]),
        "complete": _means([{k: float(v == 1) for k, v in one.coverage.items()} for one in figures]),
        "unexpected": {
            str(budget): sum(one.unexpected[budget] for one in figures) for budget in figures[0].unexpected
        },
        "unexpected_of": sum(one.unexpected_of for one in figures),
    }


def _means(shares: Iterable[Mapping[int, float]]) -> dict[str, float]:
    given = [one for one in shares if one]
    return {str(k): round(fmean(one[k] for one in given), 4) for k in given[0]} if given else {}


def ratios(answered: Sequence[Answered], translations: Mapping[str, str]) -> dict[str, Any]:
    """Return, for each translation whose original was asked too, its figures as shares of the original's, by way."""
    found: dict[str, Any] = {}
    for translation, original in translations.items():
        one, other = (by_way([a for a in answered if a.chat == name]) for name in (translation, original))
        shared = [way for way in one if way in other]
        if shared:
            found[translation] = {"of": original} | {way: _ratio(one[way], other[way]) for way in shared}
    return found


def _ratio(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {
        level: {
            k: round(value / other[level][k], 4) if other[level][k] else None
            for k, value in one[level].items()
        }
        for level in ("turn", "session", "coverage")
    }


def unanswerable(answered: Sequence[Answered]) -> dict[str, Any]:
    """Return, by way, the chance that a question with an answer has a higher top score than one without.

    That is the area under the ROC curve: 1 when a threshold could tell them, 0.5 when the score says nothing.
    """
    found: dict[str, Any] = {}
    for way in answered[0].by_way if answered else ():
        scores = [
            (one.kind == UNANSWERABLE, one.by_way[way].top_score) for one in answered if way in one.by_way
        ]
        without = [score for missing, score in scores if missing]
        pairs = [(score, other) for missing, score in scores if not missing for other in without]
        apart = round(fmean((a > b) + (a == b) / 2 for a, b in pairs), 4) if pairs else None
        found[way] = {"questions": len(without), "told_apart": apart}
    return found
