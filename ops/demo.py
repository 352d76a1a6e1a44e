"""Shows a bot that remembers: imports a sample conversation the real way and asks the door about it."""

import json
import time
import urllib.error
import urllib.request
from datetime import timedelta
from importlib.resources import as_file, files
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.text import Text

from ops.commands.hints import opened_hints
from ops.commands.rendering import preview
from ops.commands.sources import open_source
from ops.commands.waiting import await_memory
from ops.launch import Launched
from pipeline.ingest import history
from pipeline.ingest.history import Tally
from pipeline.ingest.policy import Rules
from pipeline.operations import status
from pipeline.platforms.records import ImportOptions
from pipeline.store.database import Database
from schemas.context import Context
from schemas.errors import InvalidInput

SAMPLES = files("ops") / "samples"
QUESTIONS = 3
# A history that comes in one piece settles soon.
SETTLE = timedelta(seconds=1)
LIMIT_SECONDS = 300.0
# Of each block so many lines are shown, cut to so many characters.
LINES = 4
LINE_CHARS = 200


def show(launched: Launched, console: Console) -> bool:
    """Import, wait, ask and print; whether every step worked and every answer held what it should."""
    began = time.monotonic()
    database = Database.from_settings(launched.settings)
    try:
        tally = _import(launched, database, console)
        (chat,) = tally.chats.values()
        console.print(
            f"\nDemo: imported the chat {chat.title!r}, {chat.new} new messages, {chat.duplicates} already there",
            markup=False,
        )
        progress = await_memory(
            database,
            launched.settings.tenant,
            [chat.chat_id],
            console,
            shown=console.is_terminal,
            pause=launched.wait,
            limit_seconds=LIMIT_SECONDS,
        )
    finally:
        database.close()
    console.print(
        f"{progress.messages} messages, {progress.embedded} of them embedded; {progress.closed} sessions, "
        f"{progress.summarized} of them summarized or too short; {time.monotonic() - began:.1f} s",
        soft_wrap=True,
    )
    failure = _failure(progress)
    if failure:
        logs = launched.settings.data_dir / "logs"
        console.print(
            f"[bold red]Failed:[/] {escape(failure)}. The logs: {escape(str(logs))}", soft_wrap=True
        )
    worked = not failure
    for question in json.loads((SAMPLES / "harbour_house_questions.json").read_text("utf-8"))[:QUESTIONS]:
        worked = _ask(launched, chat.chat_id, question, console) and worked
    return worked


def _import(launched: Launched, database: Database, console: Console) -> Tally:
    """Import the sample as `backscroll import` does. Raises `InvalidInput`."""
    tally, rules = Tally(), Rules.of(launched.settings)
    with (
        opened_hints(launched.settings, console) as hints,
        as_file(SAMPLES / "harbour_house.jsonl") as path,
        open_source(path, ImportOptions()) as source,
    ):
        for event in history.store(
            database, launched.settings.tenant, source.records(), rules, settle=SETTLE
        ):
            tally.add(event)
            if isinstance(event, history.Stored) and event.new:
                hints.send("ingest")
    if tally.broken:
        raise InvalidInput(f"{source.name} has {tally.broken} broken lines", field="file")
    return tally


def _failure(progress: status.Progress) -> str | None:
    """What did not come about, as a sentence without its end."""
    if progress.dead:
        return f"{progress.dead} pieces of work were given up ({progress.error})"
    if not progress.complete:
        return f"{progress.owed} pieces of work are still owed after {LIMIT_SECONDS:.0f} s"
    if progress.embedded < progress.to_embed:
        return f"{progress.to_embed - progress.embedded} messages have no vector"
    return None


def _ask(launched: Launched, chat_id: str, question: dict[str, Any], console: Console) -> bool:
    """Ask the door, print the context with its reasons; whether it holds what the answer needs."""
    body = {"chat_id": chat_id, "query": question["question"], "explain": True, "include_history": False}
    began = time.monotonic()
    try:
        context = Context.model_validate(_post(launched, "/v1/context", body))
    except (urllib.error.URLError, OSError, ValueError) as error:
        failed = escape(f"{question['question']!r}: {_told(error)}")
        console.print(f"[bold red]Failed:[/] {failed}", soft_wrap=True)
        return False
    milliseconds = (time.monotonic() - began) * 1000
    held = [token for token in question["tokens"] if token.lower() in context.text.lower()]
    console.print()
    console.print(Panel(_rendered(context), title=question["question"], title_align="left"))
    searched = context.explain.vector_search if context.explain else "off"
    facts = f"{len(held)} of the {len(question['tokens'])} facts that answer it"
    console.print(
        f"{context.used_tokens} of {context.budget} tokens, with {facts}; {milliseconds:.0f} ms, "
        f"vectors: {searched}" + "".join(f", degraded: {reason}" for reason in context.degraded),
        soft_wrap=True,
        markup=False,
    )
    # what went on over weeks is told by several messages, of which a context holds some
    enough = 1 if question["kind"] == "theme" else len(question["tokens"])
    if len(held) < enough:
        missing = ", ".join(token for token in question["tokens"] if token not in held)
        console.print(f"[bold red]Failed:[/] the context does not hold: {escape(missing)}")
    return len(held) >= enough


def _rendered(context: Context) -> Text:
    """The best lines of the blocks, in their order, each with the reason why it is there."""
    shown = Text()
    for block in context.blocks:
        best = sorted(block.items, key=lambda item: -(item.score or 0))[:LINES]
        if not best:
            continue
        shown.append(f"{block.kind} ({block.tokens} tokens)\n", style="bold")
        for item in block.items:
            if item in best:
                shown.append(f"  {preview(item.text, LINE_CHARS)}\n")
                shown.append(f"      ↳ {item.reason}\n", style="dim")
        if more := len(block.items) - len(best):
            shown.append(f"  … and {more} more\n", style="dim")
    shown.rstrip()
    return shown


def _post(launched: Launched, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(  # noqa: S310 - our own http URL
        launched.running.door_url + path,
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {launched.running.api_key}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        return json.load(response)


def _told(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.read(2000).decode(errors='replace')}"
    return str(error)
