"""The question that a command asks of a chat, and how hits and the reasons for them are shown."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from rich.table import Table

from ops.console import rendering
from ops.console.options import read_time
from schemas.context import Dropped, Hit
from schemas.listing import ChatSummary
from schemas.payloads import parse_payload

Q = TypeVar("Q", bound=BaseModel)

PREVIEW = 200
# Of a text with its reasons below it.
SHORT_PREVIEW = 100


def question(
    chat: ChatSummary,
    kind: type[Q],
    *,
    moments: Mapping[str, str | None] | None = None,
    **given: Any,
) -> Q:
    """Make the query of a command in its chat; `moments` are times in the chat's zone unless they have an offset."""
    zone = ZoneInfo(chat.time_zone)
    given |= {
        name: read_time(moment, name.replace("_", "-"), zone) for name, moment in (moments or {}).items()
    }
    said = {name: value for name, value in given.items() if value is not None}
    return parse_payload(kind, {"chat_id": chat.chat_id, **said})


def hits_table(hits: Sequence[Hit], zone: str) -> Table:
    """Make a table of hits with rank and score, in the chat's local time."""
    cells = (
        (
            hit.rank,
            f"{hit.score:.3f}",
            f"{hit.kind} {hit.id}",
            rendering.moment(hit.at, zone),
            hit.speaker or "",
            rendering.preview(hit.preview, PREVIEW),
        )
        for hit in hits
    )
    headings = ("#", "score", "what", "when", "who", "text")
    return rendering.rows(headings, cells, right=("#", "score"), cut="text")


def reasons_table(
    hits: Sequence[Hit], dropped: Mapping[tuple[str, str], Dropped], zone: str, *, title: str
) -> Table:
    """Make a table of hits, each with the parts of its score, its rank in each arm, and where it is shown."""
    table = rendering.table("#", "score", "when", "text and why", title=title, right=("#", "score"))
    for hit in hits:
        parts = [f"{name} {value:.2f}" for name, value in hit.components.items() if round(value, 2)]
        arms = [f"{arm} #{place}{hit.by_query(arm)}" for arm, place in hit.arms.items()]
        left_out = dropped.get((hit.kind, hit.id))
        fate = f"shown in {hit.shown_in}" if hit.shown_in else left_out.in_words() if left_out else ""
        made_of = "; ".join(filter(None, (", ".join(parts), ", ".join(arms), f"{hit.kind} {hit.id}", fate)))
        said = f"{hit.speaker}: {hit.preview}" if hit.speaker else hit.preview
        text = rendering.with_note(rendering.preview(said, SHORT_PREVIEW), made_of)
        rendering.row(table, hit.rank, f"{hit.score:.3f}", rendering.moment(hit.at, zone), text)
    return table
