"""Rerank as a profile asks for: blended with recency and words, decayed by age, diversified."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from pipeline.recall.find.candidates import Candidate
from pipeline.recall.rank.rank import Scored

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
    return sorted(scored, key=lambda h: (-h.score, -h.candidate.message.sent_at.timestamp(), -h.candidate.id))
