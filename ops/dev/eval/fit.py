"""Fit the ranking's weights on the chats of the part `fit`, so that evidence ranks before other candidates.

Pairwise logistic loss, no weight below 0.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.resources.abc import Traversable
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from ops.dev import shipped
from ops.dev.eval import samples
from ops.dev.eval.asking import asked_as_message
from ops.dev.eval.samples import UNANSWERABLE, SampleChat
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.recall.ask.ask import parse_question
from pipeline.recall.ask.request import Stopwatch, for_context
from pipeline.recall.ask.weights import Weights
from pipeline.recall.find_and_rank import gather_ranked
from pipeline.recall.prepare import prepare_query
from pipeline.recall.rank.features import Features, features
from schemas.errors import InvalidInput
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Matrix:
    """The candidates of one question."""

    # a row for each candidate, a column for each of `NAMES`
    rows: Array
    # by candidate: whether it is evidence, whether it is an aside, and its place by time
    relevant: npt.NDArray[np.bool_]
    aside: npt.NDArray[np.bool_]
    place: npt.NDArray[np.int64]
    # how many messages are evidence, found or not
    evidence: int

    @classmethod
    def of(cls, features: Features, evidence: Collection[str]) -> "Matrix":
        """Make the matrix of a question's features; `evidence` are external ids."""
        ordered = features.ordered
        nothing = np.zeros(len(ordered))
        by_time = sorted(range(len(ordered)), key=lambda i: (ordered[i].sent_at, ordered[i].id))
        return cls(
            rows=np.column_stack([features.columns.get(name, nothing) for name in NAMES]),
            relevant=np.array([c.external_id in evidence for c in ordered], dtype=np.bool_),
            aside=np.array([c.aside for c in ordered], dtype=np.bool_),
            place=np.argsort(np.array(by_time, dtype=np.int64)),
            evidence=len(evidence),
        )

    def order(self, weights: Array) -> npt.NDArray[np.int64]:
        """Return the candidates, best first, as `pipeline.recall.rank.rank.scored` orders them."""
        return np.lexsort((self.place, self.rows @ weights, ~self.aside))[::-1]

    def recall(self, weights: Array, k: int) -> float:
        """Return the share of the evidence among the first `k`."""
        return float(self.relevant[self.order(weights)[:k]].sum()) / self.evidence


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """How evidence differs from other candidates: a row for each pair, and what it counts; all count 1 together."""

    differences: Array
    counts: Array

    @classmethod
    def of(cls, matrices: Iterable[Matrix], weights: Array) -> "Pairs":
        """Pair each evidence with other candidates; every question counts the same. Asides are in no pair."""
        draw = np.random.default_rng(0)
        pairs = [rows for rows in (_differences(m, weights, draw) for m in matrices) if len(rows)]
        if not pairs:
            return cls(differences=np.zeros((0, len(NAMES))), counts=np.zeros(0))
        counts = [np.full(len(rows), 1 / len(rows) / len(pairs)) for rows in pairs]
        return cls(differences=np.concatenate(pairs), counts=np.concatenate(counts))

    def loss(self, weights: Array, sharpness: float) -> float:
        """Return the mean logistic loss of the pairs."""
        return float(self.counts @ np.logaddexp(0.0, -sharpness * (self.differences @ weights)))


