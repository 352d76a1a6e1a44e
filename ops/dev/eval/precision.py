"""How much of what a context shows is about the question. Pure: from the context and where the chat's messages stand.

A message is about the question if it is evidence, or at most `NEAR` messages from evidence in the same session; nothing
else is: the sample chats have no documents, and contexts show no memories of them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from pipeline.text.tokens import estimate_line
from schemas.context import Context, ContextItem

NEAR = 2
# Blocks that nobody recalled.
_NOT_RECALLED = frozenset({"guardrails", "question"})


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
    # sessions of which a message is among the exchanges: those that hold evidence
    sessions: Tally
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
    context: Context, evidence: Collection[str], placed: Mapping[str, PlacedMessage]
) -> ContextFigures:
    """Count what a context shows."""
    near = near_evidence(evidence, placed)
    holding = {message.session for message in placed.values() if message.external_id in evidence}
    recalled = [
        (block.kind, item)
        for block in context.blocks
        if block.kind not in _NOT_RECALLED
        for item in block.items
    ]
    opened = {placed[item.id].session for kind, item in recalled if kind == "exchanges" and item.id in placed}
    best = context.explain.messages[:3] if context.explain else ()
    return ContextFigures(
        used_tokens=context.used_tokens,
        tokens=_tokens((item for _, item in recalled), near),
        tokens_without_history=_tokens((item for kind, item in recalled if kind != "history"), near),
        sessions=Tally(len(opened & holding), len(opened)),
        best_three=_sum(Tally(hit.session_id in holding, 1) for hit in best),
        fell_back=context.fell_back,
    )


def _tokens(items: Iterable[ContextItem], near: Collection[str]) -> Tally:
    sizes = ((estimate_line(item.text), item.kind == "message" and item.id in near) for item in items)
    return _sum(Tally(tokens * right, tokens) for tokens, right in sizes)


def table(contexts: Sequence[ContextFigures], without_answer: Sequence[ContextFigures]) -> dict[str, Any]:
    """Return the figures of contexts of one budget: shares from 0 to 1, None where there is nothing to count.

    Shares of tokens are means over the contexts that show any; the others are of all that contexts show together. Of
    questions `without_answer` only tokens are counted.
    """
    return {
        "used_tokens": _mean([one.used_tokens for one in contexts], 1),
        "tokens": _mean([one.tokens.share for one in contexts]),
        "tokens_without_history": _mean([one.tokens_without_history.share for one in contexts]),
        "sessions": _counted(one.sessions for one in contexts),
        "best_three": _counted(one.best_three for one in contexts),
        "fell_back": _mean([one.fell_back for one in contexts]),
        "without_answer": {
            "questions": len(without_answer),
            "used_tokens": _mean([one.used_tokens for one in without_answer], 1),
        },
    }


def _sum(tallies: Iterable[Tally]) -> Tally:
    each = list(tallies)
    return Tally(sum(one.right for one in each), sum(one.shown for one in each))


def _counted(tallies: Iterable[Tally]) -> dict[str, Any]:
    tally = _sum(tallies)
    return {"share": _mean([tally.share]), **tally._asdict()}


def _mean(values: Iterable[float | None], digits: int = 4) -> float | None:
    given = [value for value in values if value is not None]
    return round(fmean(given), digits) if given else None
