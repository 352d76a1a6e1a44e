"""Write who said a line, when, and to whom. Pure."""

from datetime import tzinfo

from pipeline.recall.choose.wording import Wording, clock
from pipeline.text import fencing, truncate
from schemas.sessions import Message, RepliedTo

QUOTED_CHARS = 60
"""The part of an answered message that is quoted: enough to recognize it."""
MAX_NAME_CHARS = 60
"""Users choose their names, of any length."""


def display_name(name: str) -> str:
    """Put a name on one line of bounded length."""
    return truncate.shortened(fencing.name(name), MAX_NAME_CHARS)


def said_by(
    speaker: str, answered: RepliedTo | None, wording: Wording, forwarded_from: str | None = None
) -> str:
    """Name who speaks, whose words they pass on (empty: nobody knows; None: nobody's), and whom they answer.

    >>> from pipeline.recall.choose.wording import wording_of
    >>> said_by("Ben", None, wording_of("english"))
    'Ben'
    >>> said_by("Ben", RepliedTo(12, "Ana", "does five suit?"), wording_of("english"))
    'Ben, to Ana (“does five suit?”)'
    >>> said_by("Ben", None, wording_of("english"), "Ana")
    'Ben, forwarded from Ana'
    """
    name = fencing.name(speaker)
    if forwarded_from is not None:
        author = display_name(forwarded_from)
        form = wording.forwarded_from if author else wording.forwarded
        name = form.format(speaker=name, author=author)
    if answered is None:
        return name
    quoted = truncate.shortened(truncate.one_line(answered.said), QUOTED_CHARS)
    form = wording.quoting if quoted else wording.answering
    return form.format(speaker=name, answered=fencing.name(answered.speaker), said=quoted)


def head_of(message: Message, answered: RepliedTo | None, zone: tzinfo, wording: Wording) -> str:
    """Return the time and the speaker of a line, up to what was said."""
    speaker = said_by(message.speaker, answered, wording, message.forwarded_from)
    return f"{clock(message.sent_at.astimezone(zone))} {speaker}: "
