"""The evaluation over chats of many kinds: fill, put each question to the bot, ask, and count beside plain search."""

from dataclasses import asdict, dataclass
from importlib.resources.abc import Traversable
from typing import Any, Literal

from ops.dev import shipped
from ops.dev.eval import measures, samples
from ops.dev.eval.asking import Asking, FilledChat
from ops.dev.eval.measures import Answered
from ops.dev.eval.samples import Part
from ops.dev.observe import Say
from pipeline.recall.ask.profiles import profile_named
from schemas.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to evaluate."""

    part: Part | Literal["all"] = "all"
    # of the catalogue those with these names; none: all of the part
    only: tuple[str, ...] = ()
    # questions in another language than their chat, of those that have such
    foreign: bool = False
    asking: Asking = Asking()  # noqa: RUF009 - it is frozen
    folder: Traversable = samples.CHATS


def chats(settings: Settings, options: Options, progress: Say) -> dict[str, Any]:
    """Compute the tables of `measures.tables` in one fresh database; `details` lists each question.

    Raises `InvalidInput` for an unknown chat or profile.
    """
    asking, folder = options.asking, options.folder
    profile_named(asking.profile)
    chosen = samples.chosen(options.part, options.only, folder)
    if options.foreign:
        chosen = {name: facts for name, facts in chosen.items() if samples.has_foreign(name, folder)}
    answered: list[Answered] = []
    with shipped.temporary(settings) as backscroll:
        for name, facts in chosen.items():
            sample = samples.read_chat(name, folder, foreign=options.foreign)
            answered += FilledChat(backscroll, sample, facts, asking, progress).answers()
    return measures.tables(answered) | {
        "chats": list(chosen),
        "profile": asking.profile,
        "parameters": asking.parameters.model_dump(exclude_none=True),
        "details": [asdict(one) for one in answered],
    }
