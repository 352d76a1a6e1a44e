"""Rank a chat's messages and sessions for a question: a score is the sum of weighted features."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np

from pipeline.recall.find.candidates import Candidate, CandidateSet, Statistics
from pipeline.recall.profiles import Weights
from pipeline.recall.question.parse import Question
from pipeline.recall.rank import features
from pipeline.recall.request import Request


class Scored(NamedTuple):
    """A candidate, its score, and the score's parts."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float]


class Ranking(NamedTuple):
    """Ranked messages, best first, and the candidates they come from."""

    hits: list[Scored]
    retrieved: CandidateSet


# Share of the second best message's score added to a session's: one good hit may be chance, two seldom are.
SECOND_HIT_SHARE = 0.2


def rank(
    question: Question, candidates: Sequence[Candidate], statistics: Statistics, weights: Weights
) -> list[Scored]:
    """Rank the candidates, best first, equal ones newer first, in time linear in their number.

    Asides come behind all else.
    """
    return scored(features.features(question, candidates, statistics), weights)


def scored(feature_set: features.Features, weights: Weights) -> list[Scored]:
    """Rank candidates by their features."""
    weighted = asdict(weights)
    parts = {name: weighted[name] * values for name, values in feature_set.columns.items() if weighted[name]}
    rows = np.column_stack(list(parts.values())) if parts else np.zeros((len(feature_set.ordered), 0))
    scores = rows.sum(axis=1).tolist()
    ordered = feature_set.ordered
    keys = [(not c.noise, score, c.message.sent_at, c.id) for c, score in zip(ordered, scores, strict=True)]
    best_first = sorted(range(len(ordered)), key=keys.__getitem__, reverse=True)
    table = rows.tolist()
    return [Scored(ordered[i], scores[i], dict(zip(parts, table[i], strict=True))) for i in best_first]


def rank_sessions(scored: Sequence[Scored]) -> list[tuple[int, Scored]]:
    """Rank sessions by their best messages: `(session, its best message)`, best first; `scored` is best first.

    `SECOND_HIT_SHARE` of the second best message's score is added as the part `second`. Unplaced messages count for no
    session.
    """
    by_session = defaultdict[int, list[Scored]](list)
    for hit in scored:
        by_session[hit.candidate.session].append(hit)
    by_session.pop(0, None)
    ranked = []
    for session, (hit, *rest) in by_session.items():
        added = SECOND_HIT_SHARE * rest[0].score if rest else 0.0
        ranked.append((session, Scored(hit.candidate, hit.score + added, {**hit.parts, "second": added})))
    return sorted(ranked, key=lambda entry: -entry[1].score)


def ranking_of(request: Request, retrieved: CandidateSet) -> Ranking:
    """Rank these candidates for a question."""
    hits = rank(request.question, retrieved.candidates, retrieved.statistics, request.weights)
    return Ranking(hits, retrieved)


def terms_by_session(hits: Iterable[Scored]) -> dict[int, set[str]]:
    """Return the lexemes of all queries that the messages of each session hold."""
    held = defaultdict[int, set[str]](set)
    for candidate in (hit.candidate for hit in hits):
        held[candidate.session].update(candidate.terms, *(other.terms for other in candidate.others))
    return held
