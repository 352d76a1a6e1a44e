"""`backscroll more`: what else was said around what an earlier answer showed of a session."""

from typing import Annotated

import typer

from ops.commands import asking, rendering
from ops.commands.opening import find_chat, find_session, opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.search import MAX_LIMIT, MoreQuery

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll more 30 · backscroll more 30 --shown 812 --shown 815 --limit 20 · "
    "backscroll more 30 --chat telegram:-100420 --json"
)
def more(
    session: Annotated[int, typer.Argument(help="The session's number, as answers give it.")],
    chat: Annotated[
        str | None, typer.Option(help="The session's chat; may be left out.", show_default=False)
    ] = None,
    shown: Annotated[
        list[int] | None,
        typer.Option(help="A message that was shown, by its number; repeatable.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="So many messages.")] = 10,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Tell more of a session: what was said around what was shown, nothing twice.

    What the door answers to `POST /v1/more`. Without `--shown` the session is told from its beginning.
    """
    with opened(data_dir, tenant) as (settings, database):
        from pipeline.operations import lookup
        from pipeline.retrieval.paging import more as tell_more

        with database.tenant(settings.tenant) as connection:
            chat_id = find_session(connection, session).chat_id if chat is None else chat
            named = lookup.summary(find_chat(connection, chat_id))
        query = asking.question(named, MoreQuery, session_id=session, shown=shown or [], limit=limit)
        found = tell_more(database, settings.tenant, query, settings=settings)
    if as_json:
        rendering.print_json(found)
        return
    console, zone = rendering.out(), named.time_zone
    for line in found.messages:
        said = f"{rendering.moment(line.at, zone)} {line.speaker}: {line.text}"
        console.print(" ".join(rendering.plain(said).split()), markup=False)
    if found.next is None:
        console.print("That is all of this session.", style="dim")
        return
    options = " ".join(f"--shown {each}" for each in found.next.shown)
    console.print(f"{found.remaining:,} more: backscroll more {found.session_id} {options}", style="dim")
