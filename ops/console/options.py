"""The options that several commands have, named by their parameters, and how their values are read."""

import re
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import InvalidInput

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
TenantOption = Annotated[str | None, "Tenant (default: BACKSCROLL_TENANT)."]
DataDirOption = Annotated[Path | None, "Data folder of `backscroll up` (default: BACKSCROLL_DATA_DIR)."]
ChatArgument = Annotated[str, typer.Argument(metavar="CHAT", help="The chat's id, as in telegram:-100420.")]
ChatOption = Annotated[str | None, "Chat; needed where there are several."]
InChatOption = Annotated[str | None, "Only this chat (default: all)."]
SenderArgument = Annotated[str, "The sender's id, as messages carry it."]
SessionKeyOption = Annotated[str | None, "Only this thread."]
AlsoOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Another wording to search with: a translation, a guess; repeatable."),
]
HydeOption = Annotated[
    bool, "Where little is found, search with an answer that BACKSCROLL_HYDE_MODEL makes up."
]
AsOfOption = Annotated[str | None, "What was believed at this time, as in 2026-05-31 (default: now)."]
AfterOption = Annotated[str | None, "Continue after this id."]
UnseenOption = Annotated[bool, "Accept an id that was never seen, as of somebody still to come."]
DryRunOption = Annotated[bool, "Only count; change nothing."]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_DURATION = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*([a-z]+)")
_UNITS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}


def read_time(text: str | None, field: str, zone: tzinfo = UTC) -> datetime | None:
    """Read a date, which begins at midnight, or a date and time, in this zone unless it has an offset.

    Raises `InvalidInput` that names the option.

    >>> from zoneinfo import ZoneInfo
    >>> read_time("2026-07-31", "since", ZoneInfo("Europe/Lisbon")).isoformat()
    '2026-07-31T00:00:00+01:00'
    """
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        at = at if at.tzinfo else at.replace(tzinfo=zone)
        at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"--{field} {text} is no date or time such as 2026-01-31 or 2026-01-31T18:00+01:00", field=field
        ) from error
    return at


def read_pair(text: str) -> tuple[str, str]:
    """Read a name and a text. Raises `InvalidInput`.

    >>> read_pair("topic=boiler")
    ('topic', 'boiler')
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f"--metadata {text} must look like NAME=TEXT", field="metadata")
    return name, value


def read_seconds(text: str) -> float:
    """Read a duration as people write it, in seconds. Raises `InvalidInput`.

    >>> [read_seconds(text) for text in ("90s", "30 min", "2h", "7d")]
    [90.0, 1800.0, 7200.0, 604800.0]
    """
    parts = _DURATION.fullmatch(text.strip().lower())
    if parts is None or parts[2] not in _UNITS:
        raise InvalidInput(f"--older-than {text} is no duration such as 90s, 30min, 2h or 7d")
    return float(parts[1]) * _UNITS[parts[2]]
