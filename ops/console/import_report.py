"""What `backscroll import` prints: broken lines, ambiguous dates, notices, and the summary."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from ops.console import rendering
from ops.console.command import repeated
from ops.exports import Export
from ops.source import ExportSource
from pipeline.platforms.records import Ambiguous, Broken, Notice, Times, Unread
from schemas.errors import InvalidInput

if TYPE_CHECKING:
    from pipeline.ingest.history import ChatTally, StoredChat, Tally
    from pipeline.operations import status

BROKEN_SHOWN = 20
CHATS_SHOWN = 50
KINDS_SHOWN = 20


def commands(ctx: typer.Context, exports: tuple[Export, ...]) -> str:
    """List the command that imports each of these exports."""
    lines = [
        f"  {repeated(ctx, path=export.path, format=None, chat=None, title=None)}"
        if export.path is not None
        else f"  {export.name} ({export.format}): unpack it and import it by itself"
        for export in exports
    ]
    return "\n".join(lines)


class TwoReadings(InvalidInput):
    """Dates can be read in two ways; the message shows both, and the command for each."""

    def __init__(self, name: str, ctx: typer.Context, ambiguous: Ambiguous) -> None:
        width = max(len(written) for written, *_ in ambiguous.examples)
        lines = [
            f"the dates of {name} can be read in two ways, and nothing was written:",
            *(
                f"  {written:{width}}  day first: {_day(one)}; month first: {_day(other)}"
                for written, one, other in ambiguous.examples
            ),
        ]
        for which, order in zip(("day", "month"), ambiguous.orders, strict=True):
            lines += [f"If they are {which} first:", f"  {repeated(ctx, date_order=order)}"]
        super().__init__("\n".join(lines), field="date_order")


def _day(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B %Y}"


class ImportReport:
    """Broken lines and notices, printed as they come, each notice once."""

    def __init__(self, console: Console, ctx: typer.Context) -> None:
        self.console = console
        self._ctx = ctx
        self.times: list[str] = []
        self.broken = 0
        self.unread = Counter[tuple[str, str, bool]]()
        # those that were printed
        self.shown: list[Broken] = []
        self.notices: list[str] = []

    def show(self, name: str, item: object) -> None:
        """Print what a user should see of an item, if anything. Raises `TwoReadings`."""
        match item:
            case Broken(where=where, reason=reason):
                self.broken += 1
                if self.broken <= BROKEN_SHOWN:
                    self.shown.append(item)
                    self.say(f"{name}, {where}: {reason}")
                elif self.broken == BROKEN_SHOWN + 1:
                    self.say("… further broken lines are only counted")
            case Unread(platform=platform, kind=kind, known=known):
                self.unread[platform, kind, known] += 1
            case Notice(text=text):
                self.notice(text)
            case Times(text=text) if text not in self.times:
                self.times.append(text)
            case Ambiguous():
                raise TwoReadings(name, self._ctx, item)

    def notice(self, text: str) -> None:
        """Print a notice about the whole source, once."""
        if text not in self.notices:
            self.notices.append(text)
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line for people."""
        self.console.print(rendering.plain(text), style="yellow", markup=False, soft_wrap=True)

    def notice_languages(self, now: Mapping[str, StoredChat]) -> None:
        """Say which chats seem to be in another language than theirs, and what to do."""
        for chat_id, chat in now.items():
            if looks := chat.detected_language:
                command = shlex.join(["backscroll", "chats", "language", chat_id, looks])
                self.notice(
                    f"{chat_id} looks {looks.capitalize()}: --language {looks}. Its words are searched as "
                    f"{chat.language.capitalize()} ones. To change that now: {command}"
                )

    def notice_forgotten(self, forgotten: Sequence[str]) -> None:
        """Say why forgotten chats do not come back, and what would import them again."""
        if forgotten:
            some = ", ".join(forgotten[:CHATS_SHOWN]) + (" …" if len(forgotten) > CHATS_SHOWN else "")
            self.notice(
                f"Forgotten for good, and kept out by design: {some}. What was sent until then never comes back under "
                "that id. Under another id it can be imported now: --chat ID, or the id in the file. To import a chat "
                "again, remove it instead of forgetting it: backscroll chats remove CHAT"
            )


def outlook(memory: status.Progress | None, *, memory_enabled: bool) -> str:
    """Say what was made of the messages, if that was waited for, or what happens next."""
    if memory is not None:
        return (
            f"{memory.messages:,} messages, {memory.embedded:,} of them embedded; {memory.closed:,} closed "
            f"sessions, {memory.summarized:,} of them summarized or too short for it"
        )
    if not memory_enabled:
        return (
            "Next: the workers place and embed what is new, and summarize nothing "
            "(BACKSCROLL_SESSION_MEMORY_ENABLED); see `backscroll status --watch`."
        )
    return "Next: the workers place, summarize and embed what is new; see `backscroll status --watch`."


