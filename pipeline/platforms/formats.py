"""The formats of exports: the parser of each, and how to detect one by its first characters."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.resources import files
from typing import IO, Any, Literal, cast, get_args

from pipeline.platforms import discord as discord
from pipeline.platforms import jsonlines, messenger, signal
from pipeline.platforms import telegram_export as telegram
from pipeline.platforms.records import ImportOptions, Parsed
from pipeline.platforms.whatsapp import export as whatsapp
from pipeline.platforms.whatsapp import whatsapp_time
from schemas.errors import InvalidInput

Format = Literal["whatsapp", "telegram", "slack", "discord", "signal", "messenger", "instagram", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)

OF_BYTES: dict[Format, Callable[[IO[bytes], ImportOptions], Iterator[Parsed]]] = {
    "telegram": telegram.parse,
    "discord": discord.parse_export,
    "messenger": messenger.parse,
    "instagram": partial(messenger.parse, platform="instagram"),
}
OF_LINES: dict[Format, Callable[[Iterable[str], ImportOptions], Iterator[Parsed]]] = {
    "whatsapp": whatsapp.parse,
    "jsonl": jsonlines.parse,
    "signal": signal.parse,
}
"""Parsers of formats that are one file; Slack's export is a folder of many, see `slack.export.parse`."""

OF_SEVERAL: frozenset[Format] = frozenset(("signal", "messenger", "instagram"))
"""Formats that have files for each chat, which make up one export."""


def reads(wanted: Format, detected: Format) -> bool:
    """Tell whether a file detected as one format may be read as another."""
    return wanted == detected or {wanted, detected} == {"messenger", "instagram"}


HEAD_CHARS = 64 * 1024
"""Characters of a file's beginning that detection reads."""

_LINES = 100
_OURS = (".jsonl", ".ndjson")
_KEY = {
    key: re.compile(rf'"{key}"\s*:\s*[\[{{]')
    for key in ("guild", "channel", "messages", "chats", "personal_information")
}
_LOOKS = [
    (re.compile(look["head"]), re.compile(look.get("name", "")), look)
    for look in tomllib.loads(files(__package__).joinpath("formats.toml").read_text(encoding="utf-8"))[
        "looks"
    ]
]


def detect(name: str, head: str) -> Format:
    """Detect the format of a text file by its name and first characters (some `HEAD_CHARS`, or all).

    Raises `InvalidInput` that says what the file looks like and what to do when it is none of them.
    """
    head = head.removeprefix("\ufeff").lstrip()
    if not head:
        raise _unusable(f"{name} is empty")
    if "\x00" in head:
        raise _unusable(f"{name} is no text; export the chat again, as text or JSON")
    for in_head, in_name, look in _LOOKS:
        if in_head.search(head) and in_name.search(name):
            if "refused" in look:
                raise _unusable(f"{name} {look['refused']}")
            return cast("Format", look["format"])
    if head.startswith("{"):
        return _json_object(name, head)
    if any(whatsapp_time.read_start(line) for line in head.splitlines()[:_LINES]):
        return "whatsapp"
    if head.startswith("["):
        raise _unusable(
            f"{name} is a JSON list, perhaps one day of a Slack export; give the export's folder or zip"
        )
    if name.lower().endswith(_OURS):
        return "jsonl"
    raise _unusable(
        f"{name} is none of the formats known ({', '.join(FORMATS)}); if it is one, say which with --format"
    )


def _unusable(reason: str) -> InvalidInput:
    return InvalidInput(reason, field="file")


def detect_among(name: str, head: str) -> Format | None:
    """Detect the format of a file among others; None if it does not look like an export."""
    try:
        detected = detect(name, head)
    except InvalidInput:
        return None
    if detected == "jsonl" and not name.lower().endswith(_OURS):
        first = _first_line(head.removeprefix("\ufeff").lstrip())
        return detected if first is not None and {"chat_id", "content"} & first.keys() else None
    return detected


def _json_object(name: str, head: str) -> Format:
    first = _first_line(head)
    # our own lines are whole objects; a document on one line is recognized by its keys
    if first is not None and not ({"guild", "channel", "messages", "chats"} & first.keys()):
        return "jsonl"
    if _KEY["channel"].search(head) and (_KEY["guild"].search(head) or _KEY["messages"].search(head)):
        return "discord"
    if any(_KEY[key].search(head) for key in ("messages", "chats", "personal_information")):
        return "telegram"
    if name.lower().endswith(_OURS):
        return "jsonl"
    raise _unusable(
        f"{name} is JSON, but no export of Telegram Desktop or DiscordChatExporter and not our JSON Lines; "
        "if it is one, say which with --format"
    )


def _first_line(head: str) -> dict[str, Any] | None:
    try:
        value = json.loads(head.partition("\n")[0])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
