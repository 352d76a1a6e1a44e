"""Put the newest decision first where a question asks for one, and tell which older ones it replaced. Pure."""

from collections.abc import Sequence

from pipeline.question.parse import Question
from pipeline.ranking import decisions
from pipeline.ranking.model import Scored
from pipeline.ranking.similarity import Scale
from pipeline.retrieval.candidates import CandidateSet
from pipeline.text.sentences import terms, words

# What counts this much as the best decision, in the score's part `decision`: for being put first, for replacing
# others, for being replaced, which has cost it most of that part.
_FIRST, _REPLACES, _REPLACED = 0.5, 0.3, 0.1
# The share of the words of its subject that a replaced decision has in common with the later one.
_SAME_SUBJECT = 0.5
# So many of the best messages are looked at.
_READ = 200


def newest_first(
    ranked: Sequence[tuple[int, Scored]], question: Question, found: CandidateSet, scale: Scale
) -> tuple[list[tuple[int, Scored]], frozenset[int]]:
    """Return the messages, given with their ranks, with the newest decision first, and the decisions it replaced.

    Nothing changes where the question asks for no decision; none is replaced where it asks about a time.
    """
    ordered = list(ranked)
    if "decision" not in question.asks:
        return ordered, frozenset()
    values = {number: hit.parts.get("decision", 0.0) for number, (_, hit) in enumerate(ordered[:_READ])}
    best = max(values.values(), default=0.0)
    if best <= 0:
        return ordered, frozenset()
    dated = bool(question.spans) or question.event is not None
    replaced = frozenset[int]()
    if not dated:
        replaced = _replaced(ordered, values, best, found, scale, question.language)
    strong = [
        number
        for number, value in values.items()
        if value >= _FIRST * best and ordered[number][1].candidate.id not in replaced
    ]
    if strong and not dated:
        newest = max(strong, key=lambda number: ordered[number][1].candidate.sent_at)
        ordered.insert(0, ordered.pop(newest))
    return ordered, replaced


def _replaced(
    ordered: Sequence[tuple[int, Scored]],
    values: dict[int, float],
    best: float,
    found: CandidateSet,
    scale: Scale,
    language: str,
) -> frozenset[int]:
    """Return the decisions after which a stronger one was made about the same subject."""
    candidates = sorted(found.candidates, key=lambda c: (c.session, c.place))
    # from 0 for what is as similar as most messages to 1 for the best
    meaning = [max(0.0, 2 * (scale.similarity(c.best_cosine) or 0.0) - 1) for c in candidates]
    close = frozenset(decisions.close_words(candidates, meaning, found.statistics, language))
    subjects = {
        number: close.intersection(terms(words(ordered[number][1].candidate.text), language))
        for number, value in values.items()
        if value >= _REPLACED * best
    }

    def is_replaced(older: int) -> bool:
        said, subject = ordered[older][1].candidate, subjects[older]
        return any(
            values[newer] > values[older]
            and values[newer] >= _REPLACES * best
            and ordered[newer][1].candidate.sent_at > said.sent_at
            and len(subject & its_subject) >= max(1, _SAME_SUBJECT * len(subject))
            for newer, its_subject in subjects.items()
        )

    return frozenset(ordered[number][1].candidate.id for number in subjects if is_replaced(number))
