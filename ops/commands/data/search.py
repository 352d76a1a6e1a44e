"""`backscroll search`: what a chat's memory finds for some words."""

from typing import Annotated

import typer
from rich.console import Console

from ops.console import questions, rendering
from ops.console.backend import backend
from ops.console.command import Call, command
from ops.console.options import AlsoOption, ChatOption, HydeOption, LocalOption, SessionKeyOption, read_pair
from schemas.search import MAX_LIMIT, SearchQuery, SearchResult, SessionHit

app = typer.Typer(rich_markup_mode="markdown")

TEXT_CHARS = 400


@command(app, "backscroll search 'boiler repair' --chat telegram:-100420")
def search(
    call: Call,
    words: Annotated[str, "What to look for."],
    chat: ChatOption = None,
    mode: Annotated[
        str,
        (
            "`hybrid`: by words and meaning. `similar`: by meaning. `exact`: exactly these characters. "
            "`contextual`: sessions with their best messages. `topic`: sessions on a theme."
        ),
    ] = "hybrid",
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Hits at most.")] = 10,
    user: Annotated[str | None, "Only messages of this user."] = None,
    agent: Annotated[str | None, "Only messages of this agent, or to it."] = None,
    session: Annotated[int | None, "Only this session, by its number."] = None,
    session_key: SessionKeyOption = None,
    role: Annotated[list[str] | None, "`user`, `assistant`, `system` or `tool`; repeatable."] = None,
    sender: Annotated[list[str] | None, "Only this sender, as in telegram:11; repeatable."] = None,
    since: Annotated[str | None, "From this time on, as in 2026-01-31, in the chat's zone."] = None,
    until: Annotated[str | None, "Before this time."] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="With this metadata; repeatable.")
    ] = None,
    min_similarity: Annotated[float | None, typer.Option(min=0, max=1, help="At least this similar.")] = None,
    also: AlsoOption = None,
    hyde: HydeOption = False,
    local: LocalOption = False,
) -> None:
    """Find messages or sessions of a chat. The HTTP API answers the same to `POST /v1/search`.

    The running Backscroll is asked, as by `backscroll context`. If nothing is found, a user or sender who was never
    seen ends the command with 3.
    """
    with backend(call, local=local) as answering:
        named = answering.chat(chat)
        query = questions.question(
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
            metadata=dict(map(read_pair, metadata)) if metadata else None,
            min_similarity=min_similarity,
            queries=also,
            hyde=hyde,
        )
        with rendering.patience("Searching …", shown=not call.as_json):
            found = answering.search(query)
        if not (found.hits or found.sessions):
            for each in [*([user] if user else []), *(sender or [])]:
                answering.require_user(each)
    if call.as_json:
        rendering.print_json({"chat_id": named.chat_id, "query": words, **dict(found)})
        return
    _print(found, named.chat_id, named.time_zone)
    for problem in found.degraded:
        rendering.warn(f"Degraded: {problem}")


def _print(found: SearchResult, chat_id: str, zone: str) -> None:
    console = rendering.out()
    if found.fell_back:
        console.print("No session matches well enough; these are the best messages of the whole chat:\n")
    if found.hits:
        console.print(questions.hits_table(found.hits, zone))
    for hit in found.sessions:
        _print_session(console, hit, zone)
    if found.related:
        console.print("Related:", style="bold")
    for hit in found.related:
        _print_session(console, hit, zone)
    if not (found.hits or found.sessions):
        console.print(f"Nothing in {chat_id} matches.", markup=False)
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
    console.print(rendering.preview(hit.summary or "not summarized", TEXT_CHARS), markup=False)
    for line in hit.messages:
        # a match stands out from its neighbours
        matched = line.score is not None
        text = rendering.preview(f"{rendering.moment(line.at, zone)} {line.speaker}: {line.text}", TEXT_CHARS)
        console.print(f"  {'•' if matched else ' '} {text}", style="" if matched else "dim", markup=False)
    console.print()
