"""`backscroll topics`: what a chat was about over time."""

from typing import Annotated, Literal

import typer

from ops.console import rendering
from ops.console.command import Call, command
from ops.console.options import ChatArgument
from schemas.payloads import parse_payload
from schemas.topics import MAX_PERIODS, TopicFilter

app = typer.Typer(rich_markup_mode="markdown")


@command(app, "backscroll topics telegram:-100420 --by week")
def topics(
    call: Call,
    chat: ChatArgument,
    by: Annotated[Literal["week", "month"], "By week or by month."] = "month",
    periods: Annotated[int, typer.Option(min=1, max=MAX_PERIODS, help="Periods at most, the latest.")] = 12,
    limit: Annotated[
        int, typer.Option(min=1, max=100, help="Topics of a period at most, the most frequent.")
    ] = 10,
) -> None:
    """List the topics of a chat's summaries by week or month, with the number of sessions about each.

    The HTTP API answers the same to `GET /v1/chats/{chat_id}/topics`.
    """
    from pipeline.operations import topics as counted

    wanted = parse_payload(TopicFilter, {"by": by, "periods": periods, "limit": limit})
    with call.opened() as (settings, database):
        found = counted.of_chat(database, settings.tenant, chat, wanted)
    cells = [
        (
            period.begins.isoformat(),
            topic.topic,
            topic.sessions,
            rendering.moment(topic.first_at, found.time_zone),
            rendering.moment(topic.last_at, found.time_zone),
        )
        for period in found.periods
        for topic in period.topics
    ]
    table = rendering.rows((f"{by} of", "topic", "sessions", "first", "last"), cells, right=("sessions",))
    nothing = "None of its sessions is summarized yet: see `backscroll sessions` and `backscroll status`."
    call.answer(found, table if cells else nothing)
