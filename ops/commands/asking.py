"""What commands that ask share: the chat and the question, and how hits are shown."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo

import typer
from pydantic import BaseModel
from rich.table import Table

from ops.commands import rendering, times
from schemas.context import Confidence, Dropped, Hit
from schemas.overview import ChatSummary
from schemas.payloads import parse_payload

Q = TypeVar("Q", bound=BaseModel)

ChatOption = Annotated[
    str | None,
    typer.Option("--chat", help="In this chat; may be left out where there is but one.", show_default=False),
]
SessionKeyOption = Annotated[
    str | None, typer.Option("--session-key", help="In this thread alone.", show_default=False)
]

PREVIEW = 200
# What has its reasons below it.
SHORT_PREVIEW = 100
# What a reason means where nothing more is known.
_REASONS = {"cap": "its block was full", "budget": "no tokens were left"}


def question(
    chat: ChatSummary,
    kind: type[Q],
    *,
    moments: Mapping[str, str | None] | None = None,
    **given: Any,
) -> Q:
    """The question of the command line in its chat; what is None there is left to the query's defaults.

    `moments` are its times, in the chat's time zone unless they have an offset. Raises `InvalidInput` that names a
    wrong field.
    """
    zone = ZoneInfo(chat.time_zone)
    given |= {name: times.read(moment, name, zone) for name, moment in (moments or {}).items()}
    said = {name: value for name, value in given.items() if value is not None}
    return parse_payload(kind, {"chat_id": chat.chat_id, **said})


def nearness(confidence: Confidence) -> str:
    """How near the best came to a question, in one line."""
    told = []
    if confidence.best_cosine is not None:
        told.append(f"best cosine {confidence.best_cosine:.2f}, the mean {confidence.mean_cosine or 0.0:.2f}")
    if confidence.words_found is not None and confidence.words_in_a_session is not None:
        found, together = confidence.words_found, confidence.words_in_a_session
        told.append(f"words found {found:.0%}, in one session {together:.0%} by weight")
    return "; ".join(told) or "nothing to compare by"


def reason(dropped: Dropped) -> str:
    """Why something is not shown, for people.

    >>> reason(Dropped(kind="session", id="7", reason="below_minimum", detail="not summarized"))
    'below minimum (not summarized)'
    """
    detail = dropped.detail or _REASONS.get(dropped.reason, "")
    return dropped.reason.replace("_", " ") + (f" ({detail})" if detail else "")


def hits_table(hits: Sequence[Hit], zone: str, *, title: str | None = None) -> Table:
    """Hits with their place and score, in the chat's local time."""
    headings = ("#", "score", "what", "when", "who", "text")
    table = rendering.table(*headings, title=title, right=("#", "score"), cut="text")
    for hit in hits:
        cells = [rendering.moment(hit.at, zone), hit.speaker or "", rendering.preview(hit.preview, PREVIEW)]
        rendering.row(table, hit.rank, f"{hit.score:.3f}", f"{hit.kind} {hit.id}", *cells)
    return table


def reasons_table(
    hits: Sequence[Hit], dropped: Mapping[tuple[str, str], Dropped], zone: str, *, title: str
) -> Table:
    """Hits, and under the text of each what its score is made of, its place in each arm, and what became of it."""
    table = rendering.table("#", "score", "when", "text and why", title=title, right=("#", "score"))
    for hit in hits:
        parts = [f"{name} {value:.2f}" for name, value in hit.components.items() if round(value, 2)]
        arms = [f"{arm} #{place}" for arm, place in hit.arms.items()]
        left_out = dropped.get((hit.kind, hit.id))
        fate = f"shown in {hit.shown_in}" if hit.shown_in else reason(left_out) if left_out else ""
        made_of = "; ".join(filter(None, (", ".join(parts), ", ".join(arms), f"{hit.kind} {hit.id}", fate)))
        said = f"{hit.speaker}: {hit.preview}" if hit.speaker else hit.preview
        text = rendering.with_note(rendering.preview(said, SHORT_PREVIEW), made_of)
        rendering.row(table, hit.rank, f"{hit.score:.3f}", rendering.moment(hit.at, zone), text)
    return table
