"""Fit the ranking's weights on the chats of the part `fit`, so that evidence ranks before other candidates.

Pairwise logistic loss, no weight below 0.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from ops.dev import shipped
from ops.dev.eval import samples
from ops.dev.eval.asking import asked_as_message
from ops.dev.eval.samples import UNANSWERABLE, SampleChat
from ops.dev.figures import Say
from ops.dev.shipped import Shipped
from pipeline.recall.find.candidates import Candidate
from pipeline.recall.profiles import Weights
from pipeline.recall.rank.features import Features, features
from pipeline.recall.rank.rank import scored
from schemas.payloads import ContextQuery
from schemas.settings import Settings

Array = npt.NDArray[np.float64]

NAMES = tuple(field.name for field in fields(Weights))
"""The features, in the order of the columns."""
# Other candidates that each evidence is compared with: half the best by the weights so far, half at random.
OTHERS = 200
KS = (5, 10)
BY_HAND = ("latest", "affinity", "date", "phrase", "exact")
"""Features whose weights are chosen by hand: too few questions have them or, as `affinity`, too few chats are large."""
STRENGTHS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Of L2, from which cross-validation chooses."""


class Gathered(NamedTuple):
    """The candidates of one question with their features, and the external ids of its evidence, found or not."""

    features: Features
    evidence: Collection[str]

    def ranked(self, weights: Array) -> list[Candidate]:
        """Return the candidates as the shipped path ranks them, best first."""
        return [
            hit.candidate
            for hit in scored(self.features, Weights(**dict(zip(NAMES, weights.tolist(), strict=True))))
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """How evidence differs from other candidates: a row for each pair, and what it counts; all count 1 together."""

    differences: Array
    counts: Array

    @classmethod
    def of(cls, questions: Iterable[Gathered], weights: Array) -> "Pairs":
        """Pair each evidence with other candidates; every question counts the same. Asides are in no pair."""
        draw = np.random.default_rng(0)
        pairs = [rows for rows in (_differences(asked, weights, draw) for asked in questions) if len(rows)]
        counts = [np.full(len(rows), 1 / len(rows) / len(pairs)) for rows in pairs]
        return cls(
            differences=np.concatenate([np.zeros((0, len(NAMES))), *pairs]),
            counts=np.concatenate([np.zeros(0), *counts]),
        )

    @classmethod
    def joined(cls, pairs: Mapping[str, "Pairs"], sizes: Mapping[str, int]) -> "Pairs":
        """Join the pairs of chats; each counts by its number of questions."""
        total = sum(sizes[chat] for chat in pairs)
        return cls(
            differences=np.concatenate([group.differences for group in pairs.values()]),
            counts=np.concatenate([group.counts * sizes[chat] / total for chat, group in pairs.items()]),
        )

    def sharpness(self, weights: Array) -> float:
        """Return the factor of scores at which weights have the least logistic loss: it keeps their scale."""
        margins = self.differences @ weights
        factors = np.geomspace(0.05, 100, 200)
        return float(min(factors, key=lambda factor: self.counts @ np.logaddexp(0.0, -factor * margins)))


def _differences(gathered: Gathered, weights: Array, draw: np.random.Generator) -> Array:
    ordered, columns = gathered.features.ordered, gathered.features.columns
    rows = np.column_stack([columns.get(name, np.zeros(len(ordered))) for name in NAMES])
    place = {candidate.id: number for number, candidate in enumerate(ordered)}
    best_first = [candidate for candidate in gathered.ranked(weights) if not candidate.noise]
    relevant = [place[c.id] for c in best_first if c.message.external_id in gathered.evidence]
    order = [place[c.id] for c in best_first if c.message.external_id not in gathered.evidence]
    hardest, rest = order[: OTHERS // 2], order[OTHERS // 2 :]
    chosen = [*hardest, *draw.permutation(np.array(rest, dtype=np.int64))[: OTHERS - len(hardest)].tolist()]
    differences = rows[relevant][:, None, :] - rows[chosen][None, :, :]
    return np.asarray(differences.reshape(-1, len(NAMES)))


def fit(pairs: Pairs, start: Array, l2: float, sharpness: float) -> Array:
    """Return the weights with the least `loss + l2 · |weights|²`, none below 0; those `BY_HAND` stay as they are.

    The others are scaled to the sum that they have at the start, so that the strength of L2 does not change what they
    count beside those.
    """
    free = np.array([name not in BY_HAND for name in NAMES])
    inside = sharpness * pairs.differences[:, free]
    offset = sharpness * (pairs.differences @ np.where(free, 0.0, start))

    def cost(at: Array) -> tuple[float, Array]:
        margins = inside @ at + offset
        pull = pairs.counts * np.exp(-np.logaddexp(0.0, margins))
        loss = pairs.counts @ np.logaddexp(0.0, -margins) + l2 * (at @ at)
        return float(loss), 2 * l2 * at - pull @ inside

    weights = start.copy()
    options = {"maxiter": 3000, "ftol": 1e-12, "gtol": 1e-8}
    bounds = [(0.0, None)] * int(free.sum())
    best = minimize(cost, start[free], jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    weights[free] = best * start[free].sum() / best.sum() if best.sum() > 0 else best
    return weights


def recalls(questions: Sequence[Gathered], weights: Array) -> dict[str, float]:
    """Return the mean recall over questions, by k."""
    found = [[c.message.external_id in asked.evidence for c in asked.ranked(weights)] for asked in questions]
    sizes = [len(asked.evidence) for asked in questions]
    return {
        str(k): round(fmean(sum(hits[:k]) / size for hits, size in zip(found, sizes, strict=True)), 4)
        for k in KS
    }


def fitted(settings: Settings, say: Say) -> dict[str, Any]:
    """Return the weights and how well they rank, of the chats to fit on."""
    questions: dict[str, Sequence[Gathered]] = {}
    with shipped.temporary(settings) as backscroll:
        for sample in samples.chosen("fit"):
            backscroll.fill(sample.chat, sample.messages, say)
            questions[sample.name] = list(gather(backscroll, sample, say))
    return choose(questions, say)


def choose(questions: Mapping[str, Sequence[Gathered]], say: Say) -> dict[str, Any]:
    """Choose the strength of L2 by leaving out one chat at a time, then fit on all; `questions` are each chat's."""
    start = np.array(astuple(Weights()))
    pairs = {chat: Pairs.of(gathered, start) for chat, gathered in questions.items()}
    sizes = {chat: len(gathered) for chat, gathered in questions.items()}
    everything = Pairs.joined(pairs, sizes)
    sharpness = everything.sharpness(start)
    asked = [each for gathered in questions.values() for each in gathered]
    validated: dict[float, dict[str, float]] = {}
    for l2 in STRENGTHS:
        left_out = {}
        for chat, gathered in questions.items():
            say(f"L2 {l2:g}: without {chat}")
            rest = Pairs.joined({name: pairs[name] for name in pairs if name != chat}, sizes)
            left_out[chat] = recalls(gathered, fit(rest, start, l2, sharpness))
        validated[l2] = {
            str(k): round(sum(left_out[chat][str(k)] * sizes[chat] for chat in questions) / len(asked), 4)
            for k in KS
        }
    l2 = max(STRENGTHS, key=lambda strength: (fmean(validated[strength].values()), strength))
    weights = np.round(fit(everything, start, l2, sharpness), 2)
    return {
        "weights": dict(zip(NAMES, weights.tolist(), strict=True)),
        "by_hand": sorted(BY_HAND),
        "l2": l2,
        "pairs": len(everything.counts),
        "questions": len(asked),
        "cross_validated": {f"{strength:g}": shares for strength, shares in validated.items()},
        "shipped": recalls(asked, start),
        "fitted": recalls(asked, weights),
    }


def gather(backscroll: Shipped, sample: SampleChat, say: Say) -> Iterator[Gathered]:
    """Put each question that has an answer to the bot, and take the candidates of the shipped retrieval."""
    for number, case in enumerate(sample.cases, start=1):
        if case.kind == UNANSWERABLE:
            continue
        say(f"{sample.name}: question {number} of {len(sample.cases)}")
        message = asked_as_message(sample.chat, sample.messages, case.question, case.asked_at)
        query = ContextQuery(chat_id=sample.chat.chat_id, query=case.question, user_id=message.sender_id)
        with backscroll.put(sample.chat, message):
            request, ranked = backscroll.rank(query)
        if retrieved := ranked.retrieved:
            found = features(request.question, retrieved.candidates, retrieved.statistics)
            yield Gathered(found, case.evidence)
