"""Fit the ranking's weights on the chats of the part `fit`, grouped by chat."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from statistics import fmean
from typing import Any

import numpy as np

from ops.dev import shipped
from ops.dev.eval import samples
from ops.dev.eval.asking import asked_as_message
from ops.dev.eval.pairwise import NAMES, Matrix, Pairs, as_array, fit, recalls, sharpness_of
from ops.dev.eval.samples import UNANSWERABLE, SampleChat
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.recall.ask.ask import parse_question
from pipeline.recall.ask.request import Stopwatch, for_context
from pipeline.recall.ask.weights import Weights
from pipeline.recall.find_and_rank import gather_ranked
from pipeline.recall.prepare import prepare_query
from pipeline.recall.rank.features import features
from schemas.errors import InvalidInput
from schemas.payloads import ContextQuery
from schemas.settings import Settings

BY_HAND = ("latest", "affinity", "date", "phrase", "exact")
"""Features whose weights are chosen by hand: too few questions have them or, as `affinity`, too few chats are large."""
STRENGTHS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Of L2, from which cross-validation chooses."""


def fitted(
    settings: Settings, only: Collection[str], progress: Say, folder: Traversable = samples.CHATS
) -> dict[str, Any]:
    """Return the weights and how well they rank, of the chats to fit on, or those of these names.

    Raises `InvalidInput` for an unknown chat, or without two chats to fit on.
    """
    chosen = [
        sample for sample, facts in samples.chosen("fit", only, folder) if not only or facts.part == "fit"
    ]
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
