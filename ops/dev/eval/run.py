"""The evaluation over LoCoMo: fill, gather, count; and what each part of retrieval is worth, turned off."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ops.dev import shipped
from ops.dev.eval import gather
from ops.dev.eval.gather import Gathered, measured
from ops.dev.eval.locomo import Conversation, merged, read
from ops.dev.eval.measures import QuestionShares, table, tables
from ops.dev.eval.reference import ReferenceSummarizer
from ops.dev.observe import Say, batches
from ops.dev.shipped import DERIVED, Shipped
from pipeline.recall.ask.weights import Weights
from schemas.errors import InvalidInput
from schemas.messages import MessageIn
from schemas.payloads import ContextParameters
from schemas.settings import Settings

BUDGETS = (800, 2000)

Part = Callable[[Gathered], QuestionShares]
"""How a question goes without one part."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to evaluate, beside the figures themselves."""

    # of the folder's conversations those with these names; none: all
    only: Sequence[str] = ()
    # coverage under these budgets, too
    plotted: tuple[int, ...] = ()
    # turn off one part at a time
    ablate: bool = False
    # messages arrive in an order of this seed's, some at a time, and are placed in between
    shuffle: int | None = None
    # nothing is summarized or embedded yet
    unsummarized: bool = False
    # sessions are summarized by what comes with the set
    reference: bool = False
    # all conversations are one chat
    merged: bool = False
    # of the contexts
    parameters: ContextParameters = field(default_factory=ContextParameters)

    @property
    def derived(self) -> Sequence[str]:
        """The kinds of jobs that follow placing and are done."""
        return () if self.unsummarized else DERIVED


def locomo(folder: Path, settings: Settings, options: Options, progress: Say) -> dict[str, Any]:
    """Compute the tables of `measures.tables` over the conversations of a folder; more under `ablated`.

    Raises `InvalidInput` when the folder holds none, or none of those asked for.
    """
    conversations = [c for c in read(folder) if not options.only or c.name in options.only]
    if not conversations:
        raise InvalidInput(f"{folder} holds none of these conversations", field="only")
    if options.merged:
        conversations = [merged(conversations)]
    with shipped.temporary(settings) as backscroll:
        if options.reference:
            backscroll.summarizer = ReferenceSummarizer({c.chat.chat_id: c.summaries for c in conversations})
        gathered = {c.name: _gathered(backscroll, c, options, progress) for c in conversations}
        every = [one for questions in gathered.values() for one in questions]
        progress("counting")
        result = tables([measured(one, (*BUDGETS, *options.plotted)) for one in every])
        result["conversations"] = list(gathered)
        if options.ablate:
            result["ablated"] = _ablated(backscroll, every, progress)
    return result


def _gathered(
    backscroll: Shipped, conversation: Conversation, options: Options, progress: Say
) -> list[Gathered]:
    chat = conversation.chat
    if options.shuffle is None:
        backscroll.fill(chat, conversation.messages, progress, derived=options.derived)
    else:
        for some in _shuffled(conversation.messages, options.shuffle):
            backscroll.fill(chat, some, progress, derived=())
        if not options.unsummarized:
            backscroll.fill(chat, [], progress)
    questions = []
    for number in range(len(conversation.questions)):
        progress(f"{chat.chat_id}: question {number + 1} of {len(conversation.questions)}")
        questions.append(
            gather.gather(
                backscroll, conversation, number, parameters=options.parameters, derived=options.derived
            )
        )
    return questions


def _shuffled(messages: Sequence[MessageIn], seed: int) -> Iterator[Sequence[MessageIn]]:
    """Shuffle the messages by this seed, in batches of one to sixty."""
    order = random.Random(seed)  # noqa: S311 - an order that can be had again, no secret
    shuffled = list(messages)
    order.shuffle(shuffled)
    return batches(order, shuffled, 60)


def parts() -> dict[str, Part]:
    """Return, by name, how a question goes without that part, everything else as it is."""

    def by(change: Callable[[Gathered], Gathered]) -> Part:
        return lambda one: measured(change(one), BUDGETS)

    def without(weight: str, value: float) -> Part:
        return lambda one: measured(
            one, BUDGETS, weights=replace(one.prepared.request.weights, **{weight: value})
        )

    return {
        "vectors (all meaning)": by(lambda one: one.without_vectors()),
        "keywords (all words)": by(lambda one: one.without_words()),
        **{weight.name: without(weight.name, 0.0) for weight in fields(Weights)},
        "session summaries": lambda one: measured(
            one, BUDGETS, parameters=replace(one.prepared.request.parameters, sessions=0)
        ),
    }


def _ablated(backscroll: Shipped, gathered: Sequence[Gathered], progress: Say) -> dict[str, Any]:
    """Tables by the name of the part that is off; last, with names and dates left in the query."""
    found = {}
    for name, part in parts().items():
        progress(f"without {name}")
        found[name] = table([part(one) for one in gathered])
    stayed = []
    for number, one in enumerate(gathered, start=1):
        progress(f"with names in the query: question {number} of {len(gathered)}")
        again = gather.gather(backscroll, one.conversation, one.number, names_stay=True)
        stayed.append(measured(again, BUDGETS))
    return found | {"taking names and dates out of the query": table(stayed)}
