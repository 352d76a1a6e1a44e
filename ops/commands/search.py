"""`backscroll search`: what a chat's memory finds for some words, without putting it together."""

from typing import Annotated

import typer
from rich.console import Console

from ops.commands import asking, rendering
from ops.commands.answering import LocalOption, answering
from ops.commands.asking import ChatOption, SessionKeyOption
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.errors import InvalidInput
from schemas.search import MAX_LIMIT, Line, SearchQuery, SearchResult, SessionHit

app = typer.Typer(rich_markup_mode="markdown")

TEXT = 400


@app.command(
    epilog="**Examples:** backscroll search 'boiler repair' --chat telegram:-100420 · "
    "backscroll search 'E41' --mode exact · "
    "backscroll search boiler --mode topic --since 2026-01-01 --limit 100 · "
    "backscroll search 'who pays?' --mode contextual --role user --json"
)
def search(
    words: Annotated[str, typer.Argument(help="What to look for.", show_default=False)],
    chat: ChatOption = None,
    mode: Annotated[
        str,
        typer.Option(
            help="`hybrid`: by words and meaning. `similar`: by meaning. `exact`: these very characters. "
            "`contextual`: sessions with their best messages. `topic`: sessions on a theme."
        ),
    ] = "hybrid",
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="So many hits.")] = 10,
    user: Annotated[str | None, typer.Option(help="What this user said.", show_default=False)] = None,
    agent: Annotated[
        str | None, typer.Option(help="What this agent said or was told.", show_default=False)
    ] = None,
    session: Annotated[
        int | None, typer.Option(help="In this session, by its number.", show_default=False)
    ] = None,
    session_key: SessionKeyOption = None,
    role: Annotated[
        list[str] | None,
        typer.Option(help="`user`, `assistant`, `system` or `tool`; may be repeated.", show_default=False),
    ] = None,
    sender: Annotated[
        list[str] | None, typer.Option(help="As in telegram:11; may be repeated.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="From then on: 2026-01-31, in the chat's time zone unless it says.", show_default=False
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before then.", show_default=False)] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="Of the message's metadata; repeatable.", show_default=False),
    ] = None,
    min_similarity: Annotated[
        float | None, typer.Option(min=0, max=1, help="Leave out what is less like it.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    local: LocalOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Find messages or sessions of a chat: what the door answers to `POST /v1/search`.

    The running Backscroll is asked, as by `backscroll context`. Where nothing is found, a user or sender who was never
    seen ends it with 3.
    """
    with answering(data_dir, tenant, local=local) as answerer:
        named = answerer.chat(chat)
        query = asking.question(
            named,
            SearchQuery,
            query=words,
            mode=mode,
            limit=limit,
            user_id=user,
            agent_id=agent,
            session_id=session,
            session_key=session_key,
            roles=role or None,
            sender_ids=sender or None,
            moments={"since": since, "until": until},
            metadata=dict(map(_pair, metadata)) if metadata else None,
            min_similarity=min_similarity,
        )
        with rendering.patience("Searching …", shown=not as_json):
            found = answerer.search(query)
        if not (found.hits or found.sessions):
            for each in [*([user] if user else []), *(sender or [])]:
                answerer.require_user(each)
    if as_json:
        rendering.print_json({"chat_id": named.chat_id, "query": words, **dict(found)})
        return
    _print(found, named.chat_id, named.time_zone)
    for problem in found.degraded:
        rendering.err().print(f"Degraded: {problem}", style="yellow", markup=False)


def _pair(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals:
        raise InvalidInput(f"--metadata {given} must look like NAME=TEXT", field="metadata")
    return name, value


def _print(found: SearchResult, chat_id: str, zone: str) -> None:
    console = rendering.out()
    if found.fell_back:
        console.print("No session fits well enough; these are the best messages of the whole chat:\n")
    if found.hits:
        console.print(asking.hits_table(found.hits, zone))
    for hit in found.sessions:
        _print_session(console, hit, zone)
    if found.related:
        console.print("Related:", style="bold")
    for hit in found.related:
        _print_session(console, hit, zone)
    if not (found.hits or found.sessions):
        console.print(f"Nothing in {chat_id} fits.", markup=False)
    if found.searched_back_to is not None:
        console.print(f"Older messages: --until {found.searched_back_to.isoformat()}", markup=False)


def _print_session(console: Console, hit: SessionHit, zone: str) -> None:
    topics = f" ({', '.join(hit.topics[:4])})" if hit.topics else ""
    when = f"{rendering.moment(hit.started_at, zone)} – {rendering.moment(hit.ended_at, zone)}"
    console.print(
        rendering.plain(f"#{hit.rank} session {hit.session_id}, {when}{topics}, {hit.score:.3f}"),
        style="bold",
        markup=False,
    )
    console.print(rendering.preview(hit.summary or "not summarized", TEXT), markup=False)
    for line in hit.messages:
        _print_line(console, line, zone)
    console.print()


def _print_line(console: Console, line: Line, zone: str) -> None:
    """One message as it was said; a match stands out from its neighbours."""
    matched = line.score is not None
    told = rendering.preview(f"{rendering.moment(line.at, zone)} {line.speaker}: {line.text}", TEXT)
    console.print(f"  {'•' if matched else ' '} {told}", style="" if matched else "dim", markup=False)
