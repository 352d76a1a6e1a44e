"""Ask the questions of the sample chats through the shipped path, and count what was found and shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ops.eval import plain, shipped
from ops.eval.measures import share_found
from ops.eval.plain import PlainSearch
from ops.eval.samples import UNANSWERABLE, Case, samples
from ops.eval.shipped import Shipped
from pipeline.text.truncate import one_line
from schemas.settings import Settings

BUDGET = 800
KS = (3, 5, 10)
TOP = 3
# Of a context, what was recalled: the question and the standing orders are not.
_NOT_RECALLED = frozenset({"guardrails", "question"})
WAYS = ("backscroll", "plain")


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one way of searching gave for one question."""

    # external ids, best first
    ranked: Sequence[str]
    # the sessions that speak most for an answer, best first
    sessions: Sequence[int]
    # of the first; 0 when nothing was found
    top_score: float
    # what a bot would be shown under `BUDGET` tokens, white space as single spaces
    shown: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One question, and what each of `WAYS` gave for it."""

    chat: str
    case: Case
    # by external id, of all messages of the chat
    session_of: Mapping[str, int]
    found: dict[str, Found]


def own(settings: Settings, progress: Callable[[str], None]) -> dict[str, Any]:
    """The tables of `tables` over all sample chats, in one fresh database."""
    outcomes: list[Outcome] = []
    with shipped.temporary(settings) as backscroll:
        for sample in samples():
            backscroll.fill(sample.chat, sample.messages, progress)
            session_of = backscroll.sessions_of(sample.chat.chat_id)
            search = PlainSearch(backscroll.resources.embedder, sample.messages)
            for number, case in enumerate(sample.cases, start=1):
                progress(f"{sample.name}: question {number} of {len(sample.cases)}")
                ours = _ask(backscroll, sample.chat.chat_id, case.question)
                plainly = _search(search, case.question, session_of)
                found = dict(zip(WAYS, (ours, plainly), strict=True))
                outcomes.append(Outcome(chat=sample.name, case=case, session_of=session_of, found=found))
    return tables(outcomes)


def _ask(backscroll: Shipped, chat_id: str, question: str) -> Found:
    context = backscroll.ask(chat_id, question, BUDGET)
    if context.explain is None:
        raise RuntimeError("a context came without its explanation")
    hits = context.explain.messages
    recalled = [block.text for block in context.blocks if block.kind not in _NOT_RECALLED]
    return Found(
        ranked=[hit.external_id for hit in hits if hit.external_id is not None],
        sessions=[int(hit.id) for hit in context.explain.sessions],
        top_score=hits[0].score if hits else 0.0,
        shown=one_line("\n".join(recalled)),
    )


def _search(search: PlainSearch, question: str, session_of: Mapping[str, int]) -> Found:
    ranked = search.ranked(question)
    return Found(
        ranked=[message.external_id for message, _ in ranked],
        sessions=list(dict.fromkeys(session_of[message.external_id] for message, _ in ranked)),
        top_score=ranked[0][1],
        shown=one_line(plain.context(ranked, BUDGET)),
    )


def tables(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """What `--json` prints: for all questions, and by chat and kind, `counted` for each of `WAYS`.

    Questions without an answer are counted apart, under `unanswerable`; see `_unanswered`. `questions` lists
    each one that has an answer: the place of its first evidence, what the context lacks, what it should not show.
    """
    answerable = [one for one in outcomes if one.case.kind != UNANSWERABLE]
    chats = _grouped(answerable, lambda one: one.chat)
    return {
        "budget": BUDGET,
        "all": _part(answerable),
        "by_kind": {kind: _part(group) for kind, group in _grouped(answerable, _kind).items()},
        "by_chat": {
            chat: {
                **_part(group),
                "by_kind": {kind: _part(part) for kind, part in _grouped(group, _kind).items()},
            }
            for chat, group in chats.items()
        },
        "unanswerable": _unanswered(outcomes),
        "questions": [_one(one) for one in answerable],
    }


def _one(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "chat": outcome.chat,
        "kind": case.kind,
        "question": case.question,
        **{
            way: {
                "first": next(
                    (n for n, hit in enumerate(found.ranked, start=1) if hit in case.evidence), None
                ),
                "missing": [token for token in case.tokens if token not in found.shown],
                "noise": [piece for piece in case.unexpected if piece in found.shown],
            }
            for way, found in outcome.found.items()
        },
    }


def _kind(outcome: Outcome) -> str:
    return outcome.case.kind


def _grouped(outcomes: Iterable[Outcome], key: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault(key(one), []).append(one)
    return groups


def _part(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {"questions": len(outcomes), **{way: counted(outcomes, way) for way in WAYS}}


def counted(outcomes: Sequence[Outcome], way: str) -> dict[str, Any]:
    """Means over questions that have an answer; shares from 0 to 1.

    - `recall`: by K, the mean share of the evidence among the first K.
    - `top3_relevant`: the share of questions with any evidence among the first three.
    - `top3_precision`: of the first three, the mean share that is evidence, where less than three messages are
      evidence of as many as could be: |first 3 ∩ evidence| / min(3, |evidence|).
    - `top3_on_topic`: of the first three, the mean share that lies in a session with evidence.
    - `top3_sessions`: the share of questions with evidence in any of the first three sessions.
    - `complete`, `complete_count`: questions with every token in the context ("perfect recall").
    - `noise`, `noise_count`, `noise_of`: unexpected tokens that the context shows, of all that could be shown.
    """
    answers = [(one.case, one.found[way]) for one in outcomes]
    complete = [all(token in found.shown for token in case.tokens) for case, found in answers]
    noise = [token in found.shown for case, found in answers for token in case.unexpected]
    return {
        "recall": {
            str(k): round(fmean(share_found(case.evidence, found.ranked, k) for case, found in answers), 4)
            for k in KS
        },
        "top3_relevant": round(fmean(_in_top(case, found) > 0 for case, found in answers), 4),
        "top3_precision": round(
            fmean(_in_top(case, found) / min(TOP, len(case.evidence)) for case, found in answers), 4
        ),
        "top3_on_topic": round(fmean(_on_topic(one, way) for one in outcomes), 4),
        "top3_sessions": round(fmean(_in_top_sessions(one, way) for one in outcomes), 4),
        "complete": round(fmean(complete), 4),
        "complete_count": sum(complete),
        "noise": round(fmean(noise), 4) if noise else None,
        "noise_count": sum(noise),
        "noise_of": len(noise),
    }


def _in_top(case: Case, found: Found) -> int:
    return len(set(case.evidence) & set(found.ranked[:TOP]))


def _in_top_sessions(outcome: Outcome, way: str) -> bool:
    topics = {outcome.session_of[hit] for hit in outcome.case.evidence}
    return not topics.isdisjoint(outcome.found[way].sessions[:TOP])


def _on_topic(outcome: Outcome, way: str) -> float:
    topics = {outcome.session_of[hit] for hit in outcome.case.evidence}
    return sum(outcome.session_of[hit] in topics for hit in outcome.found[way].ranked[:TOP]) / TOP


def _unanswered(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """What came back where there was nothing to find, beside what an answerable question gets.

    `top_score` is the mean score of the first hit, on each way's own scale. `told_apart` is the chance that a
    question with an answer has a higher top score than one without (the area under the ROC curve): 1 when a
    threshold could tell them, 0.5 when the score says nothing.
    """
    table: dict[str, Any] = {}
    for way in WAYS:
        without = [one.found[way] for one in outcomes if one.case.kind == UNANSWERABLE]
        having = [one.found[way] for one in outcomes if one.case.kind != UNANSWERABLE]
        pairs = [(a.top_score, b.top_score) for a in having for b in without]
        table[way] = {
            "questions": len(without),
            "returned_something": sum(bool(found.shown) for found in without),
            "top_score": round(fmean(found.top_score for found in without), 4),
            "top_score_answerable": round(fmean(found.top_score for found in having), 4),
            "told_apart": round(fmean((a > b) + (a == b) / 2 for a, b in pairs), 4),
        }
    return table
