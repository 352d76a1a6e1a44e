"""Write values for people on a terminal or a page, and a message's tool calls, as text."""

import json
import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from pipeline.text.fencing import visible
from schemas.signs import border

# What `visible` leaves of C0 and C1, without tab and line feed.
_CONTROL = re.compile("[\x0b-\x0d\x1c-\x1f\x85]")


def plain(text: str) -> str:
    r"""Remove the characters that would control a terminal or change the direction of text.

    >>> plain("red \x1b[31malert"), plain("to \u202e\u05d0\u05d1 \u2067Ann")
    ('red [31malert', 'to \u05d0\u05d1 Ann')
    """
    return _CONTROL.sub("", visible(text))


def preview(text: str, chars: int) -> str:
    """Put a text on one line and cut it to `chars` characters.

    >>> preview("The boiler\\nis fixed.", 12)
    'The boiler…'
    """
    line = " ".join(plain(text).split())
    return line if len(line) <= chars else line[: border(line, chars - 1)].rstrip() + "…"


def moment(at: datetime | None, zone: str | tzinfo = "UTC") -> str:
    """Format a time in a zone, to the minute; a dash for None.

    >>> from datetime import UTC
    >>> moment(datetime(2026, 7, 1, 22, 30, tzinfo=UTC), "Europe/Lisbon")
    '2026-07-01 23:30'
    """
    if at is None:
        return "–"
    return f"{at.astimezone(ZoneInfo(zone) if isinstance(zone, str) else zone):%Y-%m-%d %H:%M}"


def age(seconds: float | None) -> str:
    """Format a duration in its largest sensible unit; a dash for None.

    >>> [age(s) for s in (0.2, 59, 150, 7300, 200_000)]
    ['0 s', '59 s', '2 min', '2 h', '2 d']
    """
    if seconds is None:
        return "–"
    for unit, length, upto in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < upto:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds // 86_400)} d"


def size(count: float) -> str:
    """Format a number of bytes.

    >>> size(512), size(34_500_000)
    ('512 B', '34.5 MB')
    """
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{int(count)} B"


def dollars(amount: float | None) -> str:
    """Format an amount of money, small ones to a hundredth of a cent; a dash for None.

    >>> [dollars(amount) for amount in (0, 0.00056, 0.25, 1234.5, None)]
    ['$0.00', '$0.0006', '$0.25', '$1,234.50', '–']
    """
    if amount is None:
        return "–"
    return f"${amount:,.4f}" if 0 < amount < 0.1 else f"${amount:,.2f}"


def call_lines(metadata: Mapping[str, Any]) -> str:
    """Return the calls of `tool_calls`, as chat models answer with them, a line each; empty if there are none.

    >>> call_lines({"tool_calls": [{"function": {"name": "find_trains", "arguments": '{"to": "京都", "seats": 2}'}}]})
    '[find_trains(to=京都, seats=2)]'
    >>> call_lines({"tool_calls": [{"name": "now", "args": {}}]}), call_lines({"tool_calls": "none"})
    ('[now()]', '')
    """
    calls = metadata.get("tool_calls")
    lines = (_line(call) for call in calls if isinstance(call, dict)) if isinstance(calls, list) else ()
    return "\n".join(filter(None, lines))


def _line(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    call = function if isinstance(function, dict) else call
    name = call.get("name")
    arguments = next((call[key] for key in ("arguments", "args", "input") if key in call), None)
    return f"[{name}({_arguments(arguments)})]" if isinstance(name, str) and name else ""


def _arguments(arguments: Any) -> str:
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
        if isinstance(parsed, dict):
            return ", ".join(f"{name}={_value(value)}" for name, value in parsed.items())
    except (ValueError, RecursionError):
        # a model may write anything in place of JSON
        pass
    return "" if arguments is None else _value(arguments)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
