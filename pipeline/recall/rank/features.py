"""Compute the features of candidates, one column each, from 0 to 1."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from pipeline.recall.find.candidates import Candidate, Statistics
from pipeline.recall.profiles import OTHER_QUERY_WEIGHT
from pipeline.recall.question.parse import Question
from pipeline.store.search.keyword_search import K1, B, idf
from pipeline.text import exact_match
from pipeline.text.accents import without_accents
from pipeline.text.cues import AnswerType

# Weight of a message's words one step later and one step earlier; nothing beyond `STEPS`.
LATER, EARLIER = 0.7, 0.4
STEPS = 4
# They count half as much after this long a silence.
SILENCE_SECONDS = 3600.0

Array = npt.NDArray[np.float64]


class Kernel:
    """Weights by which candidates count for their neighbours: 0 across a gap or another session."""

    def __init__(self, ordered: Sequence[Candidate]) -> None:
        """Compute the links between candidates, which are in order of session and place."""
        size = len(ordered)
        session = np.fromiter((c.session for c in ordered), np.int64, size)
        place = np.fromiter((c.place for c in ordered), np.int64, size)
        sent = np.fromiter((c.message.sent_at.timestamp() for c in ordered), np.float64, size)
        linked = (session[1:] == session[:-1]) & (place[1:] == place[:-1] + 1) & (session[1:] != 0)
        silence = np.exp2(-np.maximum(np.diff(sent), 0.0) / SILENCE_SECONDS)
        self.link: Array = np.where(linked, silence, 0.0)

    def around(self, values: Array) -> Array:
        """Add to each value, along the last axis, the weighted values of its neighbours."""
        total = values.copy()
        chain = np.ones(max(values.shape[-1] - 1, 0))
        for step in range(1, min(STEPS, values.shape[-1] - 1) + 1):
            # the links from each candidate to the one `step` after it
            chain = self.link if step == 1 else chain[:-1] * self.link[step - 1 :]
            total[..., step:] += LATER**step * chain * values[..., :-step]
            total[..., :-step] += EARLIER**step * chain * values[..., step:]
        return total


def saturated(times: Array, lengths: Array, mean_length: float, idfs: Array) -> Array:
    """Return BM25: for each text, the sum over the terms of idf times saturated frequency."""
    norm = K1 * (1 - B + B * lengths / max(mean_length, 1e-9))
    # the maximum for each term is its idf times K1 + 1
    return np.asarray((idfs[:, None] * times * (K1 + 1) / (times + norm)).sum(axis=0), dtype=np.float64)


def shares(scores: Array, attainable: float) -> Array:
    """Return the geometric mean of two shares: of the best score, and of the attainable score.

    Where few of the terms are found, meaning decides.
    """
    top = scores.max(initial=0.0)
    return scores / math.sqrt(top * attainable) if top > 0 and attainable > 0 else np.zeros_like(scores)


def words_around(
    ordered: Sequence[Candidate], kernel: Kernel, substance: Array, statistics: Statistics
) -> Array:
    """Return BM25 of every candidate, read together with its surroundings, from 0 to 1.

    Frequencies and lengths around it are sums weighted by distance, as of fields in BM25F (Robertson, Zaragoza and
    Taylor, Simple BM25 Extension to Multiple Weighted Fields, 2004); a message gains as far as it has substance itself.
    """
    terms = list(statistics.document_frequency)
    idfs = np.array([idf(statistics.messages, statistics.document_frequency[term]) for term in terms])
    if not terms or not ordered:
        return np.zeros(len(ordered))
    attainable = float(idfs.sum()) * (K1 + 1)
    times = np.array([[c.terms.get(term, 0) for c in ordered] for term in terms], np.float64)
    lengths = np.fromiter((c.length for c in ordered), np.float64, len(ordered))
    # a message amid neighbours gathers this multiple of the mean length
    reach = 1 + sum(LATER**step + EARLIER**step for step in range(1, STEPS + 1))
    near = saturated(kernel.around(times), kernel.around(lengths), statistics.mean_length * reach, idfs)
    return shares(near * substance, attainable)


def best_cosines(cosines: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the best cosine of each id, given those to each query, the question first.

    >>> best_cosines([{7: 0.5, 8: 0.1}, {7: 0.6, 8: 0.5}])
    {7: 0.5, 8: 0.4}
    """
    first, *rest = cosines
    best = dict(first)
    for of_query in rest:
        for id_, cosine in of_query.items():
            best[id_] = max(best.get(id_, -1.0), OTHER_QUERY_WEIGHT * cosine)
    return best


