"""Format results for search answers and explanations."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pipeline.recall.rank.ranked import Scored
from pipeline.text import truncate
from schemas.context import BlockKind, Hit
from schemas.search import Line
from schemas.sessions import Message

PREVIEW_CHARS = 160


def message_hits(
    best: Sequence[Scored],
    arms: Mapping[str, Sequence[int]],
    shown: Mapping[tuple[str, str], BlockKind] = MappingProxyType({}),
) -> list[Hit]:
    """Return ranked messages as hits; `arms` is what each arm found, `shown` the block that an item is in."""
    places = defaultdict[int, dict[str, int]](dict)
    for arm, ids in arms.items():
        for place, message in enumerate(ids, start=1):
            places[message][arm] = place
    return [
        Hit(
            kind="message",
            id=str(hit.candidate.id),
            external_id=hit.candidate.external_id,
            session_id=hit.candidate.session or None,
            at=hit.candidate.sent_at,
            speaker=hit.candidate.speaker,
            preview=preview(hit.candidate.text),
            rank=number,
            score=round(hit.score, 6),
            components=rounded(hit.parts),
            arms=places[hit.candidate.id],
            queries=dict(hit.candidate.found_by),
            shown_in=shown.get(("message", str(hit.candidate.id))),
        )
        for number, hit in enumerate(best, start=1)
    ]


def as_line(message: Message, score: float | None = None) -> Line:
    """Return a message as a line of a search answer."""
    return Line(
        id=str(message.id),
        external_id=message.external_id,
        at=message.sent_at,
        speaker=message.speaker,
        role=message.role,
        text=message.content,
        score=None if score is None else round(score, 6),
    )


def preview(text: str, piece: str = "") -> str:
    """Return the beginning of a text on one line, or the part around a `piece` of it."""
    start = max(0, text.casefold().find(piece.casefold()) - 60)
    cut = (truncate.ELLIPSIS if start else "") + truncate.one_line(text[start:])
    return truncate.shortened(cut, PREVIEW_CHARS)


def rounded(parts: Mapping[str, float]) -> dict[str, float]:
    """Round the parts of a score to six digits."""
    return {name: round(value, 6) for name, value in parts.items()}
