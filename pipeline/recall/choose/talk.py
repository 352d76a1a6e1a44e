"""Choose the earlier messages worth showing, with their neighbours, under the headings of their sessions.

Pure.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property

from pipeline.recall.choose.lines import ChosenLine, Style, said_by
from pipeline.recall.find.candidates import Candidate
from pipeline.recall.gather import Ranked
from pipeline.recall.profiles import Parameters
from pipeline.recall.question.conversation import Questions
from pipeline.recall.rank.rank import Scored
from pipeline.text import duplicates, truncate
from pipeline.text.cues import message_cues
from pipeline.text.duplicates import Bag
from schemas.context import Dropped, DropReason
from schemas.sessions import Message

# A message takes at most the budget divided by the first number, fewer for a neighbour; a longer one is excerpted about
# the question. No message is cut below the second number of tokens.
MATCH_SHARES, MATCH_LEAST = 5, 64
BESIDE_SHARES, BESIDE_LEAST = 10, 32
BESIDE_WORTH = 0.7
"""Worth of a neighbour, as a share of the worth of the message beside it."""
AS_EARLIER = 0.99
"""Share of its worth that a recent message keeps among earlier talk, where it goes if recent talk has no room."""


@dataclass(frozen=True, kw_only=True)
class Talk:
    """The messages that were found, and how they are written."""

    # every candidate, by its session and its place in it
    by_place: Mapping[tuple[int, int], Candidate]
    # when each session began, as far as is known, and when its messages were said, in order
    times: Mapping[int, Sequence[datetime]]
    # what the best sessions were about, unless a line of its own says it: a language model's summary, or topics where
    # sessions were chosen
    about: Mapping[int, str]
    style: Style
    # the headings so far, by session and day
    headings: dict[tuple[int, date], str] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Ranked, parameters: Parameters, style: Style) -> "Talk":
        """Return the talk that was found."""
        candidates = [hit.candidate for hit in results.ranked]
        told = {session.id for session in results.overview}
        times: dict[int, list[datetime]] = {session.id: [session.started_at] for session in results.sessions}
        for candidate in candidates:
            times.setdefault(candidate.session, []).append(candidate.message.sent_at)
        return cls(
            by_place={(c.session, c.place): c for c in candidates if c.session},
            times={session: sorted(of_session) for session, of_session in times.items()},
            about={
                session.id: truncate.shortened(truncate.one_line(text), parameters.session_chars)
                for session in results.sessions[: parameters.sessions]
                if (session.is_described or parameters.narrows)
                and (text := session.about)
                and session.id not in told
            },
            style=style,
        )

    def line(
        self, candidate: Candidate, worth: float, reason: str, *, score: float | None, is_below: bool = False
    ) -> ChosenLine:
        """Write a message as a line, quoting the message that it answers unless that is the line above (`is_below`)."""
        before, answered = (
            self.by_place.get((candidate.session, candidate.place - 1)),
            candidate.message.answered,
        )
        if is_below and before and answered and before.id == answered.id:
            answered = None

        def write(tokens: int) -> str:
            speaker = said_by(
                candidate.message.speaker, answered, self.style.wording, candidate.message.forwarded_from
            )
            head = f"{speaker}: "
            return head + self.style.excerpt(head, candidate.message.content, tokens)

        is_match = score is not None
        return ChosenLine(
            block="exchanges",
            kind="message",
            id=str(candidate.id),
            answers=str(answered.id) if answered else None,
            at=candidate.message.sent_at,
            speaker=candidate.message.speaker,
            score=score,
            reason=reason,
            worth=worth,
            place=self._place(candidate),
            write=write,
            shares=MATCH_SHARES if is_match else BESIDE_SHARES,
            least=MATCH_LEAST if is_match else BESIDE_LEAST,
            group=self._heading(candidate),
            follows=self._place(before) if before else (),
            may_be_cut=is_match,
        )

    def _place(self, candidate: Candidate) -> tuple[object, ...]:
        """Return the position among all messages: sessions by their start, each kept together."""
        message = candidate.message
        began = self.times[candidate.session][0] if candidate.session else message.sent_at
        return (began, message.session_key, candidate.session > 0, message.sent_at, candidate.place)

    def _heading(self, candidate: Candidate) -> str:
        """Write the day on which a message was said, with the time at which its session began or went on that day.

        And what it was about, if that is known.
        """
        session, wording = candidate.session, self.style.wording
        local = candidate.message.sent_at.astimezone(self.style.zone)
        if not session:
            return wording.at(local)
        key = (session, local.date())
        if key not in self.headings:
            times, midnight = self.times[session], local.replace(hour=0, minute=0, second=0, microsecond=0)
            at = bisect_left(times, midnight)
            heading = wording.at(times[at].astimezone(self.style.zone))
            # said once, on the session's first day
            about = self.about.get(session, "") if not at else ""
            self.headings[key] = f"{heading} · {about}" if about else heading
        return self.headings[key]


def choose_messages(
    ranked: Sequence[Scored],
    worth: Mapping[int, float],
    talk: Talk,
    recent: Set[int],
    parameters: Parameters,
    limit: float,
    is_question: Callable[[Candidate], bool],
) -> Iterator[ChosenLine | Dropped]:
    """Choose messages, given best first, and say why the others are left out; `worth` is by id.

    `recent` are messages of recent talk, which stand here only where there is no room for them there. `is_question`
    recognizes the question itself.
    """
    chosen: dict[int, tuple[int, float]] = {}
    # messages shown elsewhere, and repetitions, are not shown as neighbours either
    elsewhere = set(recent)
    chosen_bags: dict[int, list[Bag]] = {}
    of_session: Counter[int] = Counter()

    def dropped(hit: Scored, reason: DropReason, detail: str) -> Dropped:
        return Dropped(kind="message", id=str(hit.candidate.id), reason=reason, detail=detail)

    for rank, hit in enumerate(ranked, start=1):
        candidate, value = hit.candidate, worth[hit.candidate.id]
        if not candidate.message.content.strip():
            continue
        if is_question(candidate):
            elsewhere.add(candidate.id)
            yield dropped(hit, "duplicate", "the question itself")
        elif value < limit:
            yield dropped(hit, "below_minimum", f"worth {value:.2f}, below {limit:g}")
        elif candidate.id in recent and parameters.messages:
            yield talk.line(candidate, value * AS_EARLIER, _why(rank, hit), score=hit.score)
        elif of_session[candidate.session] >= parameters.messages_per_session:
            yield dropped(hit, "cap", f"more than {parameters.messages_per_session} of one session")
        elif len(chosen) >= parameters.messages:
            yield dropped(hit, "cap", f"at most {parameters.messages} messages")
        elif duplicates.is_repeated(
            bag := Bag(candidate.message.content, frozenset(candidate.message.content.casefold().split())),
            chosen_bags,
        ):
            elsewhere.add(candidate.id)
            yield dropped(hit, "duplicate", "says the same as a better hit")
        else:
            chosen_bags.setdefault(len(bag.words), []).append(bag)
            of_session[candidate.session] += 1
            chosen[candidate.id] = rank, value
            is_below = bool(parameters.neighbours) and value * BESIDE_WORTH >= limit
            yield talk.line(candidate, value, _why(rank, hit), score=hit.score, is_below=is_below)
    used = chosen.keys() | elsewhere
    for candidate in (hit.candidate for hit in ranked if hit.candidate.id in chosen):
        rank, value = chosen[candidate.id]
        for step in range(1, parameters.neighbours + 1):
            if (worth_beside := value * BESIDE_WORTH**step) < limit:
                break
            for place in (candidate.place - step, candidate.place + step):
                near = talk.by_place.get((candidate.session, place))
                if near and near.message.content.strip() and near.id not in used:
                    used.add(near.id)
                    reason = f"beside match {rank}"
                    is_below = near.place > candidate.place
                    yield talk.line(near, worth_beside, reason, score=None, is_below=is_below)


def _why(rank: int, hit: Scored) -> str:
    """Name the three largest parts of a score, what links it to the question, and the other queries that found it."""
    best = sorted([(value, name) for name, value in hit.parts.items() if value > 0.01], reverse=True)[:3]
    named = ", ".join([f"{name} {value:.2f}" for value, name in best]) or "nothing speaks for it"
    if hit.candidate.found_by:
        named += "".join(f"; by query {number}" for number in sorted(set(hit.candidate.found_by.values())))
    return f"match {rank}: {named}"


@dataclass(frozen=True)
class PostedQuestion:
    """The question as a message, with or without a mention of the bot; the same words from others are not it."""

    questions: Questions
    results: Ranked

    def is_found(self, candidate: Candidate) -> bool:
        """Tell whether a hit is the question, or the same one asked before."""
        return self.questions.may_be(candidate.id, candidate.message.speaker) and self._has_its_words(
            candidate.message.content
        )

    def is_recent(self, message: Message) -> bool:
        """Tell whether one of the latest messages is the question, or the same one asked before.

        If it asks nothing, only the last message can be it: an earlier “yes” of the asker stays an answer.
        """
        return (self.questions.asks or message.id in self._last) and self._has_its_words(message.content)

    @cached_property
    def _last(self) -> set[int | None]:
        """The last message of the chat, and the asker's."""
        by_asker = (message.id for message in self.results.recent if message.speaker == self.questions.asker)
        return {self.questions.newest, next(by_asker, None)}

    @cached_property
    def _names(self) -> frozenset[str]:
        bots = {
            hit.candidate.message.speaker
            for hit in self.results.ranked
            if hit.candidate.message.role == "assistant"
        }
        names = message_cues.names_of(
            bots | {m.speaker for m in self.results.recent if m.role == "assistant"}
        )
        return names | self.questions.names

    @cached_property
    def _question(self) -> str:
        return message_cues.said(self.questions.query, self.questions.language, self._names)

    def _has_its_words(self, text: str) -> bool:
        return message_cues.repeats(text, self._question, self.questions.language, self._names)
