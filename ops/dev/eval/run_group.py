"""The evaluation over one large group: questions of small chats, asked of each chat by itself and of the group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Any

from ops.dev import shipped
from ops.dev.eval import chat_measures, group, samples
from ops.dev.eval.chat_measures import BY_WORDS, OURS, QuestionFigures, WayResult, measured
from ops.dev.eval.measures import confidence_interval
from ops.dev.eval.question_messages import AFTER, asked_as_message
from ops.dev.eval.remembered import Remembering
from ops.dev.eval.run_chats import PlainSearch, contexts
from ops.dev.eval.samples import SampleChat, SampleQuestion
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.recall.ask.profiles import profile_named
from schemas.messages import MessageIn
from schemas.payloads import ContextParameters
from schemas.settings import Settings

ALONE, GROUP = "alone", "group"
# What has a share from 0 to 1 in both places.
_LEVELS = ("turn", "session", "coverage")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to evaluate."""

    messages: int = 30_000
    seed: int = 1
    # of the parts those with these names; none: all
    only: tuple[str, ...] = ()
    parts: Sequence[str] = tuple(group.PARTS)
    # nothing is embedded
    words_only: bool = False
    # plain search is asked beside it; embedding for it takes as long as all else
    plain: bool = True
    # where embeddings are remembered for the next run; None: nowhere
    vectors: Path | None = None
    # of the contexts, and what is changed of its parameters
    profile: str = "balanced"
    parameters: ContextParameters = field(default_factory=ContextParameters)
    folder: Traversable = samples.CHATS


@dataclass(frozen=True, kw_only=True)
class AskedTwice:
    """One question, and how it went in its own chat and in the group, by way."""

    part: str
    kind: str
    question: str
    figures: Mapping[str, Mapping[str, QuestionFigures]]
    # from 1, of the best ranked piece of evidence; None: not found
    ranks: Mapping[str, Mapping[str, int | None]]
    # Backscroll's first messages, by place
    first: Mapping[str, Sequence[str]]


def evaluate(settings: Settings, options: Options, progress: Say) -> dict[str, Any]:
    """Compute the tables of `compared`, in one fresh database.

    Raises `InvalidInput` for an unknown profile.
    """
    profile_named(options.profile)
    chosen = [group.read(name, options.folder) for name in options.parts]
    built = group.build(chosen, options.messages, options.seed)
    asked = {name: part for name, part in built.parts.items() if not options.only or name in options.only}
    found: dict[tuple[str, int], dict[str, _Asked]] = {}
    with shipped.temporary(settings) as backscroll:
        if not options.words_only:
            vars(backscroll.resources)["embedder"] = Remembering(
                backscroll.resources.embedder, options.vectors
            )
        for name, part in asked.items():
            chat = part.chat.model_copy(update={"chat_id": f"sample:{name}"})
            alone = SampleChat(name=name, chat=chat, messages=part.messages, cases=part.cases)
            place = _Place(backscroll, alone, options, progress)
            for number, case in enumerate(alone.cases):
                progress(f"{name}: question {number + 1} of {len(alone.cases)}")
                found[name, number] = {ALONE: place.ask(part.messages, case)}
        whole = SampleChat(name=GROUP, chat=built.chat, messages=built.messages, cases=[])
        place = _Place(backscroll, whole, options, progress)
        for count, (name, number) in enumerate(found, start=1):
            progress(f"group: question {count} of {len(found)}")
            part = asked[name]
            found[name, number][GROUP] = place.ask(part.messages, part.cases[number])
    answered = [
        _twice(name, asked[name].cases[number], by_place) for (name, number), by_place in found.items()
    ]
    return compared(answered) | {
        "messages": len(built.messages),
        "people": built.people,
        "profile": options.profile,
        "parameters": options.parameters.model_dump(exclude_none=True),
        "details": [asdict(one) for one in answered],
    }


def compared(answered: Sequence[AskedTwice]) -> dict[str, Any]:
    """Return the figures of all questions with an answer and by part and kind: in each place, by way.

    `points` is what a question gains in the group, as percentage points of turn, session and coverage; mostly negative.
    `intervals` are the 95 % confidence intervals of these.
    """
    having = [one for one in answered if one.kind != samples.UNANSWERABLE]

    def grouped(key: Callable[[AskedTwice], str]) -> dict[str, Any]:
        names = dict.fromkeys(map(key, having))
        return {name: _both([one for one in having if key(one) == name]) for name in names}

    return {
        "questions": len(having),
        "all": _both(having),
        "by_part": grouped(lambda one: one.part),
        "by_kind": grouped(lambda one: one.kind),
    }


