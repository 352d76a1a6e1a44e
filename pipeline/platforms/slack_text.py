"""Slack's markup as plain text."""

import html
import re
from collections.abc import Mapping

_ANGLED = re.compile(r"<([^<>\s][^<>]*)>")


def plain(text: str, names: Mapping[str, str]) -> str:
    """The text with people named, links written out and entities decoded. `names` is by user id.

    >>> plain("<@U1> see <https://a.b/c|the plan> &amp; <#C2|general> <!here>", {"U1": "Ana"})
    '@Ana see the plan (https://a.b/c) & #general @here'
    """
    return html.unescape(_ANGLED.sub(lambda found: _written_out(found[1], names), text))


def _written_out(inner: str, names: Mapping[str, str]) -> str:
    target, bar, label = inner.partition("|")
    match target[:1]:
        case "@":
            return f"@{names.get(target[1:]) or label or target[1:]}"
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            # <!here>, <!subteam^S1|@team>, <!date^1700000000^{date}|14 November>
            command = target[1:].partition("^")[0]
            return label if bar and label else f"@{command}"
    address = target.removeprefix("mailto:").removeprefix("tel:")
    return address if not label or label == address else f"{label} ({address})"
