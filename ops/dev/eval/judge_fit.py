"""Fit the judge of relevance on questions to chats and to memories, as they are ranked.

Every question counts the same within its source, and every source (the chats written for this, real talk of each kind)
as much as the others. What is judged by words alone is fitted where the space has no meaning, as of hashed words.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ops.dev import shipped
from ops.dev.eval import samples
from ops.dev.eval.asking import asked_as_message
from ops.dev.eval.relevance import HOWS, is_text_of, remember
from ops.dev.eval.samples import UNANSWERABLE, RelevanceSample, SampleChat, SampleQuestion
from ops.dev.figures import Say
from ops.dev.shipped import Shipped
from pipeline.recall import relevance
from pipeline.recall.find.candidates import Statistics
from pipeline.recall.gather import Ranked
from pipeline.recall.rank.rank import Scored, ranking_of
from pipeline.recall.relevance import LIMIT, Array, By, Logistic
from pipeline.recall.request import Request
from pipeline.text.excerpt import Wanted
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings

Kind = Literal["answerable", "removed", "absent"]
"""Questions that the chat answers, those without their evidence, and those that nobody there ever answered."""
How = Literal["literal", "reworded", "shared", "other"]
"""How a memory or passage is asked for: `shared`, for something near it; `other`, for what was said in the chat."""
OF_WORDS, OF_MEANING = (
    ("coverage", "coverage_together", "session_words"),
    ("cosine", "cosine_rise"),
)
QUESTION: Mapping[By, Sequence[str]] = {
    "both": (*OF_WORDS, *OF_MEANING, "score_lead"),
    "words": (*OF_WORDS, "score_lead"),
    "meaning": OF_MEANING,
}
"""What questions are judged by."""
TEXT: Mapping[By, Sequence[str]] = {
    "both": ("coverage", "coverage_far", "coverage_cosine", "cosine", "rise", "far", "named"),
    "words": ("coverage", "coverage_far", "named"),
    "meaning": ("cosine", "rise", "far", "named"),
}
FALLING = ("far", "coverage_far")
"""What speaks against an answer, the more of it there is; all else speaks for one, or does not count."""
REMOVED_WEIGHT = 0.3
"""Of a question without its evidence: often something else in the chat answers it as well."""
NONE_OF_ANSWERABLE, LESS_OF_ANSWERABLE, STRONG_OF_ABSENT = 0.03, 0.1, 0.05
"""Shares of mistakes at which evidence is called none, fewer lines are worth showing, or it is called strong."""
SHOWN_OF_LITERAL, SHOWN_OF_REWORDED = 0.97, 0.65
"""Shares of memories and passages to show to someone who asks in the same words, and in other words."""
L2 = 1e-3


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question with what ranking found for it, as the judge gets it."""

    source: str
    chat: str
    kind: Kind
    # best first, without asides
    ranked: Sequence[Scored]
    statistics: Statistics


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The memories, or the passages, that were found for a question."""

    chat: str
    how: How
    wanted: Wanted
    texts: Sequence[str]
    cosines: Sequence[float | None]
    named: Sequence[bool]
    # whether each of the texts answers it
    right: Sequence[bool]


class Rows(NamedTuple):
    """What a logistic regression learns from: signals, whether it is so, what each row counts, and its chat."""

    values: Array
    labels: Array
    counts: Array
    chats: Sequence[str]


def logistic(names: Sequence[str], rows: Rows, l2: float = L2) -> Logistic:
    """Return the weights of the least mean loss, with `l2` times the squares of those of signals in their spread.

    None is above 0 of what is `FALLING`, none below of anything else: signals that resemble each other would be played
    off against each other otherwise, and such weights mean nothing on other chats.
    """
    mean, spread = rows.values.mean(axis=0), rows.values.std(axis=0) + 1e-9
    scaled = np.column_stack([(rows.values - mean) / spread, np.ones(len(rows.labels))])
    counts = rows.counts / rows.counts.sum()

    def cost(at: Array) -> tuple[float, Array]:
        odds = scaled @ at
        loss = counts @ (np.logaddexp(0.0, odds) - rows.labels * odds) + l2 * (at[:-1] @ at[:-1])
        slope = scaled.T @ (counts * (1 / (1 + np.exp(-odds)) - rows.labels))
        slope[:-1] += 2 * l2 * at[:-1]
        return float(loss), slope

    bounds = [(None, 0.0) if name in FALLING else (0.0, None) for name in names]
    start, free = np.zeros(scaled.shape[1]), [(None, None)]
    best = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds + free).x
    weights = best[:-1] / spread
    named = dict(zip(names, np.round(weights, 4).tolist(), strict=True))
    return Logistic(constant=round(float(best[-1] - weights @ mean), 4), weights=named)


def left_out(names: Sequence[str], rows: Rows) -> Array:
    """Return the logarithm of the odds of each row, by what is learned from all chats but its own."""
    chats, odds = np.array(rows.chats), np.zeros(len(rows.labels))
    for chat in sorted(set(rows.chats)):
        inside = chats == chat
        rest = Rows(rows.values[~inside], rows.labels[~inside], rows.counts[~inside], ())
        found = logistic(names, rest)
        odds[inside] = (
            rows.values[inside] @ np.array([found.weights[name] for name in names]) + found.constant
        )
    return odds


def _equally(keys: Sequence[str], within: Array) -> Array:
    """Return what rows count: all of one key as much as all of another."""
    totals: Counter[str] = Counter()
    for key, count in zip(keys, within.tolist(), strict=True):
        totals[key] += count
    return np.array([count / totals[key] for key, count in zip(keys, within.tolist(), strict=True)])


def _columns(found: Mapping[str, Array], names: Sequence[str]) -> Array:
    return np.column_stack([found[name] for name in names])


def question_rows(asked: Sequence[Asked], names: Sequence[str]) -> Rows:
    values = [_columns(relevance.of_question(each.ranked, each.statistics), names)[0] for each in asked]
    counts = np.array([REMOVED_WEIGHT if each.kind == "removed" else 1.0 for each in asked])
    labels = np.array([each.kind == "answerable" for each in asked], np.float64)
    # that the chat knows is as likely as that it does not, of whatever source
    keys = [f"{each.source} {label}" for each, label in zip(asked, labels, strict=True)]
    return Rows(np.array(values), labels, _equally(keys, counts), [each.chat for each in asked])


def text_rows(told: Iterable[Pool], names: Sequence[str]) -> Rows:
    """Return a row for each memory or passage that was found for a question."""
    values: list[Array] = []
    labels: list[bool] = []
    counts: list[float] = []
    chats: list[str] = []
    for each in told:
        values.append(_columns(relevance.of_texts(each.texts, each.cosines, each.wanted, each.named), names))
        labels += each.right
        counts += [1 / len(each.texts)] * len(each.texts)
        chats += [each.chat] * len(each.texts)
    return Rows(np.concatenate(values), np.array(labels, np.float64), np.array(counts), chats)


def fitted(asked: Sequence[Asked], told: Sequence[Pool], by: By) -> dict[str, dict[str, float]]:
    """Fit both judges: their weights, and the probabilities of their levels."""
    rows = question_rows(asked, QUESTION[by])
    question, odds = logistic(QUESTION[by], rows), left_out(QUESTION[by], rows)
    kinds = np.array([each.kind for each in asked])
    weak = float(np.quantile(odds[kinds == "answerable"], NONE_OF_ANSWERABLE))
    full = float(np.quantile(odds[kinds == "answerable"], LESS_OF_ANSWERABLE))
    strong = max(weak, float(np.quantile(odds[kinds == "absent"], 1 - STRONG_OF_ABSENT)))
    rows = text_rows(told, TEXT[by])
    text, odds = logistic(TEXT[by], rows), left_out(TEXT[by], rows)
    hows = np.concatenate([[each.how] * len(each.texts) for each in told])
    # by words alone nothing is found in others
    how, share = ("literal", SHOWN_OF_LITERAL) if by == "words" else ("reworded", SHOWN_OF_REWORDED)
    shift = float(
        np.log(LIMIT / (1 - LIMIT)) - np.quantile(odds[(hows == how) & (rows.labels == 1)], 1 - share)
    )

    # the best that is found where nothing answers
    asked_vainly = np.concatenate([[index] * len(each.texts) for index, each in enumerate(told)])
    vain = [odds[asked_vainly == index].max() for index, each in enumerate(told) if not any(each.right)]
    sure = max(float(np.quantile(vain, 1 - STRONG_OF_ABSENT)) + shift, float(np.log(LIMIT / (1 - LIMIT))))

    def probability(odds: float) -> float:
        return round(float(1 / (1 + np.exp(-odds))), 3)

    return {
        "question": {
            "none_below": probability(weak),
            "full_from": probability(full),
            "strong_from": probability(strong),
            **_table(question),
        },
        "text": {"strong_from": probability(sure)}
        | _table(Logistic(constant=round(text.constant + shift, 4), weights=text.weights)),
    }


def _table(judge: Logistic) -> dict[str, float]:
    return {"constant": judge.constant, **judge.weights}


FITTED = Path(relevance.__file__).with_name("fitted.toml")
HASHED = "deterministic"
"""The embedder of hashed words, for which questions and texts are judged by words alone."""


def fitted_tables(settings: Settings, real: Path | None, say: Say) -> dict[str, dict[str, float]]:
    """Fit the judge on the chats of the part `fit`, and on real talk in a folder; returns its tables by name."""
    configured = _gathered(settings, real, say)
    hashed = _gathered(settings.model_copy(update={"embedding_provider": HASHED}), real, say)
    by_what: dict[By, tuple[Sequence[Asked], Sequence[Pool]]] = {
        "both": configured,
        "words": hashed,
        "meaning": configured,
    }
    return {
        f"{judged}.{by}": table
        for by, (asked, told) in by_what.items()
        for judged, table in fitted(asked, told, by).items()
    }


def write_tables(settings: Settings, real: Path | None, say: Say) -> dict[str, dict[str, float]]:
    """Fit the judge, write its tables where it reads them, and return them."""
    found = fitted_tables(settings, real, say)
    parts = [
        "# The weights of the judge of relevance, written by `backscroll dev fit --judge`"
        f"{' --real DIR' if real else ''} on {date.today()}",  # noqa: DTZ011 - for people
        f"# with the embedding model {settings.embedding_model or settings.embedding_provider or 'by default'}.",
    ]
    for name, table in sorted(found.items()):
        parts += ["", f"[{name}]", *(f"{key} = {value}" for key, value in table.items())]
    FITTED.write_text("\n".join([*parts, ""]), "utf-8")
    return found


def real_chats(folder: Path) -> Iterator[SampleChat]:
    """Read real talk: `chat`, `messages`, and `questions` with their evidence."""
    for path in sorted(folder.glob("*.json")):
        read: dict[str, Any] = json.loads(path.read_text("utf-8"))
        yield SampleChat(
            name=path.stem,
            chat=ChatIn.model_validate(read["chat"]),
            messages=[MessageIn.model_validate(message) for message in read["messages"]],
            cases=[
                SampleQuestion(
                    question=each["question"],
                    kind=each["kind"],
                    evidence=each["evidence"],
                    tokens=(),
                    unexpected=(),
                    answer="",
                    asked_at=each.get("asked_at"),
                )
                for each in read["questions"]
            ],
        )


def _gathered(settings: Settings, real: Path | None, say: Say) -> tuple[list[Asked], list[Pool]]:
    asked: list[Asked] = []
    told: list[Pool] = []
    sample = samples.read_relevance_sample("fit")
    with shipped.temporary(settings) as backscroll:
        for chat in samples.chosen("fit"):
            backscroll.fill(chat.chat, chat.messages, say)
            # before it is asked: that nothing of them answers a question to the chat is learned as well
            remember(backscroll, chat, [each for each in sample.told if each.chat == chat.name])
            for question, pools in _asked(backscroll, "written", chat, sample, say):
                asked.append(question)
                told += pools
            told += _told(backscroll, chat, sample, say)
        for chat in real_chats(real) if real else ():
            backscroll.fill(chat.chat, chat.messages, say)
            source = chat.name.partition("_")[0]
            asked += [question for question, _ in _asked(backscroll, source, chat, sample, say)]
    return asked, told


def _asked(
    backscroll: Shipped, source: str, chat: SampleChat, sample: RelevanceSample, say: Say
) -> Iterator[tuple[Asked, list[Pool]]]:
    """Ask a chat what it knows, the same without the evidence, and what nobody there ever said.

    With each question come the memories and passages that were found for it, none of which answers it.
    """
    absent = [each.question for each in sample.absent.get(chat.name, ())]
    absent += [case.question for case in chat.cases if case.kind == UNANSWERABLE or not case.evidence]
    for number, case in enumerate(chat.cases, start=1):
        say(f"{chat.name}: question {number} of {len(chat.cases)}")
        if not case.evidence:
            continue
        request, found = _found(backscroll, chat, case.question, case)
        if found.retrieved is None or not request.lexemes:
            continue
        rest = [c for c in found.retrieved.candidates if c.message.external_id not in case.evidence]
        without = ranking_of(request, replace(found.retrieved, candidates=rest)).hits
        yield (
            _as_asked(source, chat, "answerable", found.ranked, found),
            _pools(chat, "other", request, found),
        )
        yield _as_asked(source, chat, "removed", without, found), []
    for question in absent:
        request, found = _found(backscroll, chat, question)
        if found.retrieved is not None and request.lexemes:
            yield (
                _as_asked(source, chat, "absent", found.ranked, found),
                _pools(chat, "other", request, found),
            )


def _as_asked(
    source: str,
    chat: SampleChat,
    kind: Kind,
    ranked: Sequence[Scored],
    found: Ranked,
) -> Asked:
    if found.retrieved is None:
        raise RuntimeError("nothing was searched")
    return Asked(
        source=source,
        chat=chat.name,
        kind=kind,
        ranked=[hit for hit in ranked if not hit.candidate.noise],
        statistics=found.retrieved.statistics,
    )


def _found(
    backscroll: Shipped, chat: SampleChat, question: str, case: SampleQuestion | None = None
) -> tuple[Request, Ranked]:
    """Find and rank as a context does, without recent talk."""
    query = ContextQuery(
        chat_id=chat.chat.chat_id,
        query=question,
        user_id=asked_as_message(chat.chat, chat.messages, question).sender_id,
        include_history=False,
        as_of=case.asked_at if case else None,
    )
    return backscroll.rank(query)


def _told(backscroll: Shipped, chat: SampleChat, sample: RelevanceSample, say: Say) -> Iterator[Pool]:
    """Ask for memories and passages: literally, in other words, and for something near."""
    for each in (each for each in sample.told if each.chat == chat.name):
        say(f"{chat.name}: {each.type}")
        for how in HOWS:
            request, found = _found(backscroll, chat, getattr(each, how))
            yield from _pools(chat, how, request, found, None if how == "shared" else each)


def _pools(
    chat: SampleChat, how: How, request: Request, found: Ranked, right: samples.Told | None = None
) -> list[Pool]:
    """Return the memories and the passages that were found for a question, and which of them answers it."""
    pools = [[m for m in found.memories if (m.type == "document") is kind] for kind in (True, False)]
    return [
        Pool(
            chat=chat.name,
            how=how,
            wanted=Wanted.of(request.question.content, request.chat.language),
            texts=[memory.content for memory in pool],
            cosines=[memory.cosine for memory in pool],
            named=[memory.is_named for memory in pool],
            right=[right is not None and is_text_of(memory.content, right) for memory in pool],
        )
        for pool in pools
        if pool
    ]
