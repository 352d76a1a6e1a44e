"""`backscroll more`: what else was said around what an earlier answer showed of a session."""

from typing import Annotated

import typer

from ops.console import questions, rendering
from ops.console.command import Call, command
from schemas.search import MAX_LIMIT, MoreQuery

app = typer.Typer(rich_markup_mode="markdown")


@command(app, "backscroll more 30 --shown 812 --shown 815")
def more(
    call: Call,
    session: Annotated[int, "The session's number, as answers show it."],
    chat: Annotated[str | None, "The session's chat (default: found by its number)."] = None,
    shown: Annotated[list[int] | None, "Number of a message already shown; repeatable."] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Messages at most.")] = 10,
) -> None:
    """Print more of a session: messages around those already shown, none twice.

    The HTTP API answers the same to `POST /v1/more`. Without `--shown` the session is printed from its beginning.
    """
    with call.opened() as (settings, database):
        from pipeline.operations import lookup
        from pipeline.recall.paging import more as find_more

        with database.tenant(settings.tenant) as connection:
            chat_id = lookup.find_session(connection, session).chat_id if chat is None else chat
            named = lookup.summary(lookup.find_chat(connection, chat_id))
        query = questions.question(named, MoreQuery, session_id=session, shown=shown or [], limit=limit)
        found = find_more(database, settings.tenant, query, settings=settings)
    if call.as_json:
        rendering.print_json(found)
        return
    console, zone = rendering.out(), named.time_zone
    for line in found.messages:
        text = f"{rendering.moment(line.at, zone)} {line.speaker}: {line.text}"
        console.print(" ".join(rendering.plain(text).split()), markup=False)
    if found.next is None:
        console.print("That is all of this session.", style="dim")
        return
    options = " ".join(f"--shown {each}" for each in found.next.shown)
    console.print(f"{found.remaining:,} more: backscroll more {found.session_id} {options}", style="dim")
