"""Prefer the newest decisions about its subject where a question asks what was decided.

A decision seldom names its subject ("then we take Beatriz, tomorrow"), so its words count by how much more often they
occur in passages about the subject than elsewhere (Lavrenko and Croft, Relevance-Based Language Models, 2001).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import prod, sqrt

from pipeline.ranking.bm25 import idf
from pipeline.ranking.model import Candidate, Statistics
from pipeline.text.cues import cues_of
from pipeline.text.sentences import all_terms

# A long session is about many things, so it is read as talks of 10 messages. About the subject are the best 8 talks,
# as far as they fit half as well as the best one.
_TALK_MESSAGES, _TALKS, _NEAR_BEST = 10, 8, 0.5
# A word of two decisions makes them of one subject, if it is so much more frequent there than elsewhere …
_SHARED = 0.2
# … and then the older counts for so much, the newer at least for so much of the older.
_REPLACED, _INHERITED = 0.4, 0.9


def about(
    ordered: Sequence[Candidate],
    meaning: Sequence[float],
    statistics: Statistics,
    language: str,
    then: Sequence[float] | None = None,
) -> list[float]:
    """Return how well each candidate decides what the question is about, from 0 to 1; `meaning` has the same range.

    The newest of several about one thing counts, unless the question is about a time: `then` says how well each fits
    it.
    """
    deciding = [i for i, c in enumerate(ordered) if not c.aside and c.cues.decides]
    if not deciding:
        return [0.0] * len(ordered)
    said = subjects(ordered, statistics, language)
    closeness = _closeness(ordered, said, meaning, statistics, language)
    values = {i: _value([closeness.get(term, 0.0) for term in said[i]]) for i in deciding}
    if then is None:
        _replace(sorted(deciding, key=lambda i: ordered[i].sent_at), values, said, closeness)
    else:
        values = {i: value * then[i] for i, value in values.items()}
    # beside one that is clearly about it, those that merely stand near it count for little
    best = max(values.values())
    values = {i: value * sqrt(value / best) if best else 0.0 for i, value in values.items()}
    return [values.get(i, 0.0) for i in range(len(ordered))]


def close_words(
    ordered: Sequence[Candidate], meaning: Sequence[float], statistics: Statistics, language: str
) -> list[str]:
    """Return words typical of passages about the question's subject, the closest first; see `about`."""
    said = subjects(ordered, statistics, language)
    closeness = _closeness(ordered, said, meaning, statistics, language)
    shared = [term for term, value in closeness.items() if value >= _SHARED]
    return sorted(shared, key=lambda term: (-closeness[term], term))


def subjects(ordered: Sequence[Candidate], statistics: Statistics, language: str) -> list[frozenset[str]]:
    """Return the words of each that can be a decision's subject: no number, no time, no verb of deciding."""
    cues = cues_of(language)
    no_subject = cues.time.whole | cues.deciding_verbs

    def can_be(term: str) -> bool:
        return term.isalpha() and term not in no_subject and not term.startswith(cues.deciding_stems)

    known = statistics.subjects
    read = all_terms((each.text for each in ordered if each.id not in known), language, can_be)
    return [known[each.id] if each.id in known else next(read) for each in ordered]


def _closeness(
    ordered: Sequence[Candidate],
    said: Sequence[frozenset[str]],
    meaning: Sequence[float],
    statistics: Statistics,
    language: str,
) -> Mapping[str, float]:
    """Return how much more often each word occurs in passages about the subject than in any, from 0 to 1."""
    deciding = cues_of(language).deciding_stems
    tells = {
        term: idf(statistics.messages, frequency)
        for term, frequency in statistics.document_frequency.items()
        if not term.startswith(deciding)
    }
    whole = sum(tells.values())
    fits: defaultdict[tuple[int, int], float] = defaultdict(float)
    holding: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for candidate, own, value in zip(ordered, said, meaning, strict=True):
        held = sum(tells.get(term, 0.0) for term in candidate.terms)
        fit = ((held / whole if whole else 0.0) + max(0.0, value)) / 2
        talk = candidate.session, candidate.place // _TALK_MESSAGES
        fits[talk] = max(fits[talk], fit)
        holding[talk] |= own
    best = sorted(fits, key=lambda talk: -fits[talk])[:_TALKS]
    near = {talk: fits[talk] for talk in best if fits[talk] >= _NEAR_BEST * fits[best[0]]}
    total = sum(near.values())
    if not total:
        return {}
    anywhere = Counter(term for held in holding.values() for term in held)
    there: defaultdict[str, float] = defaultdict(float)
    for talk, fit in near.items():
        for term in holding[talk]:
            there[term] += fit
    return {term: max(0.0, fit / total - anywhere[term] / len(holding)) for term, fit in there.items()}


def _value(closeness: Sequence[float]) -> float:
    """Return the value of a decision from its words' closeness: any may be its subject; the others dilute it."""
    close = sum(value >= _SHARED for value in closeness)
    return (1 - prod(1 - value for value in closeness)) * sqrt(close / max(len(closeness), 1))


def _replace(
    in_order: Sequence[int],
    values: dict[int, float],
    said: Sequence[frozenset[str]],
    closeness: Mapping[str, float],
) -> None:
    """Let the newest of the decisions about one subject supersede those before it."""
    close = {i: {term for term in said[i] if closeness.get(term, 0.0) >= _SHARED} for i in in_order}
    for at, newer in enumerate(in_order):
        for older in in_order[:at]:
            if close[newer] & close[older]:
                values[newer] = max(values[newer], _INHERITED * values[older])
                values[older] *= _REPLACED