def share_of_words(held: Collection[str], words: Collection[str], statistics: Statistics) -> float:
    """Return the share of the question's words that are held, weighted by idf; 0 without words."""

    def tells(word: str) -> float:
        return idf(statistics.messages, statistics.document_frequency.get(word, 0))

    total = sum(map(tells, words))
    return sum(tells(word) for word in words if word in held) / total if total > 0 else 0.0


# A message of this many distinct words has half the maximum substance: "haha" answers nothing.
HALF_SUBSTANCE = 1.0
# A message of this many times the mean length has half the maximum length feature.
HALF_LENGTH = 2.0
DATE_HALF_LIFE_DAYS = 5.0
# A time this much longer than a day counts half: a month holds much else.
DATE_HALF_LENGTH_DAYS = 15.0
_DAY = timedelta(days=1)
# Weight of mentioning a person, where a message by them counts 1.
MENTION_WEIGHT = 0.5
# Cosines of unrelated texts differ by this much: spaces are calibrated, see `pipeline.clients.by_space`.
UNRELATED = 0.2
# Whether a message holds what a question asks for.
_HOLDS: Mapping[AnswerType, Callable[[Candidate], bool]] = {
    "when": attrgetter("cues.has_time"),
    "number": attrgetter("cues.has_number"),
}


@dataclass(frozen=True, kw_only=True)
class Features:
    """The candidates in order of session and place, and their features by name, each an array over them."""

    ordered: Sequence[Candidate]
    columns: Mapping[str, Array]


def features(question: Question, candidates: Sequence[Candidate], statistics: Statistics) -> Features:
    ordered = sorted(candidates, key=lambda c: (c.session, c.place))
    size = len(ordered)
    kernel = Kernel(ordered)
    length = np.fromiter((c.length for c in ordered), np.float64, size)
    substance = length / (length + HALF_SUBSTANCE)
    near = words_around(ordered, kernel, substance, statistics)
    meaning = _meanings(ordered, statistics.mean_cosine)
    ordered = _with_others(ordered, kernel, substance, statistics, near, meaning)
    asks = np.fromiter((c.cues.asks for c in ordered), np.float64, size)
    columns: dict[str, Array] = {
        "words": near,
        "meaning": meaning * statistics.trust,
        "session": _best_of_session(ordered, meaning) * substance * statistics.trust,
        "session_words": _session_words(ordered, statistics) * substance,
        "length": length / (length + HALF_LENGTH * max(statistics.mean_length, 1.0)),
        "tells": 1.0 - asks,
        "answers": _answers(ordered, asks, np.maximum(near, meaning)),
    }
    if question.speakers or question.names:
        columns["named"] = _named(question, ordered)
    for kind, holds in _HOLDS.items():
        if kind in question.asks:
            columns[kind] = np.fromiter(map(holds, ordered), np.float64, size)
    if "now" in question.asks:
        columns["latest"] = _newness(ordered)
    if any(c.affinity for c in ordered):
        columns["affinity"] = np.fromiter((c.affinity for c in ordered), np.float64, size)
    for name, pieces in (("phrase", question.phrases), ("exact", question.identifiers)):
        if pieces:
            share = partial(exact_match.share, pieces)
            columns[name] = np.fromiter((share(c.message.content) for c in ordered), np.float64, size)
    if question.spans or question.event:
        columns["date"] = np.array([_date_fit(c.message.sent_at, question) for c in ordered])
    return Features(ordered=ordered, columns=columns)


def _meanings(ordered: Sequence[Candidate], mean: float) -> Array:
    """Return `(cosine - mean) / (best - mean)`: 0 for the scope's average or no vector, 1 for its best.

    The difference counts as at least `UNRELATED`, so that the best of unrelated messages is less than 1.
    """
    cosines = np.array([np.nan if c.cosine is None else c.cosine for c in ordered], dtype=np.float64)
    best = np.nanmax(cosines, initial=mean)
    return np.nan_to_num((cosines - mean) / max(best - mean, UNRELATED))


def _best_of_session(ordered: Sequence[Candidate], values: Array) -> Array:
    """Return for each candidate the best value in its session; 0 if it is in no session."""
    sessions, index = np.unique(np.fromiter((c.session for c in ordered), np.int64), return_inverse=True)
    best = np.full(len(sessions), -np.inf)
    np.maximum.at(best, index, values)
    return np.where(sessions == 0, 0.0, best)[index]


