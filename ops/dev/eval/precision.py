"""How much of what a context shows is about the question. Pure: from the context and where the chat's messages stand.

A message is about the question if it is evidence, or at most `NEAR` messages from evidence in the same session; nothing
else is: the sample chats have no documents, and contexts show no memories of them.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ops.dev.eval.measures import Row
from pipeline.text.tokens import estimate_line
from schemas.context import Context

NEAR = 2
# Blocks that nobody recalled: the question and the standing orders.
NOT_RECALLED = frozenset({"guardrails", "question"})


class PlacedMessage(NamedTuple):
    """Where a message stands."""

    external_id: str
    session: int
    # of its session, in order of time
    place: int


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
    return frozenset(id_ for id_, message in placed.items() if (message.session, message.place) in close)


def figures(context: Context, evidence: Collection[str], placed: Mapping[str, PlacedMessage]) -> Row:
    """Return what a context shows, and how much of it is right.

    `used`: tokens of the whole context. `about`: the share of the lines' tokens, by the estimate, that are about the
    question. `sessions`: those of which a message is among the exchanges; right if they hold evidence. `best 3`: of the
    messages found, those in such a session. `fell back`: whether a profile that narrows to sessions searched the whole
    chat, as none fits.
    """
    near = near_evidence(evidence, placed)
    holding = {message.session for message in placed.values() if message.external_id in evidence}
    recalled = [
        (block.kind, item, estimate_line(item.text))
        for block in context.blocks
        if block.kind not in NOT_RECALLED
        for item in block.items
    ]
    tokens = sum(size for _, _, size in recalled)
    right = sum(size for _, item, size in recalled if item.kind == "message" and item.id in near)
    opened = {
        placed[item.id].session for kind, item, _ in recalled if kind == "exchanges" and item.id in placed
    }
    best = context.explain.messages[:3] if context.explain else []
    return {
        "used": context.used_tokens,
        **({"about": right / tokens} if tokens else {}),
        "shown sessions": len(opened),
        "right sessions": len(opened & holding),
        "shown best 3": len(best),
        "right best 3": sum(hit.session_id in holding for hit in best),
        "fell back": context.fell_back,
    }


def recalled_text(context: Context) -> str:
    """Return the text of a context that was recalled, without the question and the standing orders."""
    return "\n".join(block.text for block in context.blocks if block.kind not in NOT_RECALLED)
