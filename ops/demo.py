"""Shows a bot that remembers: imports a sample conversation the real way and asks the door about it."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text
from sqlalchemy import text

from ops.commands.sources import open_source
from ops.launch import Launched
from pipeline import ingest
from pipeline.platforms.records import Broken, ImportOptions, Record
from pipeline.store import work
from pipeline.store.database import Database
from schemas.context import Context
from schemas.errors import InvalidInput
from schemas.messages import ChatIn, MessageIn
from workers import queues
from workers.app import make_app

SAMPLES = files("ops") / "samples"
QUESTIONS = 3
BATCH = 100
# A history that comes in one piece settles soon.
SETTLE = timedelta(seconds=1)
LIMIT_SECONDS = 300.0
POLL_SECONDS = 0.25
KINDS = ("ingest", "summarize", "embed")


@dataclass(frozen=True, kw_only=True)
class Progressed:
    """How far the chat's memory is."""

    messages: int
    placed: int
    embedded: int
    sessions: int
    summarized: int
    # work of any kind that is still owed, and that was given up
    owed: int
    dead: int
    # of what was given up: why
    error: str | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is owed any more."""
        return not self.owed and self.placed == self.messages


def show(launched: Launched, console: Console) -> bool:
    """Import, wait, ask and print; whether every step worked and every answer held what it should."""
    with as_file(SAMPLES / "harbour_house.jsonl") as path:
        chat, messages = read(path)
    database = Database.from_settings(launched.settings)
    try:
        began = time.monotonic()
        new = _import(launched, database, chat, messages)
        title = chat.title or chat.chat_id
        console.print(
            f"\nDemo: {len(messages)} messages of the chat {title!r}, {new} of them new", markup=False
        )
        progress = _await_memory(launched, database, chat.chat_id, console)
        for failure in _failures(progress, launched):
            console.print(f"[bold red]Failed:[/] {failure}", soft_wrap=True)
        console.print(
            f"{progress.placed} messages in {progress.sessions} sessions, {progress.summarized} of them "
            f"summarized or too short, {progress.embedded} messages embedded after "
            f"{time.monotonic() - began:.1f} s"
        )
    finally:
        database.close()
    worked = progress.complete and not progress.dead
    for question in json.loads((SAMPLES / "harbour_house_questions.json").read_text("utf-8"))[:QUESTIONS]:
        worked = _ask(launched, chat.chat_id, question, console) and worked
    return worked


def read(path: Path) -> tuple[ChatIn, list[MessageIn]]:
    """The one chat of an export, and its messages. Raises `InvalidInput`."""
    chat: ChatIn | None = None
    messages = []
    with open_source(path, ImportOptions()) as source:
        for parsed in source.records():
            match parsed:
                case ChatIn():
                    chat = parsed
                case Record():
                    messages.append(parsed.message)
                case Broken():
                    raise InvalidInput(f"{path}, {parsed.where}: {parsed.reason}", field="file")
    if chat is None:
        raise InvalidInput(f"{path} names no chat", field="file")
    return chat, messages


def _import(launched: Launched, database: Database, chat: ChatIn, messages: list[MessageIn]) -> int:
    """Accept the messages and hint the workers; how many were new."""
    queue = make_app(launched.settings)
    new = 0
    for batch in _batches(messages):
        new += ingest.accept(database, launched.settings.tenant, chat, batch, settle=SETTLE).new
        queues.hint(queue, "ingest")
    return new


def _batches(messages: list[MessageIn]) -> Iterator[list[MessageIn]]:
    for start in range(0, len(messages), BATCH):
        yield messages[start : start + BATCH]


def _await_memory(launched: Launched, database: Database, chat_id: str, console: Console) -> Progressed:
    """Wait, showing progress, until nothing is owed, something was given up, or time is up."""
    deadline = time.monotonic() + LIMIT_SECONDS
    columns = (TextColumn("{task.description:22}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        placed = bars.add_task("placed in sessions", total=None)
        summarized = bars.add_task("sessions summarized", total=None)
        embedded = bars.add_task("messages embedded", total=None)
        while True:
            now = _progress(database, launched.settings.tenant, chat_id)
            _advance(bars, placed, now.placed, now.messages)
            _advance(bars, summarized, now.summarized, now.sessions)
            _advance(bars, embedded, now.embedded, now.messages)
            if now.complete or now.dead or time.monotonic() > deadline:
                return now
            launched.wait(POLL_SECONDS)


def _advance(bars: Progress, bar: TaskID, completed: int, total: int) -> None:
    bars.update(bar, completed=completed, total=total or None)


def _progress(database: Database, tenant: str, chat_id: str) -> Progressed:
    with database.tenant(tenant) as connection:
        chat = {"chat": chat_id}
        messages = connection.scalar(text("SELECT count(*) FROM messages WHERE chat_id = :chat"), chat) or 0
        waiting = connection.scalar(text("SELECT count(*) FROM arrivals WHERE chat_id = :chat"), chat) or 0
        sessions, summarized = connection.execute(
            text("""
                SELECT count(*), count(*) FILTER (WHERE status IN ('summarized', 'skipped'))
                FROM conversation_sessions WHERE chat_id = :chat AND status <> 'merged'
            """),
            chat,
        ).one()
        vectors = connection.scalar(text("SELECT to_regclass('message_vectors')")) is not None
        embedded = 0
        if vectors:
            embedded = connection.scalar(
                text("SELECT count(DISTINCT message_id) FROM message_vectors WHERE chat_id = :chat"), chat
            )
    with database.maintenance() as connection:
        # without pgvector there is nowhere to keep vectors, and search goes by keywords
        kinds = [kind for kind in KINDS if vectors or kind != "embed"]
        rows = [row for row in work.totals(connection) if row.kind in kinds]
        error = connection.scalar(
            text("SELECT last_error FROM work WHERE dead_at IS NOT NULL ORDER BY dead_at DESC LIMIT 1")
        )
    return Progressed(
        messages=messages,
        placed=messages - waiting,
        embedded=embedded or 0,
        sessions=sessions,
        summarized=summarized,
        owed=sum(row.pending + row.running + row.retrying for row in rows),
        dead=sum(row.dead for row in rows),
        error=error,
    )


def _failures(progress: Progressed, launched: Launched) -> Iterator[str]:
    logs = launched.settings.data_dir / "logs"
    if progress.dead:
        yield f"work was given up ({progress.error}). The logs: {logs}"
    elif not progress.complete:
        yield f"{progress.owed} pieces of work are still owed after {LIMIT_SECONDS:.0f} s. The logs: {logs}"


def _ask(launched: Launched, chat_id: str, question: dict[str, Any], console: Console) -> bool:
    """Ask the door, print the context with its reasons; whether it holds what the answer needs."""
    body = {"chat_id": chat_id, "query": question["question"], "explain": True, "include_history": False}
    began = time.monotonic()
    try:
        context = Context.model_validate(_post(launched, "/v1/context", body))
    except (urllib.error.URLError, OSError, ValueError) as error:
        console.print(f"[bold red]Failed:[/] {question['question']!r}: {_told(error)}", soft_wrap=True)
        return False
    milliseconds = (time.monotonic() - began) * 1000
    missing = [token for token in question["tokens"] if token.lower() not in context.text.lower()]
    console.print()
    console.print(Panel(_rendered(context), title=question["question"], title_align="left"))
    searched = context.explain.vector_search if context.explain else "off"
    console.print(
        f"{context.used_tokens} of {context.budget} tokens, {milliseconds:.0f} ms, vectors: {searched}"
        + "".join(f", degraded: {reason}" for reason in context.degraded),
        markup=False,
    )
    if missing:
        console.print(f"[bold red]Failed:[/] the context does not hold: {', '.join(missing)}")
    return not missing


def _rendered(context: Context) -> Text:
    """The blocks' lines, each with the reason why it is there."""
    shown = Text()
    for block in context.blocks:
        if not block.items:
            continue
        shown.append(f"{block.kind} ({block.tokens} tokens)\n", style="bold")
        for item in block.items:
            shown.append(f"  {item.text.strip()}\n")
            shown.append(f"      ↳ {item.reason}\n", style="dim")
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
