"""The questions of the sample chats, asked through the shipped path and of plain vector search, and counted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean
from types import MappingProxyType
from typing import Any

from ops.dev import shipped
from ops.dev.eval.measures import share_found
from ops.dev.eval.samples import UNANSWERABLE, SampleQuestion, samples
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.clients.protocols import Embedder
from pipeline.retrieval.profiles import parameters_for
from pipeline.text.tokens import estimate_line
from pipeline.text.truncate import one_line
from schemas.messages import MessageIn
from schemas.settings import Settings

BUDGET = 800
KS = (3, 5, 10)
TOP = 3
# Of a context, what was recalled: the question and the standing orders are not.
_NOT_RECALLED = frozenset({"guardrails", "question"})
WAYS = ("backscroll", "plain")


@dataclass(frozen=True, kw_only=True)
class WayResult:
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
class QuestionResult:
    """One question, and what each of `WAYS` gave for it."""

    chat: str
    case: SampleQuestion
    # by external id, of all messages of the chat
    session_of: Mapping[str, int]
    found: dict[str, WayResult]


class PlainSearch:
    """What a bot has that embeds its messages and takes the nearest: no keywords, no sessions, no ranking."""

    def __init__(self, embedder: Embedder, messages: Sequence[MessageIn]) -> None:
        self._embedder = embedder
        self._messages = messages
        self._vectors = embedder.embed_documents([message.content for message in messages])

    def ranked(self, question: str) -> list[tuple[MessageIn, float]]:
        """Rank all messages by their cosine, nearest first; of equal ones the later."""
        asked = self._embedder.embed_query(question)
        cosines = [sum(map(mul, asked, vector)) for vector in self._vectors]
        scored = zip(self._messages, cosines, strict=True)
        return sorted(scored, key=lambda hit: (hit[1], hit[0].sent_at), reverse=True)


def plain_context(ranked: Sequence[tuple[MessageIn, float]], budget: int) -> str:
    """Show the nearest messages with their speakers, a line each, as long as they fit into `budget` tokens."""
    lines: list[str] = []
    left = budget
    for message, _ in ranked:
        line = f"{message.sender_name}: {one_line(message.content)}"
        left -= estimate_line(line)
        if left < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def own(
    settings: Settings, progress: Say, parameters: Mapping[str, float] = MappingProxyType({})
) -> dict[str, Any]:
    """Compute the tables of `tables` over all sample chats, in one fresh database, with these parameters of contexts.

    Raises `InvalidInput` for an unknown parameter.
    """
    parameters_for("balanced", parameters)
    results: list[QuestionResult] = []
    with shipped.temporary(settings) as backscroll:
        for sample in samples():
            backscroll.fill(sample.chat, sample.messages, progress)
            session_of = backscroll.sessions_of(sample.chat.chat_id)
            search = PlainSearch(backscroll.resources.embedder, sample.messages)
            for number, case in enumerate(sample.cases, start=1):
                progress(f"{sample.name}: question {number} of {len(sample.cases)}")
                ours = _ask(backscroll, sample.chat.chat_id, case.question, parameters)
                plainly = _search(search, case.question, session_of)
                found = dict(zip(WAYS, (ours, plainly), strict=True))
                results.append(
                    QuestionResult(chat=sample.name, case=case, session_of=session_of, found=found)
                )
    return tables(results)


def _ask(backscroll: Shipped, chat_id: str, question: str, parameters: Mapping[str, float]) -> WayResult:
    context = backscroll.ask(chat_id, question, BUDGET, parameters=parameters)
    if context.explain is None:
        raise RuntimeError("a context came without its explanation")
    hits = context.explain.messages
    recalled = [block.text for block in context.blocks if block.kind not in _NOT_RECALLED]
    return WayResult(
        ranked=[hit.external_id for hit in hits if hit.external_id is not None],
        sessions=[int(hit.id) for hit in context.explain.sessions],
        top_score=hits[0].score if hits else 0.0,
        shown=one_line("\n".join(recalled)),
    )


def _search(search: PlainSearch, question: str, session_of: Mapping[str, int]) -> WayResult:
    ranked = search.ranked(question)
    ids = [message.external_id for message, _ in ranked]
    return WayResult(
        ranked=ids,
        sessions=list(dict.fromkeys(session_of[each] for each in ids)),
        top_score=ranked[0][1],
        shown=one_line(plain_context(ranked, BUDGET)),
    )


def tables(results: Sequence[QuestionResult]) -> dict[str, Any]:
    """Return what `--json` prints: for all questions, and by chat and kind, `counted` for each of `WAYS`.

    Questions without an answer are counted apart, under `unanswerable`; see `_unanswered`. `questions` lists
    each one that has an answer: the place of its first evidence, what the context lacks, what it should not show.
    """
    answerable = [one for one in results if one.case.kind != UNANSWERABLE]
    chats = _grouped(answerable, lambda one: one.chat)
    return {
        "budget": BUDGET,
        "all": _part(answerable),
        "by_kind": _by_kind(answerable),
        "by_chat": {chat: {**_part(group), "by_kind": _by_kind(group)} for chat, group in chats.items()},
        "unanswerable": {way: _unanswered(results, way) for way in WAYS},
        "questions": [_one(one) for one in answerable],
    }


def _one(result: QuestionResult) -> dict[str, Any]:
    case = result.case

    def by(found: WayResult) -> dict[str, Any]:
        places = (n for n, hit in enumerate(found.ranked, start=1) if hit in case.evidence)
        return {
            "first": next(places, None),
            "missing": [token for token in case.tokens if token not in found.shown],
            "noise": [piece for piece in case.unexpected if piece in found.shown],
        }

    asked = {"chat": result.chat, "kind": case.kind, "question": case.question}
    return asked | {way: by(found) for way, found in result.found.items()}


def _grouped(
    results: Sequence[QuestionResult], key: Callable[[QuestionResult], str]
) -> dict[str, list[QuestionResult]]:
    return {name: [one for one in results if key(one) == name] for name in dict.fromkeys(map(key, results))}


def _by_kind(results: Sequence[QuestionResult]) -> dict[str, Any]:
    return {kind: _part(group) for kind, group in _grouped(results, lambda one: one.case.kind).items()}


def _part(results: Sequence[QuestionResult]) -> dict[str, Any]:
    return {"questions": len(results), **{way: counted(results, way) for way in WAYS}}


def counted(results: Sequence[QuestionResult], way: str) -> dict[str, Any]:
    """Means over questions that have an answer; shares from 0 to 1.

    - `recall`: by K, the mean share of the evidence among the first K.
    - `top3_relevant`: the share of questions with any evidence among the first three.
    - `top3_precision`: the mean of |first 3 ∩ evidence| / min(3, |evidence|).
    - `top3_on_topic`: of the first three, the mean share that is in a session with evidence.
    - `top3_sessions`: the share of questions with evidence in any of the first three sessions.
    - `complete`, `complete_count`: questions with every token in the context ("perfect recall").
    - `noise`, `noise_count`, `noise_of`: unexpected tokens that the context shows, of all that could be shown.
    """
    answers = [(one.case, one.found[way]) for one in results]
    in_top = [(len(set(case.evidence) & set(found.ranked[:TOP])), case) for case, found in answers]
    topics = [{one.session_of[hit] for hit in one.case.evidence} for one in results]
    on_topic, in_sessions = [], []
    for one, wanted in zip(results, topics, strict=True):
        found = one.found[way]
        on_topic.append(sum(one.session_of[hit] in wanted for hit in found.ranked[:TOP]) / TOP)
        in_sessions.append(not wanted.isdisjoint(found.sessions[:TOP]))
    complete = [all(token in found.shown for token in case.tokens) for case, found in answers]
    noise = [token in found.shown for case, found in answers for token in case.unexpected]
    return {
        "recall": {
            str(k): _mean(share_found(case.evidence, found.ranked, k) for case, found in answers) for k in KS
        },
        "top3_relevant": _mean(hits > 0 for hits, _ in in_top),
        "top3_precision": _mean(hits / min(TOP, len(case.evidence)) for hits, case in in_top),
        "top3_on_topic": _mean(on_topic),
        "top3_sessions": _mean(in_sessions),
        "complete": _mean(complete),
        "complete_count": sum(complete),
        "noise": _mean(noise) if noise else None,
        "noise_count": sum(noise),
        "noise_of": len(noise),
    }


def _mean(values: Iterable[float]) -> float:
    return round(fmean(values), 4)


def _unanswered(results: Sequence[QuestionResult], way: str) -> dict[str, Any]:
    """Count what came back where there was nothing to find, beside what an answerable question gets.

    `top_score` is the mean score of the first hit, on each way's own scale. `told_apart` is the chance that a
    question with an answer has a higher top score than one without (the area under the ROC curve): 1 when a
    threshold could tell them, 0.5 when the score says nothing.
    """
    without = [one.found[way] for one in results if one.case.kind == UNANSWERABLE]
    having = [one.found[way] for one in results if one.case.kind != UNANSWERABLE]
    pairs = [(a.top_score, b.top_score) for a in having for b in without]
    return {
        "questions": len(without),
        "returned_something": sum(bool(found.shown) for found in without),
        "top_score": _mean(found.top_score for found in without),
        "top_score_answerable": _mean(found.top_score for found in having),
        "told_apart": _mean((a > b) + (a == b) / 2 for a, b in pairs),
    }
