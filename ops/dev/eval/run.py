"""The evaluations over chats: of each chat by itself, and of one large group that holds many small ones."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources.abc import Traversable
from typing import Any, Literal

from ops.dev import shipped
from ops.dev.embedders import RememberingEmbedder
from ops.dev.eval import group, measures, samples
from ops.dev.eval.asking import Asking, FilledChat
from ops.dev.eval.measures import Answered
from ops.dev.eval.samples import ChatFacts, Part, SampleChat
from ops.dev.observe import Say
from pipeline.recall.ask.profiles import profile_named
from schemas.settings import Settings

ALONE, GROUP = "alone", "group"
_FACTS = ChatFacts(part="held", kind="group", language="english")


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
    """Compute the tables of `evaluated` over chats of the catalogue. Raises `InvalidInput` for an unknown chat."""
    folder = options.folder
    chosen = [
        (samples.read_chat(name, folder, foreign=options.foreign), facts)
        for name, facts in samples.chosen(options.part, options.only, folder).items()
        if not options.foreign or samples.has_foreign(name, folder)
    ]
    return evaluated(settings, chosen, options.asking, progress)


def evaluated(
    settings: Settings, chats: Sequence[tuple[SampleChat, ChatFacts]], asking: Asking, progress: Say
) -> dict[str, Any]:
    """Compute the tables of `measures.tables` in one fresh database; `details` lists each question.

    Raises `InvalidInput` for an unknown profile.
    """
    profile_named(asking.profile)
    answered: list[Answered] = []
    with shipped.temporary(settings) as backscroll:
        for sample, facts in chats:
            answered += FilledChat(backscroll, sample, facts, asking, progress).answers()
    return _described(asking) | _tables(answered)


def in_group(
    settings: Settings,
    options: Options,
    messages: int,
    progress: Say,
    parts: Sequence[str] = tuple(group.PARTS),
) -> dict[str, Any]:
    """Compute the tables of the same questions, asked of small chats and of the group that holds them all.

    Of the parts only those of `options.only` are asked about. Raises `InvalidInput` for an unknown profile.
    """
    profile_named(options.asking.profile)
    built = group.build([group.read(name, options.folder) for name in parts], messages)
    chosen = [part for name, part in built.parts.items() if not options.only or name in options.only]
    with shipped.temporary(settings) as backscroll:
        backscroll.resources.embedder = RememberingEmbedder(backscroll.resources.embedder)

        def filled(sample: SampleChat) -> FilledChat:
            chat = FilledChat(backscroll, sample, _FACTS, options.asking, progress)
            backscroll.settle()
            return chat

        alone: list[Answered] = []
        for part in chosen:
            chat = part.chat.model_copy(update={"chat_id": f"sample:{part.name}"})
            alone += filled(replace(part, chat=chat)).answers()
        whole = filled(SampleChat(name=GROUP, chat=built.chat, messages=built.messages, cases=[]))
        together = []
        for part in chosen:
            progress(f"group: questions of {part.name}")
            together += [replace(whole.ask(case, part.messages), chat=part.name) for case in part.cases]
    return _described(options.asking) | {
        "messages": len(built.messages),
        "people": built.people,
        ALONE: _tables(alone),
        GROUP: _tables(together),
    }


def _described(asking: Asking) -> dict[str, Any]:
    return {"profile": asking.profile, "parameters": asking.parameters.model_dump(exclude_none=True)}


def _tables(answered: Sequence[Answered]) -> dict[str, Any]:
    return measures.tables(answered) | {"details": [asdict(answer) for answer in answered]}