def counted(tally: Tally) -> str:
    """Count what was imported, on one line."""
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in tally.skipped.most_common())
    skipped = f"skipped {tally.skipped.total():,}" + (f" ({reasons})" if reasons else "")
    # these are rare, so they are left out if zero
    reason = "kept out as forgotten, pruned or not to be remembered"
    kept_out = f"{reason} {tally.kept_out:,}, " if tally.kept_out else ""
    moved = f"moved {tally.moved:,}, " if tally.moved else ""
    unread = f", not read {tally.unread.total():,}" if tally.unread else ""
    cut = f"cut as too long {tally.left_out['cut']:,}, " if tally.left_out["cut"] else ""
    return (
        f"new {tally.new:,}, {cut}{moved}already there {tally.duplicates:,}, {kept_out}"
        f"broken {tally.left_out['unreadable']:,}, {skipped}{unread}"
    )


def not_read(counts: Counter[tuple[str, str, bool]]) -> list[str]:
    """Say what people wrote or sent that was not read, a line for each kind.

    >>> print(*not_read(Counter({("Slack", "list", True): 3, ("Slack", "huddle_v2", False): 1})), sep="\\n")
    Slack: 3 lists not read
    Slack: unknown kind huddle_v2: of 1 message only the text was read; please report the kind
    """
    lines = []
    for (platform, kind, known), count in counts.most_common(KINDS_SHOWN):
        items = f"{count:,} " + (kind if known else "message") + ("" if count == 1 else "s")
        unknown = f"unknown kind {kind}: of {items} only the text was read; please report the kind"
        lines.append(f"{platform}: " + (f"{items} not read" if known else unknown))
    return lines + ["… and further kinds: see --json"] * (len(counts) > KINDS_SHOWN)


def print_summary(tally: Tally, now: Mapping[str, StoredChat], report: ImportReport) -> None:
    """Print a table of the chats as stored now, how times were read, and the counts."""
    counts = ("new", *(("moved",) if tally.moved else ()), "already there")
    # of a chat that was kept out whole nothing is stored
    largest = sorted(
        (chat for chat in tally.chats.values() if chat.chat_id in now),
        key=lambda chat: -(chat.new + chat.moved + chat.duplicates),
    )
    cells = [
        (
            *(chat.chat_id, chat.title, chat.new, *((chat.moved,) if tally.moved else ()), chat.duplicates),
            *(rendering.moment(at, stored.time_zone) for at in (stored.first_at, stored.last_at)),
            stored.time_zone,
        )
        for chat in largest[:CHATS_SHOWN]
        for stored in [now[chat.chat_id]]
    ]
    if largest:
        headings = ("chat", "title", *counts, "from", "to", "time zone")
        rendering.out().print(rendering.rows(headings, cells, right=counts))
    if len(largest) > CHATS_SHOWN:
        print(f"… and {len(largest) - CHATS_SHOWN:,} more chats")
    if largest:
        print()
    for text in report.times:
        print(rendering.plain(f"Times: {text}."))
    print(counted(tally))


def as_json(
    source: ExportSource,
    tally: Tally,
    now: Mapping[str, StoredChat],
    report: ImportReport,
    memory: status.Progress | None,
) -> dict[str, Any]:
    return {
        "source": source.name,
        "format": source.format,
        "new": tally.new,
        "moved": tally.moved,
        "duplicates": tally.duplicates,
        "kept_out": tally.kept_out,
        "cut": tally.left_out["cut"],
        "broken": tally.left_out["unreadable"],
        "skipped": dict(tally.skipped),
        # what people wrote or sent and no parser reads: the exit code is 5 then
        "unread": [
            {"platform": platform, "kind": kind, "known": known, "count": count}
            for (platform, kind, known), count in tally.unread.most_common()
        ],
        "chats": [_chat_as_json(chat, now.get(chat.chat_id)) for chat in tally.chats.values()],
        # the first of them
        "broken_lines": [{"where": item.where, "reason": item.reason} for item in report.shown],
        # where the source is cut off: the exit code is 5 then
        "breaks_off": tally.breaks_off,
        "times": report.times,
        "notices": report.notices,
        # with --wait
        "memory": memory,
    }


def _chat_as_json(chat: ChatTally, stored: StoredChat | None) -> dict[str, Any]:
    counts = {name: value for name, value in asdict(chat).items() if name != "texts"}
    return counts | (asdict(stored) if stored else {})
