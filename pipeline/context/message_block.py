"""Choose the messages that a context may show, the best first, with their neighbours. Pure."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, tzinfo
from functools import partial

from pipeline.context.packing import Entry
from pipeline.context.recent_talk import said_by
from pipeline.context.wording import Wording
from pipeline.ranking.model import Candidate, Scored
from pipeline.ranking.similarity import Scale
from pipeline.retrieval.profiles import Parameters
from pipeline.text import duplicates, excerpt, truncate
from pipeline.text.duplicates import Bag
from pipeline.text.excerpt import Wanted
from pipeline.text.tokens import Count, estimate_line
from schemas.context import ContextItem, Dropped, DropReason
from schemas.sessions import RepliedTo

# The share of the room that a message may take, and one beside it; of a longer one the part that the question is about.
MATCH_SHARE, BESIDE_SHARE = 5, 10
# No message is cut to less than this.
MIN_MATCH_TOKENS, MIN_BESIDE_TOKENS = 64, 32


@dataclass(frozen=True, kw_only=True)
class Lines:
    """How messages are written as lines of a context."""

    # every candidate, by its session and its place in it
    by_place: Mapping[tuple[int, int], Candidate]
    # when each session began, and when its messages were said, in order
    times: Mapping[int, Sequence[datetime]]
    zone: tzinfo
    wording: Wording
    # what long messages are excerpted about
    asked: Wanted
    # the tokens that all messages may take
    room: int
    count: Count = estimate_line
    # the headings so far, by session and day
    headings: dict[tuple[int, date], str] = field(default_factory=dict)

    def entry(
        self, candidate: Candidate, answered: RepliedTo | None, score: float | None, reason: Callable[[], str]
    ) -> Entry:
        """Write a message, cut to its share of the room; the `reason` is asked for if it is shown."""
        is_match = score is not None
        before = self.by_place.get((candidate.session, candidate.place - 1))

        def write(tokens: int | None) -> str:
            head = self._head(candidate, answered)
            room = (tokens or self._share(is_match=is_match)) - self.count(head)
            return head + excerpt.shown(candidate.text, self.asked, max(room, 1), self.count)

        def make(text: str) -> ContextItem:
            return ContextItem(
                kind="message",
                id=str(candidate.id),
                text=text,
                answers=str(answered.id) if answered else None,
                at=candidate.sent_at,
                speaker=candidate.speaker,
                score=score,
                reason=reason(),
            )

        return Entry(
            kind="message",
            id=str(candidate.id),
            place=_place(candidate),
            write=write,
            make=make,
            score=score,
            group=self._heading(candidate),
            neighbour_of=_place(before) if before else (),
            may_be_cut=is_match,
        )

    def holds(self, candidate: Candidate) -> bool:
        """Tell whether a match is not longer than its share of the room."""
        head = self.count(self._head(candidate, candidate.answered))
        return head + self.count(truncate.displayed(candidate.text)) <= self._share(is_match=True)

    def _head(self, candidate: Candidate, answered: RepliedTo | None) -> str:
        """Return what is written before what was said."""
        return f"{said_by(candidate.speaker, answered, self.wording)}: "

    def _share(self, *, is_match: bool) -> int:
        """Return the tokens that a message may take."""
        share, least = (MATCH_SHARE, MIN_MATCH_TOKENS) if is_match else (BESIDE_SHARE, MIN_BESIDE_TOKENS)
        return max(self.room // share, least)

    def _heading(self, candidate: Candidate) -> str:
        """Write the day on which a message was said, with the time at which its session began or went on that day."""
        session, said = candidate.session, candidate.sent_at.astimezone(self.zone)
        if not session:
            return self.wording.at(said)
        key = (session, said.date())
        if key not in self.headings:
            times, midnight = self.times[session], said.replace(hour=0, minute=0, second=0, microsecond=0)
            first = times[bisect_left(times, midnight)]
            self.headings[key] = self.wording.at(first.astimezone(self.zone))
        return self.headings[key]


def in_budget_order(ranked: Sequence[tuple[int, Scored]], most: int) -> list[tuple[int, Scored]]:
    """Order the first `most` messages, given with their ranks, for a token budget: by score without the part `length`.

    Of two messages the longer holds more, but it takes the tokens of several short ones. Asides stay last.
    """
    first = [
        (rank, hit._replace(score=hit.score - hit.parts.get("length", 0.0))) for rank, hit in ranked[:most]
    ]
    return sorted(first, key=lambda each: (each[1].candidate.aside, -each[1].score)) + list(ranked[most:])


def exchanges(
    ranked: Sequence[tuple[int, Scored]],
    lines: Lines,
    shown: Mapping[int, str],
    cut: Collection[int],
    parameters: Parameters,
    is_question: Callable[[Candidate], bool],
    scale: Scale,
) -> Iterator[Entry | Dropped]:
    """Offer the best messages, given with their ranks, with their neighbours; say what is left out whatever the budget.

    `shown` are messages of other blocks, by id, with the block's name; those that are `cut` there are offered if they
    are whole here. `is_question` recognizes the question itself.
    """
    taken: set[int] = set()
    seen: dict[int, list[Bag]] = {}
    chosen = 0
    per_session: Counter[int] = Counter()

    def dropped(hit: Scored, reason: DropReason, detail: str) -> Dropped:
        return Dropped(kind="message", id=str(hit.candidate.id), reason=reason, detail=detail)

    def entry(candidate: Candidate, score: float | None, reason: Callable[[], str]) -> Entry:
        taken.add(candidate.id)
        answered = candidate.answered
        before = lines.by_place.get((candidate.session, candidate.place - 1)) if answered else None
        # not quoted if it is the line above
        if answered and before and before.id == answered.id and (parameters.neighbours or before.id in taken):
            answered = None
        return lines.entry(candidate, answered, score, reason)

    for rank, hit in ranked:
        candidate = hit.candidate
        if chosen >= parameters.messages:
            break
        if not candidate.text.strip() or candidate.id in taken:
            continue
        if candidate.id in shown and not (candidate.id in cut and lines.holds(candidate)):
            part = "a part of it is " if candidate.id in cut else ""
            yield dropped(hit, "covered", f"{part}shown in {shown[candidate.id]}")
            continue
        if is_question(candidate):
            yield dropped(hit, "duplicate", "the question itself")
            continue
        similar = scale.similarity(candidate.best_cosine)
        if similar is not None and similar < parameters.min_similarity and not _needs_no_similarity(hit):
            yield dropped(
                hit, "below_minimum", f"similarity {similar:.2f}, below {parameters.min_similarity:g}"
            )
            continue
        if per_session[candidate.session] >= parameters.messages_per_session:
            yield dropped(hit, "cap", f"more than {parameters.messages_per_session} of one session")
            continue
        bag = Bag(candidate.text, frozenset(candidate.text.casefold().split()))
        if duplicates.is_said(bag, seen, parameters.duplicate_jaccard):
            yield dropped(hit, "duplicate", "says the same as a better hit")
            continue
        seen.setdefault(len(bag.words), []).append(bag)
        chosen += 1
        per_session[candidate.session] += 1
        yield entry(candidate, hit.score, partial(_why, rank, hit))
        for step in range(1, parameters.neighbours + 1):
            for place in (candidate.place - step, candidate.place + step):
                near = lines.by_place.get((candidate.session, place))
                if near and near.id not in taken and near.id not in shown and near.text.strip():
                    yield entry(near, None, partial("beside match {}".format, rank))


def _needs_no_similarity(hit: Scored) -> bool:
    """Return whether a message holds a phrase or an identifier of the question verbatim."""
    return hit.parts.get("phrase", 0.0) > 0 or hit.parts.get("exact", 0.0) > 0


def _why(rank: int, hit: Scored) -> str:
    """Name the three largest parts of a score, and the other queries that found it."""
    best = sorted([(value, name) for name, value in hit.parts.items() if value > 0.01], reverse=True)[:3]
    named = ", ".join([f"{name} {value:.2f}" for value, name in best]) or "nothing speaks for it"
    if hit.candidate.found_by:
        named += "".join(f"; by query {number}" for number in sorted(set(hit.candidate.found_by.values())))
    return f"match {rank}: {named}"


def _place(candidate: Candidate) -> tuple[object, ...]:
    return (candidate.sent_at, candidate.session, candidate.place)
