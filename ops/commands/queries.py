"""List questions and answers, or report an answer."""

from typing import Annotated

import typer

from ops import connection
from ops.console import rendering
from ops.console.command import Call, InChatOption, ListByDefault, command
from schemas.context import AnswerIn
from schemas.payloads import parse_payload

app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")

LISTED = 20
OUTCOMES = {
    "stored": "The answer is stored.",
    "known": "There was an answer already, and the first one is kept.",
    "kept_out": "Not stored: what it is based on, or who asked, was forgotten or is not to be remembered.",
}


@command(app, "backscroll queries list --chat telegram:-100420 --limit 5", name="list")
def list_(
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


@command(app, "backscroll queries answer ctx_1f2e 'On 4 May.' --used message:812 --remember")
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
