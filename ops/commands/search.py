"""`backscroll search`: what a chat's memory finds for some words, without putting it together."""

from typing import Annotated

import typer

from ops.commands import asking, rendering
from ops.commands.opening import opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll search 'boiler repair' --chat telegram:-100420 · "
    "backscroll search gasfitter --limit 3 --json"
)
def search(
    words: Annotated[str, typer.Argument(help="What to look for.", show_default=False)],
    chat: Annotated[
        str | None,
        typer.Option(help="In this chat; may be left out where there is but one.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="So many hits.")] = 10,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Find messages by meaning and by keywords, the best first."""
    with opened(data_dir, tenant) as (settings, database):
        asked = asking.asked(database, settings, chat, query=words)
        from pipeline import context as pipeline_context

        embedder = asking.make_embedder(settings)
        with rendering.patience("Searching …", shown=not as_json):
            hits = pipeline_context.search(
                database, settings.tenant, asked.query, limit=limit, embedder=embedder, settings=settings
            )
    if as_json:
        rendering.print_json({"chat_id": asked.chat.chat_id, "query": words, "hits": hits})
    elif hits:
        rendering.out().print(asking.hits_table(hits, asked.chat.time_zone))
    else:
        rendering.out().print(f"Nothing in {asked.chat.chat_id} fits.", markup=False)
