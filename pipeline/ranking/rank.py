"""Rank a chat's messages and sessions for a question, by words, meaning and how people talk.

A score is a sum of parts, each switched off by its weight. A message is read with its neighbours, each counting less
by its distance, and more if it came before than after.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from operator import sub, truediv

from pipeline.question.parse import Question
from pipeline.ranking import decisions
from pipeline.ranking.bm25 import carries, session_words, smooth, words_around
from pipeline.ranking.model import OTHER_QUERY_WEIGHT, Candidate, Scored, Statistics, Weights
from pipeline.text import answer_types, exact_match

# What a session's second best message adds for it: one good hit may be chance, two seldom are.
SECOND = 0.2
# What the words of the session as one text add for it.
SESSION_WORDS = 0.3


def rank(
    question: Question, candidates: Sequence[Candidate], statistics: Statistics, weights: Weights
) -> list[Scored]:
    """Rank the candidates, best first, equal ones newer first, in time linear in their number."""
    ordered = sorted(candidates, key=lambda c: (c.session, c.place))
    later, earlier = carries(ordered, weights)
    mass = smooth([1.0] * len(ordered), later, earlier)
    substance = [c.length / (c.length + weights.half_substance) if c.length else 0.0 for c in ordered]
    own, words = words_around(ordered, later, earlier, substance, statistics, weights)
    meaning = meanings(ordered, statistics.mean_cosine)
    # what the question asks for is decided by its own meaning
    wants_decision = weights.decision and "decision" in question.asks
    fits = None
    if question.spans or question.event:
        fits = [_date_fit(c.sent_at, question, weights.date_half_life_days) for c in ordered]
    decided = decisions.about(ordered, meaning, statistics, question.language, fits) if wants_decision else []
    for number, of_query in enumerate(statistics.others, start=1):
        read = [c._replace(**c.others[number - 1]._asdict()) for c in ordered]
        its_own, its_words = words_around(read, later, earlier, substance, of_query, weights)
        its_meaning = meanings(read, of_query.mean_cosine)
        for i, candidate in enumerate(ordered):
            found_by = dict(candidate.found_by)
            if OTHER_QUERY_WEIGHT * its_words[i] > words[i]:
                own[i], words[i] = OTHER_QUERY_WEIGHT * its_own[i], OTHER_QUERY_WEIGHT * its_words[i]
                found_by["keywords"] = number
            if OTHER_QUERY_WEIGHT * its_meaning[i] > max(meaning[i], 0.0):
                meaning[i] = OTHER_QUERY_WEIGHT * its_meaning[i]
                found_by["vectors"] = number
            ordered[i] = candidate._replace(found_by=found_by)
    near = smooth(meaning, later, earlier)
    best: dict[int, float] = {}
    for candidate, value in zip(ordered, meaning, strict=True):
        best[candidate.session] = max(best.get(candidate.session, value), value)
    most = max(words, default=0.0) or 1.0
    texts = [c.text for c in ordered]
    asks = [answer_types.asks(text, question.language) for text in texts]
    answers = _answers(ordered, asks, [w / most + 0.5 * m for w, m in zip(words, meaning, strict=True)])
    nothing = [0.0] * len(ordered)

    def part(weight: float, values: Iterable[float], *, wanted: object = True) -> list[float]:
        """Return a part of every candidate's score; what is not wanted is not computed."""
        return [weight * value for value in values] if weight and wanted else nothing

    parts: dict[str, list[float]] = {
        "words": part(weights.words, own),
        "related": part(weights.related, map(sub, words, own), wanted=weights.related),
        "meaning": part(weights.meaning, meaning),
        "meaning_near": part(weights.meaning_near, map(truediv, near, mass)),
        "meaning_session": part(
            weights.meaning_session,
            (best[c.session] * share for c, share in zip(ordered, substance, strict=True)),
        ),
        "speaker": part(
            weights.speaker,
            (question.speakers.get(c.speaker, 0.0) for c in ordered),
            wanted=question.speakers,
        ),
        "asks": part(weights.asks, asks),
        "answers": part(weights.answers, answers),
        **{
            kind: part(
                getattr(weights, kind),
                (says(text, question.language) for text in texts),
                wanted=kind in question.asks,
            )
            for kind, says in answer_types.SAYS.items()
        },
        "latest": part(weights.latest, _newness(ordered), wanted="now" in question.asks),
        "about_self": part(
            weights.about_self, (answer_types.about_self(text, question.language) for text in texts)
        ),
        "decision": part(weights.decision, decided, wanted=decided),
        "aside": part(weights.aside, (c.aside for c in ordered)),
        "linked": part(weights.linked, (c.linked for c in ordered), wanted=any(c.linked for c in ordered)),
        "phrase": part(
            weights.phrase, map(partial(exact_match.share, question.phrases), texts), wanted=question.phrases
        ),
        "exact": part(
            weights.exact,
            map(partial(exact_match.share, question.identifiers), texts),
            wanted=question.identifiers,
        ),
        "date": part(weights.date, fits or (), wanted=fits),
    }
    rows = list(zip(*parts.values(), strict=True))
    scores = [sum(row) for row in rows]
    best_first = sorted(
        range(len(rows)), key=lambda i: (scores[i], ordered[i].sent_at, ordered[i].id), reverse=True
    )
    return [Scored(ordered[i], scores[i], dict(zip(parts, rows[i], strict=True))) for i in best_first]


