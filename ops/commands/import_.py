"""`backscroll import`: the history that people have already, from their export files."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ops.commands import import_report, rendering
from ops.commands.exports import SeveralExports
from ops.commands.hints import opened_hints
from ops.commands.opening import opened
from ops.commands.rendering import JsonOption
from ops.commands.sources import Source, open_source
from ops.commands.waiting import await_memory
from ops.connection import DataDirOption, TenantOption
from ops.exit_codes import INTERRUPTED, NOT_AS_IT_SHOULD_BE
from pipeline.platforms.formats import Format
from pipeline.platforms.records import DateOrder, ImportOptions
from schemas.errors import BackscrollError, InvalidInput
from schemas.messages import ChatKind
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.ingest.history import Event, Tally
    from pipeline.store.database import Database

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll import 'WhatsApp Chat with Harbour House.zip' --tz Europe/Lisbon · "
    "backscroll import result.json · backscroll import slack-export/ --wait · "
    "backscroll import history.jsonl --strict --json"
)
def import_(
    ctx: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="FILE|FOLDER|ZIP", help="What to import.", show_default=False)
    ],
    format: Annotated[  # noqa: A002 - the option's name
        Format | None, typer.Option(help="Default: told by the content.", show_default=False)
    ] = None,
    chat: Annotated[
        str | None, typer.Option(help="The chat's id, where the file does not tell.", show_default=False)
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the chat is called.", show_default=False)] = None,
    tz: Annotated[
        str | None,
        typer.Option(
            help="Clock of times without a zone, and of the chat, as in Europe/Lisbon; default: the chat's, else UTC.",
            show_default=False,
        ),
    ] = None,
    date_order: Annotated[
        DateOrder | None, typer.Option(help="Of WhatsApp's dates; default: told by them.", show_default=False)
    ] = None,
    kind: Annotated[
        ChatKind | None,
        typer.Option(help="What the source's chats are; default: told by the file.", show_default=False),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="For keyword search, as in english.", show_default=False)
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="With one broken line write nothing (reads the file twice).")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until all is sessionized, summarized and embedded.")
    ] = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Import a history: WhatsApp, Telegram Desktop, Slack, Discord (DiscordChatExporter) or our JSON Lines.

    - WhatsApp: *Export chat*, the `.zip` or `.txt` as it comes; say its clock with `--tz`
    - Telegram Desktop: *Export chat history* as JSON, the `result.json` or its folder
    - Slack: the workspace's export, as zip or folder
    - Discord: DiscordChatExporter's JSON
    - JSON Lines: a message on each line, fields as in `POST /v1/messages`

    May be run again, also with a longer export of the same chat: what is there is not stored twice, and moved when
    `--tz` or `--date-order` says that its times were read wrongly. Dates that can be read in two ways are asked for
    (exit code 2), as is which of several exports in a folder is meant. A broken line is named, counted and skipped.
    What was accepted stays when you press Ctrl-C. It ends with 5 if the file breaks off, and with `--wait` if work on
    it was given up.
    """
    options = ImportOptions(
        chat_id=chat, title=title, time_zone=tz, date_order=date_order, kind=kind, language=language
    )
    console = rendering.err()
    report = import_report.Report(console, ctx)
    shown = console.is_terminal and not as_json
    try:
        opened_source = open_source(path, options, format=format)
    except SeveralExports as error:
        raise InvalidInput(f"{error}:\n{import_report.commands(ctx, error.exports)}", field="file") from error
    with opened_source as source, opened(data_dir, tenant) as (settings, database):
        source.options = replace(
            source.options, stored_zone=lambda chat_id: _stored_zone(database, settings.tenant, chat_id)
        )
        if source.others:
            report.notice(
                f"{path} also holds what is not imported now:\n{import_report.commands(ctx, source.others)}"
            )
        if strict:
            _check(source, report, shown)
        tally = _import(source, settings, database, report, shown)
        if not tally.chats:
            raise InvalidInput(
                f"{source.name} holds no messages ({import_report.counted(tally)}); is --format {source.format} right?",
                field="file",
            )
        from pipeline.ingest import history
        from pipeline.operations import lookup

        now = history.now(database, settings.tenant, tally)
        import_report.tell_of_languages(now, report)
        if not as_json:
            import_report.print_summary(tally, now, report)
        # one that is not there and yet known was forgotten
        gone = [each for each in tally.chats if each not in now]
        forgotten = [each for each in gone if lookup.seen_chat(database, settings.tenant, each)]
        import_report.tell_of_forgotten(forgotten, report)
        memory = None
        if wait:
            try:
                memory = await_memory(database, settings.tenant, list(tally.chats), console, shown=shown)
            except KeyboardInterrupt:
                report.say("The import is done, and the workers go on: see `backscroll status --watch`.")
                raise typer.Exit(INTERRUPTED) from None
    if as_json:
        rendering.print_json(import_report.as_json(source, tally, now, report, memory))
    elif now:
        print(f"\n{import_report.outlook(memory, memory_enabled=settings.session_memory_enabled)}")
    there = tally.new + tally.moved + tally.duplicates
    for where in tally.breaks_off:
        console.print(
            f"{source.name} is not whole ({where}): what came before is in, {there:,} messages, and something "
            "is missing. Export it again and import that: nothing is stored twice.",
            style="red",
            markup=False,
            soft_wrap=True,
        )
    if memory is not None and memory.dead:
        console.print(
            f"{memory.dead} pieces of work were given up ({memory.error}): see `backscroll status`",
            style="red",
            markup=False,
        )
    if tally.breaks_off or (memory is not None and memory.dead):
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)


