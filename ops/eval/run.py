"""Run the evaluation over LoCoMo: fill, gather, count; and what becomes of it when something is missing."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.eval import gather, shipped
from ops.eval.ablate import ablated
from ops.eval.gather import Gathered
from ops.eval.leave_one_out import leave_one_out
from ops.eval.locomo import Conversation, read
from ops.eval.measures import tables
from ops.eval.shipped import Shipped
from schemas.errors import InvalidInput
from schemas.messages import MessageIn
from schemas.settings import Settings

BUDGETS = (800, 2000)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to evaluate, beside the figures themselves."""

    # of the folder's conversations those with these names; none: all
    only: Sequence[str] = ()
    # coverage under these budgets, too
    plotted: tuple[int, ...] = ()
    # turn off one part at a time
    ablate: bool = False
    # also read each conversation with weights chosen on the others
    leave_one_out: bool = False
    # messages arrive in an order of this seed's, some at a time, and are placed in between
    shuffle: int | None = None
    # nothing is summarized or embedded yet
    unsummarized: bool = False


def locomo(
    folder: Path, settings: Settings, options: Options, progress: Callable[[str], None]
) -> dict[str, Any]:
    """The tables of `measures.tables` over the conversations of a folder; more under `ablated`, `leave_one_out`.

    Raises `InvalidInput` when the folder holds none, or none of those asked for.
    """
    conversations = [c for c in read(folder) if not options.only or c.name in options.only]
    if not conversations or (options.leave_one_out and len(conversations) < 2):
        raise InvalidInput(f"{folder} holds too few conversations for that", field="only")
    with shipped.temporary(settings) as backscroll:
        gathered = {c.name: _gathered(backscroll, c, options, progress) for c in conversations}
        every = [one for questions in gathered.values() for one in questions]
        progress("counting")
        result = tables([gather.measured(one, (*BUDGETS, *options.plotted)) for one in every])
        result["conversations"] = list(gathered)
        if options.ablate:
            stayed = _names_stayed(backscroll, every, progress)
            result["ablated"] = ablated(every, stayed, BUDGETS, progress)
        if options.leave_one_out:
            result["leave_one_out"] = leave_one_out(gathered, BUDGETS, progress)
    return result


def _gathered(
    backscroll: Shipped, conversation: Conversation, options: Options, progress: Callable[[str], None]
) -> list[Gathered]:
    chat = conversation.chat
    if options.shuffle is None:
        backscroll.fill(chat, conversation.messages, progress, only_place=options.unsummarized)
    else:
        for some in _shuffled(conversation.messages, options.shuffle):
            backscroll.fill(chat, some, progress, only_place=True)
        if not options.unsummarized:
            backscroll.fill(chat, [], progress)
    where = gather.filled(backscroll, conversation)
    questions = []
    for number, question in enumerate(conversation.questions, start=1):
        progress(f"{chat.chat_id}: question {number} of {len(conversation.questions)}")
        questions.append(gather.gather(backscroll, where, question))
    return questions


def _shuffled(messages: Sequence[MessageIn], seed: int) -> list[list[MessageIn]]:
    """The messages in an order of this seed's, in batches of one to sixty."""
    order = random.Random(seed)  # noqa: S311 - an order that can be had again, no secret
    left = list(messages)
    order.shuffle(left)
    batches = []
    while left:
        size = order.randint(1, 60)
        batches.append(left[:size])
        left = left[size:]
    return batches


def _names_stayed(
    backscroll: Shipped, gathered: Sequence[Gathered], progress: Callable[[str], None]
) -> list[Gathered]:
    stayed = []
    for number, one in enumerate(gathered, start=1):
        progress(f"with names in the query: question {number} of {len(gathered)}")
        stayed.append(gather.gather(backscroll, one.filled, one.question, names_stay=True))
    return stayed
