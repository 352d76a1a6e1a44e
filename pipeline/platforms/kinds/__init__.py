"""How each kind of item in a platform's export or events is treated; the tables are `PLATFORM.toml` here."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from pipeline.platforms import contents
from pipeline.platforms.records import MAX_KIND_CHARS, Event, Parsed, Skipped, Unread
from schemas.messages import ChatIn

_KEPT = ("text", "about")
TABLES = tuple(
    "telegram_updates telegram_bot telegram telegram_service slack_events slack discord_events discord whatsapp_cloud "
    "baileys matrix line signal messenger chatgpt claude".split()
)
"""The names of all tables, in the guide's order."""
_REASONS = {
    "service": "service message",
    "deleted": "deleted message",
    "withheld": "kind that {platform} does not export",
}
FATES = {
    "text": "kept",
    "about": "read with the message",
    "service": "counted: nobody's words",
    "deleted": "counted: deleted",
    "withheld": "counted: not exported",
}
"""What becomes of a kind, in the guide's words."""


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """A platform's table of kinds, by the platform's own names of them."""

    # its name as people write it
    platform: str
    # the table's first comment, which says what its names are
    about: str
    # `text`, `about` (no more than a detail), one of `_REASONS`, or the noun of what people sent and no parser reads
    # a name that ends with `*` stands for all that begin like it
    fates: Mapping[str, str]
    # the word in brackets before the text of some kinds
    words: Mapping[str, str]
    # the kind of attachment that some kinds are
    media: Mapping[str, str]

    def word(self, kind: str) -> str | None:
        """Return the word in brackets before the words of a kind, empty if they stand alone; None without one."""
        return None if (entry := self._entry(kind)) is None else self.words.get(entry)

    def fate(self, kind: str) -> str | None:
        """Return what becomes of a kind: its own entry's fate, or that of the longest beginning; None if it is new."""
        return None if (entry := self._entry(kind)) is None else self.fates[entry]

    def _entry(self, kind: str) -> str | None:
        if kind in self.fates:
            return kind
        begun = (name for name in self.fates if name.endswith("*") and kind.startswith(name[:-1]))
        return max(begun, key=len, default=None)

    def report(self, where: str, kind: str) -> Skipped | Unread | None:
        """Return what a parser yields for a thing of this kind besides its text; None if nothing.

        Of a kind that is not in the table (`Unread.known` is false) the parser keeps the text that it finds.
        """
        if (fate := self.fate(kind)) is None:
            return Unread(where=where, platform=self.platform, kind=kind[:MAX_KIND_CHARS], known=False)
        if fate in _REASONS:
            return Skipped(where=where, reason=_REASONS[fate].format(platform=self.platform))
        return None if fate in _KEPT else Unread(where=where, platform=self.platform, kind=fate)

    def by_name(self, where: str, kind: str) -> Skipped | Unread | None:
        """Return the same as `report`, with the platform's own name of the kind: events are counted by it."""
        noted = self.report(where, kind)
        if isinstance(noted, Skipped):
            return replace(noted, reason=kind[:MAX_KIND_CHARS])
        return noted and replace(noted, kind=kind[:MAX_KIND_CHARS])

    def events(
        self, where: str, kind: str, chat: ChatIn, read: Callable[[], Iterable[Event]]
    ) -> Iterator[Event]:
        """Yield the chat and a message of this kind, unless nobody wrote it, and what is reported of the kind."""
        noted = self.by_name(where, kind)
        if noted is not None:
            yield noted
        said = [] if isinstance(noted, Skipped) else list(read())
        if said and (noted is None or not isinstance(said[0], Skipped)):
            yield from (chat, *said)

    def unknown_in(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that are not in the table and may hold text; others only describe a message."""
        new = {field: value for field, value in raw.items() if self.fate(field) is None and value}
        return {field: value for field, value in new.items() if isinstance(value, str | list | dict)}

    def texts(self, raw: Mapping[str, Any]) -> list[str]:
        """Return what is written in the fields of a message that stand behind a word, and in those that are new."""
        known = [
            (word, raw[field], f"[{word}]") for field, word in self.words.items() if word and raw.get(field)
        ]
        new = [(field, value, "") for field, value in self.unknown_in(raw).items()]
        return [contents.labelled(label, _own(value), shown) for label, value, shown in (*known, *new)]

    def read(self, where: str, kind: str, message: Iterable[Parsed]) -> Iterator[Parsed]:
        """Yield what is reported of a thing of this kind, and its message unless nobody wrote one."""
        if (reported := self.report(where, kind)) is not None:
            yield reported
        if not isinstance(reported, Skipped):
            # an unread thing may have no text
            yield from (item for item in message if reported is None or not isinstance(item, Skipped))


def _own(value: Any) -> Any:
    """Return what is said in a service message without the message that it is about."""
    if not isinstance(value, dict):
        return value
    return {name: part for name, part in value.items() if not name.endswith("_message")}


@cache
def load(platform: str) -> Kinds:
    """Load the table of a platform, by the name of its file.

    >>> load("telegram").report("messages[3]", "unsupported")
    Skipped(where='messages[3]', reason='kind that Telegram does not export')
    """
    written = files(__name__).joinpath(f"{platform}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(written)
    comment = " ".join(line.lstrip("# ") for line in written.partition("\n\n")[0].splitlines())
    fates = {kind: fate for fate in (*_KEPT, *_REASONS) for kind in table.get(fate, ())}
    words, media = table["text"] if isinstance(table.get("text"), dict) else {}, table.get("media", {})
    fates |= dict.fromkeys(media, "text") | table.get("unread", {})
    return Kinds(platform=table["platform"], about=comment, fates=fates, words=words, media=media)
