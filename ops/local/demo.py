"""The demo of `backscroll up`: import a sample conversation as users do, and ask the HTTP API about it."""

import json
import time
from collections.abc import Sequence
from datetime import timedelta
from importlib.resources import as_file, files
from typing import Any

from rich.console import Console
from rich.markup import escape

from ops import connection
from ops.client import Api
from ops.console.rendering import preview
from ops.console.waiting import await_memory
from ops.local.launch import Launched
from ops.source import open_source
from pipeline.ingest import history
from pipeline.ingest.history import Stored, Tally
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.platforms.records import ImportOptions
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.errors import BackscrollError, InvalidInput
from schemas.payloads import ContextQuery

SAMPLES = files("ops") / "local" / "samples"
# One about something that changed, and one that nobody ever answered.
QUESTIONS = (
    "Which internet provider did we go with in the end?",
    "How many bar should we keep the boiler at?",
    "Where did Olek find his key?",
    "What became of Gerald?",
    "What is Dona Graça's phone number?",
)
WHOLE = QUESTIONS[1]
"""The question of which all that is shown is printed, as a bot gets it."""
BUDGET_TOKENS = 600
# The sample is imported in one piece, and so is complete at once.
SETTLE = timedelta(seconds=1)
LIMIT_SECONDS = 300.0
LINES_SHOWN = 4
LINE_CHARS = 110


def show(launched: Launched, console: Console) -> bool:
    """Import, wait, ask and print; returns whether every step worked and every answer held what it should."""
    began = time.monotonic()
    database = Database.from_settings(launched.settings)
    try:
        tally = _import(launched, database, console)
        (chat,) = tally.chats.values()
        console.print(
            f"\nDemo: imported the chat {chat.title!r}, {chat.new} new messages, {chat.duplicates} already there",
            markup=False,
        )
        where = (database, launched.settings.tenant, [chat.chat_id], console)
        progress = await_memory(
            *where, shown=console.is_terminal, pause=launched.wait, limit_seconds=LIMIT_SECONDS
        )
    finally:
        database.close()
    console.print(
        f"{progress.messages} messages, {progress.embedded} of them embedded; {progress.closed} sessions, "
        f"{progress.summarized} of them summarized or too short; {time.monotonic() - began:.1f} s",
        soft_wrap=True,
    )
    worked = progress.complete and not progress.dead and progress.embedded >= progress.to_embed
    if not worked:
        problem = (
            f"{progress.pending} jobs are pending and {progress.dead} are dead ({progress.error or 'no error'}) after "
            f"{time.monotonic() - began:.0f} s, {progress.to_embed - progress.embedded} messages have no vector"
        )
        _print_failure(console, f"{problem}. The logs: {launched.settings.data_dir / 'logs'}")
    for question in questions():
        worked = _ask(launched, chat.chat_id, question, console) and worked
    return worked


def _import(launched: Launched, database: Database, console: Console) -> Tally:
    """Import the sample as `backscroll import` does. Raises `InvalidInput`."""
    tally, rules = Tally(), SessionPolicy.of(launched.settings)
    with (
        connection.wake_ups(launched.settings, console) as wake_up,
        as_file(SAMPLES / "harbour_house.jsonl") as path,
        open_source(path, ImportOptions()) as source,
    ):
        records = source.records()
        for event in history.store(database, launched.settings.tenant, records, rules, settle=SETTLE):
            tally.add(event)
            if isinstance(event, Stored) and event.new:
                wake_up("ingest")
    if broken := tally.left_out["unreadable"]:
        raise InvalidInput(f"{source.name} has {broken} broken lines", field="file")
    return tally


def _print_failure(console: Console, failure: str) -> None:
    console.print(f"[bold red]Failed:[/] {escape(failure)}", soft_wrap=True)


def questions() -> list[dict[str, Any]]:
    """Return the questions of the demo, with their answers and the pieces that a context must hold."""
    known = json.loads((SAMPLES / "harbour_house_questions.json").read_text("utf-8"))
    by_text = {question["question"]: question for question in known}
    return [by_text[text] for text in QUESTIONS]


def query(chat_id: str, question: str) -> ContextQuery:
    """Return what the demo asks the HTTP API: without recent talk, as none of it was just said."""
    return ContextQuery(
        chat_id=chat_id, query=question, budget_tokens=BUDGET_TOKENS, explain=True, include_history=False
    )


def _ask(launched: Launched, chat_id: str, question: dict[str, Any], console: Console) -> bool:
    """Ask the HTTP API and print the context's best lines; returns whether it holds the answer."""
    api = Api(url=launched.running.api_url, api_key=launched.running.api_key)
    try:
        context = api.post("/v1/context", query(chat_id, question["question"]), Context)
    except BackscrollError as error:
        _print_failure(console, f"{question['question']!r}: {error}")
        return False
    title, *lines = report(question, context)
    console.print(f"\n{title}", style="bold", soft_wrap=True, markup=False)
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
    held = [token for token in question["tokens"] if token.lower() in context.text.lower()]
    # several messages speak of a theme, and a context holds some of them
    enough = 1 if question["kind"] == "theme" else len(question["tokens"])
    if len(held) < enough:
        missing = ", ".join(token for token in question["tokens"] if token not in held)
        _print_failure(console, f"the context does not hold: {missing}")
    return len(held) >= enough


def report(question: dict[str, Any], context: Context, most: int = LINES_SHOWN) -> list[str]:
    """Return a question, the best lines of its context with the reason of the first, and the answer that is known.

    Lines are cut around the answer. Of the question `WHOLE` all of the context is returned.
    """
    items = [item for block in context.blocks for item in block.items]
    best = sorted(items, key=lambda item: -(item.score or 0))[:most]
    lines = [question["question"]]
    if question["question"] == WHOLE:
        shown = "\n\n".join(block.text for block in context.blocks if block.kind != "question")
        lines += [f"  │ {line}".rstrip() for line in shown.splitlines()]
    for number, item in enumerate([] if question["question"] == WHOLE else best):
        day = f"{item.at.day} {item.at:%B}, " if item.at and item.kind == "message" else ""
        lines.append(f"  {_around(day + item.text, question['tokens'])}")
        if not number:
            lines.append(f"      ↳ {item.reason}")
    more = f"… and {len(items) - len(best)} more" if len(items) > len(best) else "all that is shown"
    sure = (
        f", evidence {context.evidence} ({context.evidence_probability or 0:.0%})" if context.evidence else ""
    )
    lines.append(
        f"  {more}, {context.used_tokens} of {context.budget} tokens{sure}. The answer: {question['answer']}"
    )
    return lines + [f"  degraded: {reason}" for reason in context.degraded]


def _around(text: str, answers: Sequence[str]) -> str:
    """Return the part of a line around the first of the answer's pieces that it holds, or its beginning."""
    at = max((text.casefold().find(answer.casefold()) for answer in answers), default=-1)
    # from the beginning of a word
    start = text.find(" ", at - LINE_CHARS // 2) + 1 if at > LINE_CHARS // 2 else 0
    return preview(("… " if start else "") + text[start:], LINE_CHARS)
