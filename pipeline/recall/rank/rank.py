"""Rank a chat's messages and sessions for a question: a score is the sum of weighted features.

A profile may have them reranked: blended with recency and words, decayed by age, diversified.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
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
    keys = [(not c.noise, score, c.message.stamp) for c, score in zip(ordered, scores, strict=True)]
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


# Top messages diversified; each choice is compared with all chosen before.
MMR_TOP = 50
# Top messages read by a cross-encoder, and the score that a perfect answer gains.
MAX_RERANKED = 20
RERANKER_WEIGHT = 2.0
# A match with a quoted phrase neither fades nor blends.
_QUOTED_PART = "phrase"
# The blend of group chats: the shares of the ranking, recency and the question's words; the half-life of recency; the
# factor for a session.
BLEND_SHARES = (0.45, 0.25, 0.30)
BLEND_HALF_LIFE = timedelta(hours=72)
SESSION_FACTOR = 1.25
# Share of a score that fades with age; chosen on the chats of part `fit`.
FADING_SHARE = 0.1
# A best score up to this says nothing, and dividing by it could overflow.
MIN_BEST_SCORE = 1e-9


def blend_parts(
    ranking: Mapping[str, float], best: float, age: timedelta, overlap: float, factor: float
) -> dict[str, float]:
    """Return the parts of `(s0 · ranking/best + s1 · 0.5^(age/half-life) + s2 · overlap) · factor`.

    `s0` to `s2` are `BLEND_SHARES`; `overlap` is the share of the question's terms found. The part `_QUOTED_PART`
    stays as it is.
    """
    base, time, words = BLEND_SHARES
    scale = base * factor / best if best > MIN_BEST_SCORE else 0.0
    parts = {name: value if name == _QUOTED_PART else value * scale for name, value in ranking.items()}
    parts["recency"] = time * 0.5 ** max(0.0, age / BLEND_HALF_LIFE) * factor
    parts["overlap"] = words * overlap * factor
    return parts


def add_reranker_scores(scored: Sequence[Scored], answers: Sequence[float]) -> list[Scored]:
    """Add a cross-encoder's scores, from 0 to 1, to the first candidates as the part `reranker`, and sort these."""
    first = [
        hit._replace(score=hit.score + added, parts={**hit.parts, "reranker": added})
        for hit, added in zip(scored, (RERANKER_WEIGHT * value for value in answers), strict=False)
    ]
    return _best_first(first) + list(scored[len(first) :])


def blended(scored: Sequence[Scored], terms: int, now: datetime) -> list[Scored]:
    """Blend messages, best first; `terms` is the question's number of lexemes."""
    best = max((hit.score - hit.parts.get(_QUOTED_PART, 0.0) for hit in scored), default=0.0)
    hits = []
    for hit in scored:
        share = len(hit.candidate.terms) / max(terms, 1)
        parts = blend_parts(hit.parts, best, now - hit.candidate.message.sent_at, share, 1.0)
        hits.append(hit._replace(score=sum(parts.values()), parts=parts))
    return _best_first(hits)


def faded(scored: Sequence[Scored], now: datetime, per_day: float) -> list[Scored]:
    """Multiply `FADING_SHARE` of each score above 0 by `per_day` for every day of its age; best first.

    The part `_QUOTED_PART` stays as it is.
    """
    hits = []
    for hit in scored:
        days = max(0.0, (now - hit.candidate.message.sent_at).total_seconds() / 86_400)
        factor = 1 - FADING_SHARE + FADING_SHARE * per_day**days if hit.score > 0 else 1.0
        parts = {name: value if name == _QUOTED_PART else value * factor for name, value in hit.parts.items()}
        hits.append(hit._replace(score=sum(parts.values()), parts=parts))
    return _best_first(hits)


def diverse(
    scored: Sequence[Scored], share: float, alike: Callable[[Candidate, Candidate], float]
) -> list[Scored]:
    """Diversify the best `MMR_TOP` by maximal marginal relevance, `alike` being from 0 to 1; the others follow.

    The next is the one with the most of `share · score/best - (1 - share) · its highest similarity to a chosen one`
    (Carbonell and Goldstein, The Use of MMR, Diversity-Based Reranking, 1998), which is its score from then on; those
    that follow count as fully similar. With a `share` of 1 nothing changes.
    """
    pool = list(scored[:MMR_TOP])
    best = max((hit.score for hit in pool), default=0.0)
    if share >= 1 or best <= MIN_BEST_SCORE:
        return list(scored)
    nearest = [0.0] * len(pool)
    chosen: list[Scored] = []
    while pool:
        at = max(range(len(pool)), key=lambda i: share * pool[i].score / best - (1 - share) * nearest[i])
        best_hit = pool.pop(at)
        chosen.append(_less_similar(best_hit, share / best, (1 - share) * nearest.pop(at)))
        nearest = [
            max(highest, alike(best_hit.candidate, hit.candidate))
            for highest, hit in zip(nearest, pool, strict=True)
        ]
    return chosen + [_less_similar(hit, share / best, 1 - share) for hit in scored[MMR_TOP:]]


def _less_similar(hit: Scored, factor: float, similarity: float) -> Scored:
    """Scale a score with its parts, and subtract the message's similarity to better ones."""
    parts = {name: value * factor for name, value in hit.parts.items()} | {"similar_to_better": -similarity}
    return hit._replace(score=hit.score * factor - similarity, parts=parts)


def overlap(one: Candidate, other: Candidate) -> float:
    """Return the Jaccard index of two messages' words."""
    words, other_words = (set(c.message.content.casefold().split()) for c in (one, other))
    return len(words & other_words) / max(len(words | other_words), 1)


def _best_first(scored: Iterable[Scored]) -> list[Scored]:
    """Sort by score, equal ones newer first."""
    return sorted(scored, key=lambda hit: (hit.score, hit.candidate.message.stamp), reverse=True)