def _session_words(ordered: Sequence[Candidate], statistics: Statistics) -> Array:
    """Return for each candidate the squared share of the question's words, by idf, in the messages read of its session.

    Asides do not count; the share is 0 if a candidate is in no session.
    """
    held = defaultdict[int, set[str]](set)
    for candidate in ordered:
        if candidate.session and not candidate.noise:
            held[candidate.session].update(candidate.terms)
    lexemes = statistics.document_frequency
    shares = {session: share_of_words(terms, lexemes, statistics) ** 2 for session, terms in held.items()}
    return np.fromiter((shares.get(c.session, 0.0) for c in ordered), np.float64, len(ordered))


def _with_others(
    ordered: Sequence[Candidate],
    kernel: Kernel,
    substance: Array,
    statistics: Statistics,
    near: Array,
    meaning: Array,
) -> list[Candidate]:
    """Raise words and meaning in place to those of other queries where higher; record these in `found_by`."""
    candidates = list(ordered)
    for number, of_query in enumerate(statistics.others, start=1):
        compared = [c._replace(**c.others[number - 1]._asdict()) for c in candidates]
        query_near = OTHER_QUERY_WEIGHT * words_around(compared, kernel, substance, of_query)
        query_meaning = OTHER_QUERY_WEIGHT * _meanings(compared, of_query.mean_cosine)
        by_words, by_vector = query_near > near, query_meaning > np.maximum(meaning, 0.0)
        near[:] = np.where(by_words, query_near, near)
        meaning[:] = np.where(by_vector, query_meaning, meaning)
        for i in np.flatnonzero(by_words | by_vector):
            found_by = dict(candidates[i].found_by)
            found_by |= {"keywords": number} if by_words[i] else {}
            found_by |= {"vectors": number} if by_vector[i] else {}
            candidates[i] = candidates[i]._replace(found_by=found_by)
    return candidates


def _named(question: Question, ordered: Sequence[Candidate]) -> Array:
    """Return how surely the question names each speaker, or `MENTION_WEIGHT` if the message mentions a named person."""
    names = [without_accents(name.casefold()) for name in question.names]

    def share(candidate: Candidate) -> float:
        certainty = question.speakers.get(candidate.message.speaker, 0.0)
        if certainty >= MENTION_WEIGHT or not names:
            return certainty
        text = without_accents(candidate.message.content.casefold())
        return MENTION_WEIGHT if any(name in text for name in names) else certainty

    return np.fromiter(map(share, ordered), np.float64, len(ordered))


def _answers(ordered: Sequence[Candidate], asks: Array, relevance: Array) -> Array:
    """Return the relevance of the question that each message answers; 0 if it answers none.

    That is the message it replies to, or the best one of the run by another speaker right before its own speaker's run.
    """
    by_id = {c.id: i for i, c in enumerate(ordered)}
    # a message half of which asks is a question
    question_values = np.minimum(1.0, 2 * asks) * relevance
    values = np.zeros(len(ordered))
    before = now = 0.0
    previous: Candidate | None = None
    for i, candidate in enumerate(ordered):
        if previous is None or (candidate.session, candidate.place) != (previous.session, previous.place + 1):
            before = now = 0.0
        elif candidate.message.speaker != previous.message.speaker:
            before, now = now, 0.0
        previous = candidate
        values[i] = before
        if candidate.message.answered is not None and candidate.message.answered.id in by_id:
            values[i] = question_values[by_id[candidate.message.answered.id]]
        now = max(now, float(question_values[i]))
    return values


def _newness(ordered: Sequence[Candidate]) -> Array:
    """Return the share of the candidates that are older: 0 for the first, 1 for the last."""
    times = np.array([c.message.sent_at.timestamp() for c in ordered])
    return np.searchsorted(np.sort(times), times) / max(len(ordered) - 1, 1)


def _date_fit(sent_at: datetime, question: Question) -> float:
    """Return 1 on a day that the question names, halved for every half-life away; 0 if it names none.

    The longer a time, the less it counts, unless it is open to one side ("since May").
    """
    fit = question.event.fit(sent_at) if question.event else 0.0
    for span in question.spans:
        start, end = span
        distance = max(start - sent_at, sent_at - end, timedelta()) / _DAY
        excess = 0.0 if span in question.open_spans else max((end - start) / _DAY - 1, 0.0)
        fit = max(fit, 0.5 ** (distance / DATE_HALF_LIFE_DAYS) / (1 + excess / DATE_HALF_LENGTH_DAYS))
    return fit