def _differences(matrix: Matrix, weights: Array, draw: np.random.Generator) -> Array:
    relevant = np.flatnonzero(matrix.relevant & ~matrix.aside)
    order = [i for i in matrix.order(weights).tolist() if not matrix.relevant[i] and not matrix.aside[i]]
    hardest, rest = order[: OTHERS // 2], order[OTHERS // 2 :]
    chosen = [*hardest, *draw.permutation(np.array(rest, dtype=np.int64))[: OTHERS - len(hardest)].tolist()]
    differences = matrix.rows[relevant][:, None, :] - matrix.rows[chosen][None, :, :]
    return np.asarray(differences.reshape(-1, len(NAMES)))


def as_array(weights: Weights) -> Array:
    """Return weights in the order of `NAMES`."""
    return np.array([asdict(weights)[name] for name in NAMES])


def sharpness_of(pairs: Pairs, weights: Array) -> float:
    """Return the factor of scores at which these weights have the least loss: it keeps the scale of the weights."""
    factors = np.geomspace(0.05, 100, 200)
    return float(min(factors, key=lambda factor: pairs.loss(weights, factor)))


def fit(pairs: Pairs, start: Array, free: Collection[str], l2: float, sharpness: float) -> Array:
    """Return the weights with the least `loss + l2 · |weights|²`, none below 0; those not `free` stay as they are.

    The `free` ones are scaled to the sum that they have at the start, so that the strength of L2 does not change what
    the others count beside them.
    """
    columns = [i for i, name in enumerate(NAMES) if name in free]
    weights = start.copy()
    if not columns or not len(pairs.differences):
        return weights
    inside = sharpness * pairs.differences[:, columns]
    fixed = np.where(np.isin(np.arange(len(NAMES)), columns), 0.0, start)
    offset = sharpness * (pairs.differences @ fixed)

    def cost(at: Array) -> tuple[float, Array]:
        margins = inside @ at + offset
        pull = pairs.counts * np.exp(-np.logaddexp(0.0, margins))
        loss = pairs.counts @ np.logaddexp(0.0, -margins) + l2 * (at @ at)
        return float(loss), 2 * l2 * at - pull @ inside

    bounds = [(0.0, None)] * len(columns)
    options = {"maxiter": 3000, "ftol": 1e-12, "gtol": 1e-8}
    begin = np.maximum(start[columns], 0.0)
    best = minimize(cost, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    weights[columns] = best * start[columns].sum() / best.sum() if best.sum() > 0 else best
    return weights


def recalls(matrices: Sequence[Matrix], weights: Array) -> dict[str, float]:
    """Return the mean recall over questions, by k."""
    return {str(k): round(fmean(matrix.recall(weights, k) for matrix in matrices), 4) for k in KS if matrices}


def fitted(
    settings: Settings, only: Collection[str], progress: Say, folder: Traversable = samples.CHATS
) -> dict[str, Any]:
    """Return the weights and how well they rank, of the chats to fit on, or those of these names.

    Raises `InvalidInput` for an unknown chat, or without two chats to fit on.
    """
    chosen = list(samples.chosen("fit", only, folder))
    if len(chosen) < 2:
        raise InvalidInput("weights are fitted on two chats of the part `fit` or more", field="only")
    questions: dict[str, Sequence[Matrix]] = {}
    with shipped.temporary(settings) as backscroll:
        for sample in chosen:
            backscroll.fill(sample.chat, sample.messages, progress)
            questions[sample.name] = list(gather(backscroll, sample, progress))
    return choose(questions, progress)


def choose(questions: Mapping[str, Sequence[Matrix]], progress: Say) -> dict[str, Any]:
    """Choose the strength of L2 by leaving out one chat at a time, then fit on all; `questions` are each chat's."""
    start = as_array(Weights())
    free = [name for name in NAMES if name not in BY_HAND]
    pairs = {chat: Pairs.of(matrices, start) for chat, matrices in questions.items()}
    sizes = {chat: len(matrices) for chat, matrices in questions.items()}
    everything = _joined(pairs, sizes)
    sharpness = sharpness_of(everything, start)
    asked = [matrix for matrices in questions.values() for matrix in matrices]
    validated: dict[float, dict[str, float]] = {}
    for l2 in STRENGTHS:
        left_out = {}
        for chat, matrices in questions.items():
            progress(f"L2 {l2:g}: without {chat}")
            rest = _joined({name: pairs[name] for name in pairs if name != chat}, sizes)
            left_out[chat] = recalls(matrices, fit(rest, start, free, l2, sharpness))
        validated[l2] = {
            k: round(sum(left_out[chat][k] * sizes[chat] for chat in questions) / len(asked), 4)
            for k in next(iter(left_out.values()))
        }
    l2 = max(STRENGTHS, key=lambda strength: (fmean(validated[strength].values()), strength))
    weights = np.round(fit(everything, start, free, l2, sharpness), 2)
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


def _joined(pairs: Mapping[str, Pairs], sizes: Mapping[str, int]) -> Pairs:
    """Join the pairs of chats; each counts by its number of questions."""
    total = sum(sizes[chat] for chat in pairs)
    return Pairs(
        differences=np.concatenate([group.differences for group in pairs.values()]),
        counts=np.concatenate([group.counts * sizes[chat] / total for chat, group in pairs.items()]),
    )


def gather(backscroll: Shipped, sample: SampleChat, progress: Say) -> Iterator[Matrix]:
    """Put each question that has an answer to the bot, and take the candidates of the shipped retrieval."""
    database, tenant, settings = backscroll.database, backscroll.tenant, backscroll.settings
    for number, case in enumerate(sample.cases, start=1):
        if case.kind == UNANSWERABLE:
            continue
        progress(f"{sample.name}: question {number} of {len(sample.cases)}")
        message = asked_as_message(sample.chat, sample.messages, case.question, case.asked_at)
        query = ContextQuery(chat_id=sample.chat.chat_id, query=case.question, user_id=message.sender_id)
        with backscroll.put(sample.chat, message):
            with database.tenant(tenant) as connection:
                parsed = parse_question(connection, for_context(connection, query, settings))
            embedder, stopwatch = backscroll.resources.embedder, Stopwatch()
            prepared = prepare_query(database, tenant, parsed, embedder, stopwatch)
            retrieved = gather_ranked(database, tenant, prepared, stopwatch).retrieved
        if retrieved is not None:
            columns = features(prepared.question, retrieved.candidates, retrieved.statistics)
            yield Matrix.of(columns, case.evidence)
