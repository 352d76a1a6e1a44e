"""How each kind of item in a platform's export is treated; the tables are `PLATFORM.toml` here."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pipeline.platforms.records import Parsed, Skipped, Unread

MAX_KIND_CHARS = 60
_KEPT = ("text", "about")
_REASONS = {
    "service": "service message",
    "deleted": "deleted message",
    "withheld": "kind that {platform} does not export",
}


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """A platform's table of kinds, by the platform's own names of them."""

    # its name as people write it
    platform: str
    # `text`, `about` (no more than a detail), one of `_REASONS`, or the noun of what people sent and no parser reads
    fates: Mapping[str, str]
    # the word in brackets before the text of some kinds
    words: Mapping[str, str]

    def report(self, where: str, kind: str) -> Skipped | Unread | None:
        """Return what a parser yields for a thing of this kind besides its text; None if nothing.

        Of a kind that is not in the table (`Unread.known` is false) the parser keeps the text that it finds.
        """
        if (fate := self.fates.get(kind)) is None:
            return Unread(where=where, platform=self.platform, kind=kind[:MAX_KIND_CHARS], known=False)
        if fate in _REASONS:
            return Skipped(where=where, reason=_REASONS[fate].format(platform=self.platform))
        return None if fate in _KEPT else Unread(where=where, platform=self.platform, kind=fate)

    def by_name(self, where: str, kind: str) -> Skipped | Unread | None:
        """Return the same as `report`, with the platform's own name for the reason: events are counted by it."""
        report = self.report(where, kind)
        return Skipped(where=where, reason=kind) if isinstance(report, Skipped) else report

    def unknown_in(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that are not in the table and may hold text; others only describe a message."""
        new = {field: value for field, value in raw.items() if field not in self.fates and value}
        return {field: value for field, value in new.items() if isinstance(value, str | list | dict)}

    def read(self, where: str, kind: str, message: Iterable[Parsed]) -> Iterator[Parsed]:
        """Yield what is reported of a thing of this kind, and its message unless nobody wrote one."""
        if (reported := self.report(where, kind)) is not None:
            yield reported
        if not isinstance(reported, Skipped):
            # an unread thing may have no text
            yield from (item for item in message if reported is None or not isinstance(item, Skipped))


@cache
def load(platform: str) -> Kinds:
    """Load the table of a platform, by the name of its file.

    >>> load("telegram").report("messages[3]", "unsupported")
    Skipped(where='messages[3]', reason='kind that Telegram does not export')
    """
    table = tomllib.loads(files(__name__).joinpath(f"{platform}.toml").read_text(encoding="utf-8"))
    fates = {kind: fate for fate in (*_KEPT, *_REASONS) for kind in table.get(fate, ())}
    words = table["text"] if isinstance(table.get("text"), dict) else {}
    return Kinds(platform=table["platform"], fates=fates | table.get("unread", {}), words=words)