def _both(answered: Sequence[AskedTwice]) -> dict[str, Any]:
    ways = list(answered[0].figures[ALONE]) if answered else []
    means = {
        place: {way: chat_measures.means([one.figures[place][way] for one in answered]) for way in ways}
        for place in (ALONE, GROUP)
    }
    points = {
        way: {
            level: {
                k: round(100 * (share - means[ALONE][way][level][k]), 1)
                for k, share in means[GROUP][way][level].items()
            }
            for level in _LEVELS
        }
        for way in ways
    }
    intervals = {way: {level: _intervals(answered, way, level) for level in _LEVELS} for way in ways}
    return {"questions": len(answered), **means, "points": points, "intervals": intervals}


def _intervals(answered: Sequence[AskedTwice], way: str, level: str) -> dict[str, list[float]]:
    """Return the confidence interval of the points that each share of a level gains in the group."""
    shares = [[getattr(one.figures[place][way], level) for place in (ALONE, GROUP)] for one in answered]
    having = [(before, after) for before, after in shares if before]
    gains = {k: [after[k] - before[k] for before, after in having] for k in (having[0][0] if having else ())}
    return {str(k): [round(100 * end, 1) for end in confidence_interval(each)] for k, each in gains.items()}


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What each way found for one question in one place."""

    figures: Mapping[str, QuestionFigures]
    ranked: Mapping[str, Sequence[str]]
    first: Sequence[str]


class _Place:
    """A chat that is filled and asked, beside plain search."""

    def __init__(self, backscroll: Shipped, sample: SampleChat, options: Options, progress: Say) -> None:
        self._backscroll = backscroll
        self._sample = sample
        self._options = options
        self._way = BY_WORDS if options.words_only else OURS
        self._derived = [kind for kind in shipped.DERIVED if not options.words_only or kind != "embed"]
        backscroll.fill(sample.chat, sample.messages, progress, derived=self._derived)
        backscroll.vacuum()
        if not options.words_only:
            backscroll.index()
        self._plain = None
        if options.plain:
            progress(f"{sample.name}: plain search")
            self._plain = PlainSearch(backscroll, sample, words_only=options.words_only)
        self._session_of = backscroll.sessions_of(sample.chat.chat_id)

    def ask(self, said: Sequence[MessageIn], case: SampleQuestion) -> _Asked:
        """Put a question to the bot after the last message, by one of those whose messages these are, and ask."""
        at = case.asked_at or self._sample.messages[-1].sent_at + AFTER
        message = asked_as_message(self._sample.chat, said, case.question, at)
        with self._backscroll.put(self._sample.chat, message, derived=self._derived):
            ours = contexts(
                self._backscroll,
                self._sample,
                case,
                message,
                self._way,
                profile=self._options.profile,
                parameters=self._options.parameters,
            )
        results: dict[str, WayResult] = {self._way: ours}
        if self._plain is not None:
            results |= self._plain.results(case)
        return _Asked(
            figures={way: measured(case, self._session_of, result) for way, result in results.items()},
            ranked={way: result.ranked for way, result in results.items()},
            first=list(islice(ours.ranked, 10)),
        )


def _twice(part: str, case: SampleQuestion, by_place: Mapping[str, _Asked]) -> AskedTwice:
    return AskedTwice(
        part=part,
        kind=case.kind,
        question=case.question,
        figures={place: asked.figures for place, asked in by_place.items()},
        ranks={
            place: {way: best_rank(case.evidence, ranked) for way, ranked in asked.ranked.items()}
            for place, asked in by_place.items()
        },
        first={place: asked.first for place, asked in by_place.items()},
    )


def best_rank(evidence: Sequence[str], ranked: Sequence[str]) -> int | None:
    """Return the rank from 1 of the first piece of evidence."""
    wanted = set(evidence)
    return next((rank for rank, each in enumerate(ranked, start=1) if each in wanted), None)
