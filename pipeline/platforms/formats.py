"""The formats of exports, and how to detect one by the shape of its first characters."""

import tomllib
from importlib.resources import files
from typing import Literal, cast, get_args

from pipeline.platforms import (
    assistants,
    discord,
    google_chat,
    jsonlines,
    kakaotalk,
    line,
    matrix,
    mattermost,
    messenger,
    rocketchat,
    signal,
    telegram_export,
)
from pipeline.platforms.platform import HEAD_CHARS as HEAD_CHARS
from pipeline.platforms.platform import ExportFormat, Sample, Shape
from pipeline.platforms.whatsapp import whatsapp_export as whatsapp
from schemas.errors import InvalidInput

Format = Literal[
    "whatsapp", "telegram", "slack", "discord", "signal", "messenger", "instagram", "line", "kakaotalk",
    "element", "googlechat", "mattermost", "rocketchat", "chatgpt", "claude", "jsonl",
]  # fmt: skip
FORMATS: tuple[Format, ...] = get_args(Format)
_DECLARED = (
    *messenger.FORMATS,
    *assistants.FORMATS,
    *(module.FORMAT for module in (telegram_export, discord, matrix, google_chat, mattermost, rocketchat)),
    *(module.FORMAT for module in (line, kakaotalk, signal, whatsapp, jsonlines)),
)
BY_NAME: dict[str, ExportFormat] = {declared.name: declared for declared in _DECLARED}
"""Formats that are one file or several alike; Slack's export is a folder of many, see `slack_export.parse`."""

_CONVERT = "convert it to JSON Lines, a message on each line (`backscroll import --help`)"
_NAMED: list[tuple[Shape, str]] = [
    (Shape(**{name: value for name, value in look.items() if name not in ("what", "then")}), told)
    for look in tomllib.loads(files(__package__).joinpath("formats.toml").read_text(encoding="utf-8"))[
        "looks"
    ]
    for told in [f"{look['what']}; {look.get('then', _CONVERT)}"]
]


def reads(wanted: Format, detected: Format) -> bool:
    """Tell whether a file detected as one format may be read as another."""
    return wanted == detected or {wanted, detected} == {"messenger", "instagram"}


def detect(name: str, head: str) -> Format:
    """Detect the format of a text file by its name and first characters (some `HEAD_CHARS`, or all).

    Raises `InvalidInput` that says what the file looks like and what to do when it is none of them.
    """
    head = head.removeprefix("\ufeff").lstrip()
    if not head:
        raise _unusable(f"{name} is empty")
    if "\x00" in head:
        raise _unusable(f"{name} is no text; export the chat again, as text or JSON")
    sample = Sample(name, head)
    if (found := _fitting(sample, loose=False)) is not None:
        return found
    if (told := next((told for shape, told in _NAMED if shape.fits(sample)), None)) is not None:
        raise _unusable(f"{name} {told}")
    if (found := _fitting(sample, loose=True)) is not None:
        return found
    about = ""
    if sample.keys:
        path, keys = next(iter(sample.keys.items()))
        about = f" (JSON; {'its objects have' if path else 'it has'} {', '.join(sorted(keys)[:8])})"
    raise _unusable(
        f"{name} is none of the formats known{about[:300]}, which are {', '.join(FORMATS)}; if it is one, say which "
        f"with --format, otherwise {_CONVERT}"
    )


def _fitting(sample: Sample, *, loose: bool) -> Format | None:
    fitting = (
        declared.name
        for declared in _DECLARED
        if declared.loose == loose and any(shape.fits(sample) for shape in declared.looks)
    )
    return cast("Format | None", next(fitting, None))


def _unusable(reason: str) -> InvalidInput:
    return InvalidInput(reason, field="file")
