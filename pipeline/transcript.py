"""Messages as one text for a language model: who said what when, fenced, and never above a token limit."""

import re
from collections.abc import Sequence
from datetime import UTC, tzinfo

from pipeline.tokens import estimate
from schemas.sessions import Message

FENCE = "transcript"
MIN_LIMIT = 100
"""Tokens below which not even one message would be readable."""

_HEAD_SHARE = 0.4  # of a transcript that is too long; the end says what came out of it
_LONGEST_SHARE = 0.25  # of the limit, for one message
_NAME_CHARS = 60
_FENCE_LIKE = re.compile(rf"<(?=\s*/?\s*{FENCE})", re.IGNORECASE)


def render(messages: Sequence[Message], *, limit: int, time_zone: tzinfo = UTC) -> str:
    """The messages, in the order given, as text of at most `limit` tokens by `pipeline.tokens`.

    Between `<transcript>` and `</transcript>`: a line with the date where it changes, and a line
    `18:04 Ann: text` for each message; further lines of one message are indented, so that no message can
    pretend to be another, and a fence inside a message is made harmless. A long message keeps its beginning;
    where all are too long together, messages in the middle give way to a line that counts them.
    Raises `ValueError` for a limit below `MIN_LIMIT`.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"a transcript needs a limit of at least {MIN_LIMIT} tokens, not {limit}")
    days = [f"{message.sent_at.astimezone(time_zone):%Y-%m-%d, %A}" for message in messages]
    lines = [_line(message, int(limit * _LONGEST_SHARE), time_zone) for message in messages]
    whole = _fenced(_with_days(days, lines))
    if estimate(whole) <= limit:
        return whole
    costs = [
        estimate(line) + (estimate(days[i]) if i == 0 or days[i] != days[i - 1] else 0)
        for i, line in enumerate(lines)
    ]
    # The first line after the gap has its day above it, too.
    room = limit - estimate(_fenced([_left_out(len(lines)), max(days, key=estimate)]))
    head, spent = 0, 0
    while head < len(lines) and spent + costs[head] <= room * _HEAD_SHARE:
        spent += costs[head]
        head += 1
    tail = len(lines)
    while tail > head and spent + costs[tail - 1] <= room:
        tail -= 1
        spent += costs[tail]
    return _fenced(
        [
            *_with_days(days[:head], lines[:head]),
            _left_out(tail - head),
            *_with_days(days[tail:], lines[tail:]),
        ]
    )


def _line(message: Message, limit: int, time_zone: tzinfo) -> str:
    name = " ".join(message.speaker.split())[:_NAME_CHARS]
    text = "\n  ".join(line for line in message.content.splitlines() if line.strip())
    prefix = f"{message.sent_at.astimezone(time_zone):%H:%M} {_FENCE_LIKE.sub('(', name)}: "
    return prefix + _shortened(_FENCE_LIKE.sub("(", text), limit - estimate(prefix))


def _shortened(text: str, limit: int) -> str:
    """The beginning of the text, at most `limit` tokens with the mark that something is missing."""
    if estimate(text) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate(text[:middle]) < limit:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + " …"


def _with_days(days: Sequence[str], lines: Sequence[str]) -> list[str]:
    dated: list[str] = []
    for index, (day, line) in enumerate(zip(days, lines, strict=True)):
        if index == 0 or day != days[index - 1]:
            dated.append(day)
        dated.append(line)
    return dated


def _left_out(count: int) -> str:
    return f"[… {count} messages left out …]"


def _fenced(lines: Sequence[str]) -> str:
    return "\n".join([f"<{FENCE}>", *lines, f"</{FENCE}>"])
