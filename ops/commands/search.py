"""`backscroll search`, `more` and `queries`: what a chat's memory finds, what stands around it, and what was asked."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ops import connection
from ops.console import rendering
from ops.console.command import (
    AlsoOption,
    Call,
    ChatOption,
    HydeOption,
    InChatOption,
    ListByDefault,
    SessionKeyOption,
    command,
    query_in,
    read_pair,
)
from schemas.context import AnswerIn, Hit
from schemas.memories import certainty
from schemas.payloads import parse_payload
from schemas.search import MAX_LIMIT, MoreQuery, SearchQuery, SearchResult, SessionHit

app = typer.Typer(rich_markup_mode="markdown")
more_app = typer.Typer(rich_markup_mode="markdown")

TEXT_CHARS = 400
PREVIEW = 200


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
) -> None:
    """Find messages or sessions of a chat. The HTTP API answers the same to `POST /v1/search`.

    The running Backscroll is asked, as by `backscroll context`. If nothing is found, a user or sender who was never
    seen ends the command with 3.
    """
    api = call.api()
    named = api.find_chat(chat)
    query = query_in(
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
        result = api.post("/v1/search", query, SearchResult)
    if not (result.hits or result.sessions):
        call.require_user(*filter(None, [user, *(sender or [])]))
    if call.as_json:
        rendering.print_json({"chat_id": named.chat_id, "query": words, **dict(result)})
        return
    _print(result, named.chat_id, named.time_zone)
    for problem in result.degraded:
        rendering.warn(f"Degraded: {problem}")


@command(more_app, "backscroll more 30 --shown 812 --shown 815")
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
        from pipeline.recall.search_modes import more as find_more

        with database.tenant(settings.tenant) as connection:
            chat_id = lookup.find_session(connection, session).chat_id if chat is None else chat
            named = lookup.summary(lookup.find_chat(connection, chat_id))
        query = query_in(named, MoreQuery, session_id=session, shown=shown or [], limit=limit)
        result = find_more(database, settings.tenant, query, settings=settings)
    if call.as_json:
        rendering.print_json(result)
        return
    console, zone = rendering.out(), named.time_zone
    for line in result.messages:
        text = f"{rendering.moment(line.at, zone)} {line.speaker}: {line.text}"
        console.print(" ".join(rendering.plain(text).split()), markup=False)
    if result.next is None:
        console.print("That is all of this session.", style="dim")
        return
    options = " ".join(f"--shown {message_id}" for message_id in result.next.shown)
    console.print(f"{result.remaining:,} more: backscroll more {result.session_id} {options}", style="dim")


def _print(result: SearchResult, chat_id: str, zone: str) -> None:
    console = rendering.out()
    if result.fell_back:
        console.print("No session matches well enough; these are the best messages of the whole chat:\n")
    if judged := certainty(result.evidence, result.evidence_probability):
        console.print(judged, style="dim")
    if result.hits:
        console.print(hits_table(result.hits, zone))
    for hit in result.sessions:
        _print_session(console, hit, zone)
    if result.related:
        console.print("Related:", style="bold")
    for hit in result.related:
        _print_session(console, hit, zone)
    if not (result.hits or result.sessions):
        console.print(f"Nothing in {chat_id} matches.", markup=False)
    if result.searched_back_to is not None:
        console.print(f"Older messages: --until {result.searched_back_to.isoformat()}", markup=False)


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


queries_app = typer.Typer(cls=ListByDefault, rich_markup_mode="markdown")

LISTED = 20
OUTCOMES = {
    "stored": "The answer is stored.",
    "known": "There was an answer already, and the first one is kept.",
    "kept_out": "Not stored: what it is based on, or who asked, was forgotten or is not to be remembered.",
}


@queries_app.callback()
def queries() -> None:
    """List questions and answers, or report an answer."""


@command(queries_app, "backscroll queries list --chat telegram:-100420 --limit 5", name="list")
def list_queries(
    call: Call,
    chat: InChatOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Queries at most, the newest.")] = LISTED,
) -> None:
    """List the newest contexts: who asked what, how long it took, and what was answered.

    Questions and answers are missing where a part of them was forgotten, or was not to be remembered. A chat that was
    never seen ends the command with 3.
    """
    from pipeline.operations import lookup
    from pipeline.recall import query_log

    with call.opened() as (settings, database):
        if chat is not None:
            lookup.require_chat(database, settings.tenant, chat)
        queries = query_log.listing(database, settings.tenant, chat, limit)
    headings = ("asked (UTC)", "context", "chat", "who", "ms", "tokens", "evidence", "question", "answer")
    cells = [
        (
            *(row.asked_at, row.context_id, row.chat_id, row.user_id, round(row.latency_ms)),
            *(
                row.used_tokens,
                row.evidence,
                *(rendering.preview(text or "–", 60) for text in (row.query, row.answer)),
            ),
        )
        for row in queries
    ]
    call.answer({"queries": queries}, rendering.rows(headings, cells, right=("ms", "tokens")))


@command(queries_app, "backscroll queries answer ctx_1f2e 'On 4 May.' --used message:812 --remember")
def answer(
    call: Call,
    context_id: Annotated[str, "The context's id."],
    text: Annotated[str, "What was answered."],
    used: Annotated[list[str] | None, "What it is based on, as in message:812; repeatable."] = None,
    remember: Annotated[bool | None, "Keep both as a memory (default: BACKSCROLL_REMEMBER_ANSWERS)."] = None,
) -> None:
    """Report the answer to a context; the first answer is kept."""
    from pipeline.recall import query_log

    report = parse_payload(AnswerIn, {"answer": text, "used": used, "remember": remember})
    with call.opened() as (settings, database):
        answered = query_log.report(database, settings.tenant, context_id, report, settings)
        if answered.memory_id is not None:
            connection.wake(settings, "embed")
    remembered = (
        [f"Question and answer are the memory {answered.memory_id}."]
        if answered.memory_id is not None
        else []
    )
    call.answer(answered, OUTCOMES[answered.outcome], *remembered)