def rank_sessions(scored: Sequence[Scored]) -> list[tuple[int, Scored]]:
    """Rank sessions by their best messages: `(session, its best message)`, best first; `scored` is best first.

    `SECOND` of the second best message's score is added as the part `second`, and `SESSION_WORDS` of `session_words` as
    the part of that name. Messages that are not yet placed count for no session.
    """
    words = session_words([hit.candidate for hit in scored])
    best: dict[int, Scored] = {}
    second: dict[int, float] = {}
    for hit in scored:
        session = hit.candidate.session
        if session and session in best:
            second.setdefault(session, hit.score)
        elif session:
            best[session] = hit
    whole = []
    for session, hit in best.items():
        added = {"second": SECOND * second.get(session, 0.0), "session_words": SESSION_WORDS * words[session]}
        whole.append(
            (session, Scored(hit.candidate, hit.score + sum(added.values()), {**hit.parts, **added}))
        )
    return sorted(whole, key=lambda one: -one[1].score)


def meanings(ordered: Sequence[Candidate], mean: float) -> list[float]:
    """Return `(cosine - mean) / (best - mean)`: 0 for the scope's average or no vector, 1 for its best."""
    span = max((c.cosine for c in ordered if c.cosine is not None), default=mean) - mean
    return [(c.cosine - mean) / span if c.cosine is not None and span > 1e-9 else 0.0 for c in ordered]


def _answers(ordered: Sequence[Candidate], asks: Sequence[float], relevance: Sequence[float]) -> list[float]:
    """Return the relevance of the best question in another speaker's run right before each message's; 0 without one."""
    found: list[float] = []
    asked_before = asked_now = 0.0
    session, speaker = 0, ""
    for candidate, share, relevant in zip(ordered, asks, relevance, strict=True):
        if candidate.session != session:
            asked_before = asked_now = 0.0
        elif candidate.speaker != speaker:
            asked_before, asked_now = asked_now, 0.0
        session, speaker = candidate.session, candidate.speaker
        found.append(asked_before)
        # a message half of which asks is a question
        if share:
            asked_now = max(asked_now, relevant * min(1.0, 2 * share))
    return found


def _newness(ordered: Sequence[Candidate]) -> Iterator[float]:
    """Yield the share of the candidates that are older: 0 for the first, 1 for the last; computed when needed."""
    found = [0.0] * len(ordered)
    for place, i in enumerate(sorted(range(len(ordered)), key=lambda i: ordered[i].sent_at)):
        found[i] = place / max(len(ordered) - 1, 1)
    yield from found


def _date_fit(sent_at: datetime, question: Question, half_life_days: float) -> float:
    """Return 1 inside a time that the question names, half as much every half-life away, 0 without one."""
    fit = question.event.fit(sent_at) if question.event else 0.0
    for start, end in question.spans:
        away = max((start - sent_at).total_seconds(), (sent_at - end).total_seconds(), 0.0) / 86_400
        fit = max(fit, 0.5 ** (away / half_life_days))
    return fit