def _stored_zone(database: Database, tenant_id: str, chat_id: str) -> str | None:
    from pipeline.store import chats

    with database.tenant(tenant_id) as connection:
        chat = chats.followed(connection, chat_id)
    return chat.time_zone if chat else None


class _Bar:
    """A bar of the bytes read, with the rate of messages and the time left; quiet unless it is shown."""

    def __init__(self, source: Source, description: str, console: Console, *, shown: bool) -> None:
        self._source = source
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not shown,
        )
        self._task: TaskID = self._progress.add_task(description, total=source.size, rate="")
        self._began = time.monotonic()

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def move(self, messages: int = 0) -> None:
        """Show how far the source has been read, and how many messages that were."""
        rate = messages / max(time.monotonic() - self._began, 1e-9)
        self._progress.update(
            self._task, completed=self._source.position, rate=f"{rate:,.0f} messages/s" if messages else ""
        )


def _check(source: Source, report: import_report.Report, shown: bool) -> None:
    """Read everything once. Raises `InvalidInput` when a line is broken."""
    with _Bar(source, "checking", report.console, shown=shown) as bar:
        for item in source.records():
            report.tell(source.name, item)
            bar.move()
    if report.broken:
        one = report.broken == 1
        raise InvalidInput(
            f"{source.name} has {report.broken:,} broken {'line' if one else 'lines'}, so that nothing was written "
            f"(--strict); mend {'it' if one else 'them'}, or leave --strict out to skip {'it' if one else 'them'}",
            field="file",
        )


def _import(
    source: Source, settings: Settings, database: Database, report: import_report.Report, shown: bool
) -> Tally:
    from pipeline.ingest import history
    from pipeline.ingest.history import Tally
    from pipeline.ingest.policy import Rules

    tally = Tally()
    settle = timedelta(seconds=settings.settle_seconds)
    rules = Rules.of(settings)
    events = history.store(database, settings.tenant, source.records(), rules, settle=settle)
    try:
        with (
            opened_hints(settings, report.console) as hints,
            _Bar(source, "importing", report.console, shown=shown) as bar,
        ):
            for event in events:
                report.tell(source.name, event)
                tally.add(event)
                _warn_of_times(event, report)
                bar.move(tally.new + tally.moved + tally.duplicates + tally.kept_out)
                if isinstance(event, history.Stored) and event.new:
                    hints.send("ingest")
                if isinstance(event, history.Stored) and event.moved:
                    hints.send("summarize")
    except import_report.TwoReadings:
        raise
    except (KeyboardInterrupt, BackscrollError) as error:
        stored = f"{tally.new:,} new messages are stored and stay" if tally.new else "Nothing new was stored"
        report.say(f"{stored}. To go on, run the same command again: nothing is stored twice.")
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        raise
    return tally


def _warn_of_times(event: Event, report: import_report.Report) -> None:
    from pipeline.ingest import history

    if not isinstance(event, history.Stored) or not event.new:
        return
    if event.ahead:
        report.notice(
            f"{event.chat.chat_id} has messages of the future, so they count as sent now: is the zone right? "
            "Import again with the --tz of the phone or the exporting computer: that puts them where they belong."
        )
    if event.overlapping:
        report.notice(
            f"{event.chat.chat_id} already holds messages of the same time that came another way, such as "
            "live from a bot: their ids and those of this import never match, so what was said then may now "
            "be there twice. Import only what is older than the first live message."
        )
