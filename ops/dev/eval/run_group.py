"""The evaluation over one large group: questions of small chats, asked of each chat by itself and of the group."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources.abc import Traversable
from typing import Any

from ops.dev import shipped
from ops.dev.embedders import RememberingEmbedder
from ops.dev.eval import group, measures, samples
from ops.dev.eval.asking import Asking, FilledChat
from ops.dev.eval.measures import LEVELS, Answered, confidence_interval
from ops.dev.eval.samples import UNANSWERABLE, ChatFacts, SampleChat
from ops.dev.observe import Say
from pipeline.recall.ask.profiles import profile_named
from schemas.settings import Settings

ALONE, GROUP = "alone", "group"
_FACTS = ChatFacts(part="held", kind="group", language="english")

Pair = tuple[Answered, Answered]
"""One question, asked of its own chat and of the group."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to evaluate."""

    messages: int = 30_000
    # of the parts those with these names; none: all
    only: tuple[str, ...] = ()
    parts: Sequence[str] = tuple(group.PARTS)
    asking: Asking = Asking()  # noqa: RUF009 - it is frozen
    folder: Traversable = samples.CHATS


def evaluate(settings: Settings, options: Options, progress: Say) -> dict[str, Any]:
    """Compute the tables of `compared`, in one fresh database.

    Raises `InvalidInput` for an unknown profile.
    """
    profile_named(options.asking.profile)
    built = group.build([group.read(name, options.folder) for name in options.parts], options.messages)
    asked = {name: part for name, part in built.parts.items() if not options.only or name in options.only}
    whole = SampleChat(name=GROUP, chat=built.chat, messages=built.messages, cases=[])
    with shipped.temporary(settings) as backscroll:
        backscroll.resources.embedder = RememberingEmbedder(backscroll.resources.embedder)

        def filled(sample: SampleChat) -> FilledChat:
            chat = FilledChat(backscroll, sample, _FACTS, options.asking, progress)
            backscroll.vacuum()
            backscroll.index()
            return chat

        alone = []
        for name, part in asked.items():
            chat = part.chat.model_copy(update={"chat_id": f"sample:{name}"})
            own = SampleChat(name=name, chat=chat, messages=part.messages, cases=part.cases)
            alone += filled(own).answers()
        everybody = filled(whole)
        pairs: list[Pair] = []
        cases = [(part, case) for part in asked.values() for case in part.cases]
        for (part, case), before in zip(cases, alone, strict=True):
            progress(f"group: question {len(pairs) + 1} of {len(cases)}")
            pairs.append((before, everybody.ask(case, part.messages)))
    return compared(pairs) | {
        "messages": len(built.messages),
        "people": built.people,
        "profile": options.asking.profile,
        "parameters": options.asking.parameters.model_dump(exclude_none=True),
        "details": [{ALONE: asdict(one), GROUP: asdict(other)} for one, other in pairs],
    }


def compared(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the figures of all questions with an answer and by part and kind: in each place, by way.

    `points` is what a question gains in the group, as percentage points of turn, session and coverage; mostly negative.
    `intervals` are the 95 % confidence intervals of these.
    """
    having = [pair for pair in pairs if pair[0].kind != UNANSWERABLE]

    def grouped(key: Callable[[Answered], str]) -> dict[str, Any]:
        names = dict.fromkeys(key(alone) for alone, _ in having)
        return {name: _both([pair for pair in having if key(pair[0]) == name]) for name in names}

    return {
        "questions": len(having),
        "all": _both(having),
        "by_part": grouped(lambda one: one.chat),
        "by_kind": grouped(lambda one: one.kind),
    }


def _both(pairs: Sequence[Pair]) -> dict[str, Any]:
    alone, in_group = (measures.by_way([pair[place] for pair in pairs]) for place in (0, 1))
    points = {
        way: {
            level: {k: round(100 * (share - part[level][k]), 1) for k, share in in_group[way][level].items()}
            for level in LEVELS
        }
        for way, part in alone.items()
    }
    intervals = {way: {level: _intervals(pairs, way, level) for level in LEVELS} for way in alone}
    return {
        "questions": len(pairs),
        ALONE: alone,
        GROUP: in_group,
        "points": points,
        "intervals": intervals,
    }


def _intervals(pairs: Sequence[Pair], way: str, level: str) -> dict[str, list[float]]:
    """Return the confidence interval of the points that each share of a level gains in the group."""
    shares = [[getattr(one.by_way[way], level) for one in pair] for pair in pairs]
    having = [(before, after) for before, after in shares if before]
    gains = {k: [after[k] - before[k] for before, after in having] for k in (having[0][0] if having else ())}
    return {str(k): [round(100 * end, 1) for end in confidence_interval(each)] for k, each in gains.items()}
