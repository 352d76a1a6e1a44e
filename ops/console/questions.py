"""The question that a command asks of a chat, and how hits and the reasons for them are shown."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from rich.table import Table

from ops import connection
from ops.client import Api, quoted
from ops.console import rendering
from ops.console.command import Call, read_time
from schemas.context import Dropped, Hit
from schemas.errors import InvalidInput, NotFound
from schemas.listing import ChatList, ChatSummary
from schemas.payloads import ChatAddress, parse_payload

Q = TypeVar("Q", bound=BaseModel)

PREVIEW = 200
# Of a text with its reasons below it.
SHORT_PREVIEW = 100
CHATS_NAMED = 5
"""Where one of several must be chosen."""


def find_chat(api: Api, chat_id: str | None) -> ChatSummary:
    """Find the chat of this id; without one, the only chat there is. Raises `NotFound` and `InvalidInput`."""
    if chat_id is None:
        page = api.get("/v1/chats", ChatList, limit=CHATS_NAMED)
        if not page.total:
            raise NotFound("there is no chat yet: bring one in with `backscroll import`, or send messages")
        if page.total > 1:
            some = ", ".join(chat.chat_id for chat in page.chats) + " …" * (page.total > CHATS_NAMED)
            raise InvalidInput(
                f"there are {page.total} chats, say which one: --chat ID ({some})", field="chat"
            )
        return page.chats[0]
    address = parse_payload(ChatAddress, {"chat_id": chat_id})
    return api.get(f"/v1/chats/{quoted(address.chat_id)}", ChatSummary)


def require_user(call: Call, *ids: str, unseen: bool = False) -> None:
    """Raise `NotFound` for an id that was never seen, where the database can be reached from here."""
    settings = connection.configured(call.data_dir, call.tenant)
    if settings.url is None or call.data_dir is not None or settings.database_url is not None:
        with call.opened() as opened:
            opened.require_user(*ids, unseen=unseen)


def question(
    chat: ChatSummary,
    kind: type[Q],
    *,
    moments: Mapping[str, str | None] | None = None,
    **fields: Any,
) -> Q:
    """Make the query of a command in its chat; `moments` are times in the chat's zone unless they have an offset."""
    zone = ZoneInfo(chat.time_zone)
    fields |= {
        name: read_time(moment, name.replace("_", "-"), zone) for name, moment in (moments or {}).items()
    }
    values = {name: value for name, value in fields.items() if value is not None}
    return parse_payload(kind, {"chat_id": chat.chat_id, **values})


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
        line = f"{hit.speaker}: {hit.preview}" if hit.speaker else hit.preview
        text = rendering.with_note(rendering.preview(line, SHORT_PREVIEW), made_of)
        rendering.row(table, hit.rank, f"{hit.score:.3f}", rendering.moment(hit.at, zone), text)
    return table
