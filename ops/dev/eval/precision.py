"""How much of what a context shows is about the question. Pure: from the context and where the chat's messages stand.

A message is about the question if it is evidence, or at most `NEAR` messages from evidence in the same session. A
memory is if it was learned from such a message; a passage of a document rests on no message and never is (the sample
chats have none). A summary is of the right session if that session holds evidence, but its tokens are no evidence.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from pipeline.text.tokens import estimate_line
from schemas.context import Context, ContextItem

NEAR = 2
# Blocks that nobody recalled.
_NOT_RECALLED = frozenset({"guardrails", "question"})
_ANSWERING = frozenset({"documents", "memories", "exchanges"})
_MEMORIES = frozenset({"memory", "document"})


class PlacedMessage(NamedTuple):
    """Where a message stands."""

    external_id: str
    session: int
    # of its session, in order of time
    place: int


class Tally(NamedTuple):
    """How much is shown, and how much of it is right."""

    right: int
    shown: int

    @property
    def share(self) -> float | None:
        """The share that is right; None if nothing is shown."""
        return self.right / self.shown if self.shown else None


@dataclass(frozen=True, kw_only=True)
class ContextFigures:
    """What one context shows, and what of it is about the question."""

    # of the whole context, headings, guardrails and question included
    used_tokens: int
    # of the lines alone, by the estimate; with and without recent talk
    tokens: Tally
    tokens_without_history: Tally
    # sessions of which a message is among the exchanges, and summaries of sessions
    headings: Tally
    summaries: Tally
    # statements and passages
    memories: Tally
    # whether the first line of what answers (summaries and recent talk do not) is about the question; None: no line
    first: bool | None
    # of the best three messages that were found, those in a session that holds evidence; explained contexts have them
    best_three: Tally
    # whether a profile that narrows to sessions searched the whole chat, as none fits
    fell_back: bool


def near_evidence(evidence: Collection[str], placed: Mapping[str, PlacedMessage]) -> frozenset[str]:
    """Return the ids of the messages that are evidence, or at most `NEAR` messages from it in its session.

    `evidence` are external ids, `placed` are all messages of the chat by id.
    """
    close = {
        (message.session, message.place + step)
        for message in placed.values()
        if message.external_id in evidence
        for step in range(-NEAR, NEAR + 1)
    }
    return frozenset(each for each, message in placed.items() if (message.session, message.place) in close)


def figures(
    context: Context,
    evidence: Collection[str],
    placed: Mapping[str, PlacedMessage],
    resting: Mapping[str, Collection[str]],
) -> ContextFigures:
    """Count what a context shows; `resting` are the ids of the messages that each memory shown was learned from."""
    near = near_evidence(evidence, placed)
    holding = {message.session for message in placed.values() if message.external_id in evidence}

    def is_near(item: ContextItem) -> bool:
        if item.kind in _MEMORIES:
            return not near.isdisjoint(resting.get(item.id, ()))
        return item.kind == "message" and item.id in near

    recalled = [
        (block.kind, item)
        for block in context.blocks
        if block.kind not in _NOT_RECALLED
        for item in block.items
    ]
    opened = {placed[item.id].session for kind, item in recalled if kind == "exchanges" and item.id in placed}
    summarized = [int(item.id) for _, item in recalled if item.kind == "session"]
    answering = (item for kind, item in recalled if kind in _ANSWERING and item.kind != "session")
    return ContextFigures(
        used_tokens=context.used_tokens,
        tokens=_tokens((item for _, item in recalled), is_near),
        tokens_without_history=_tokens((item for kind, item in recalled if kind != "history"), is_near),
        headings=Tally(len(opened & holding), len(opened)),
        summaries=Tally(sum(session in holding for session in summarized), len(summarized)),
        memories=_sum(Tally(is_near(item), 1) for _, item in recalled if item.kind in _MEMORIES),
        first=next(map(is_near, answering), None),
        best_three=_sum(
            Tally(hit.session_id in holding, 1)
            for hit in (context.explain.messages[:3] if context.explain else ())
        ),
        fell_back=context.fell_back,
    )


def _tokens(items: Iterable[ContextItem], is_near: Callable[[ContextItem], bool]) -> Tally:
    sizes = ((estimate_line(item.text), is_near(item)) for item in items)
    return _sum(Tally(tokens * near, tokens) for tokens, near in sizes)


def table(contexts: Sequence[ContextFigures], without_answer: Sequence[ContextFigures]) -> dict[str, Any]:
    """Return the figures of contexts of one budget: shares from 0 to 1, None where there is nothing to count.

    Shares of tokens and of first lines are means over the contexts that show any; those of headings, summaries and
    memories are of all that the contexts show together. `by_context` is the mean over contexts, where none shown counts
    as right. Of questions `without_answer` only tokens are counted.
    """
    headings = _sum(one.headings for one in contexts)
    summaries = _sum(one.summaries for one in contexts)
    memories = _sum(one.memories for one in contexts)
    right_by_context = [1.0 if one.memories.share is None else one.memories.share for one in contexts]
    return {
        "used_tokens": _mean([one.used_tokens for one in contexts], 1),
        "tokens": _mean([one.tokens.share for one in contexts]),
        "tokens_without_history": _mean([one.tokens_without_history.share for one in contexts]),
        "headings": _counted(headings),
        "summaries": _counted(summaries),
        "headings_and_summaries": _counted(_sum((headings, summaries))),
        "memories": _counted(memories) | {"by_context": _mean(right_by_context)},
        "first_line": _mean([one.first for one in contexts]),
        "best_three": _counted(_sum(one.best_three for one in contexts)),
        "fell_back": _mean([one.fell_back for one in contexts]),
        "without_answer": {
            "questions": len(without_answer),
            "used_tokens": _mean([one.used_tokens for one in without_answer], 1),
        },
    }


def _sum(tallies: Iterable[Tally]) -> Tally:
    each = list(tallies)
    return Tally(sum(one.right for one in each), sum(one.shown for one in each))


def _counted(tally: Tally) -> dict[str, Any]:
    return {"share": _mean([tally.share]), **tally._asdict()}


def _mean(values: Iterable[float | None], digits: int = 4) -> float | None:
    given = [value for value in values if value is not None]
    return round(fmean(given), digits) if given else None
