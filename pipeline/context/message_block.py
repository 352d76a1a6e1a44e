"""The messages that an answer may show, the best first, with neighbours where asked for: pure, from ranked hits."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import tzinfo

from pipeline.context.blocks import moment
from pipeline.context.packing import Entry
from pipeline.context.replies import speaking
from pipeline.ranking.model import Candidate, Scored
from pipeline.ranking.similarity import Scale
from pipeline.retrieval.profiles import Parameters
from pipeline.text import duplicates, truncate
from schemas.context import ContextItem, Dropped, DropReason

# A decision is found as one that owes so much of its score to it: it seldom sounds like the question.
_DECIDED_SHARE = 0.5


def exchanged(
    ranked: Sequence[Scored],
    candidates: Sequence[Candidate],
    shown: Mapping[int, str],
    parameters: Parameters,
    zone: tzinfo,
    itself: Callable[[str], bool],
    scale: Scale,
) -> Iterator[Entry | Dropped]:
    """The best messages, with neighbours where asked for, and what is left out whatever the budget.

    `shown` are messages that stand elsewhere in the context, by id, with the name of the block; `itself` tells the
    question as it came in.
    """
    by_place = {(c.session, c.place): c for c in candidates if c.session}
    began: dict[int, str] = {}
    taken: set[int] = set()
    said: dict[int, list[frozenset[str]]] = {}
    chosen = 0
    per_session: Counter[int] = Counter()

    def dropped(hit: Scored, reason: DropReason, detail: str) -> Dropped:
        return Dropped(kind="message", id=str(hit.candidate.id), reason=reason, detail=detail)

    def entry(candidate: Candidate, score: float | None, reason: str) -> Entry:
        taken.add(candidate.id)
        before = by_place.get((candidate.session, candidate.place - 1))
        session = candidate.session
        if session not in began or not session:
            first = by_place.get((session, 0), candidate)
            began[session] = moment(first.sent_at.astimezone(zone))
        answered = candidate.answered
        # the line above it says so, where that is shown
        if answered and before and before.id == answered.id and (parameters.neighbours or before.id in taken):
            answered = None
        item = ContextItem(
            kind="message",
            id=str(candidate.id),
            text=f"{speaking(candidate.speaker, answered)}: {truncate.one_line(candidate.text)}",
            answers=str(answered.id) if answered else None,
            at=candidate.sent_at,
            speaker=candidate.speaker,
            score=score,
            reason=reason,
        )
        return Entry(
            item=item,
            place=_place(candidate),
            group=began[session],
            neighbour_of=_place(before) if before else (),
        )

    for rank, hit in enumerate(ranked, start=1):
        candidate = hit.candidate
        if chosen >= parameters.messages:
            break
        if not candidate.text.strip() or candidate.id in taken:
            continue
        if candidate.id in shown:
            yield dropped(hit, "covered", f"stands in {shown[candidate.id]}")
            continue
        if itself(candidate.text):
            yield dropped(hit, "duplicate", "the question itself")
            continue
        similar = scale.similarity(candidate.cosine)
        if similar is not None and similar < parameters.min_similarity and not _is_held(hit):
            yield dropped(
                hit, "below_minimum", f"similarity {similar:.2f}, below {parameters.min_similarity:g}"
            )
            continue
        if per_session[candidate.session] >= parameters.messages_per_session:
            yield dropped(hit, "cap", f"more than {parameters.messages_per_session} of one session")
            continue
        bag = frozenset(candidate.text.casefold().split())
        if duplicates.is_said(bag, said, parameters.duplicate_jaccard):
            yield dropped(hit, "duplicate", "says the same as a better hit")
            continue
        said.setdefault(len(bag), []).append(bag)
        chosen += 1
        per_session[candidate.session] += 1
        yield entry(candidate, hit.score, f"match {rank}: {_why(hit)}")
        for step in range(1, parameters.neighbours + 1):
            for place in (candidate.place - step, candidate.place + step):
                near = by_place.get((candidate.session, place))
                if near and near.id not in taken and near.id not in shown and near.text.strip():
                    yield entry(near, None, f"beside match {rank}")


def _is_held(hit: Scored) -> bool:
    """Whether it holds a phrase or an identifier of the question as it stands, or was found as what was decided."""
    decided = hit.parts.get("decision", 0.0)
    return (
        hit.parts.get("phrase", 0.0) > 0
        or hit.parts.get("exact", 0.0) > 0
        or (decided > 0 and decided >= _DECIDED_SHARE * hit.score)
    )


def _why(hit: Scored) -> str:
    """The parts that speak most for a hit, in words."""
    best = sorted(((v, n) for n, v in hit.parts.items() if v > 0.01), reverse=True)[:3]
    return ", ".join(f"{name} {value:.2f}" for value, name in best) or "nothing speaks for it"


def _place(candidate: Candidate) -> tuple[object, ...]:
    return (candidate.sent_at, candidate.session, candidate.place)
