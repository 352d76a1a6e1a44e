"""Write who said a line, when, and to whom. Pure."""

from datetime import tzinfo

from pipeline.recall.wording import Wording, clock
from pipeline.text import fencing, truncate
from schemas.sessions import Message, RepliedTo

QUOTED_CHARS = 60
"""The part of an answered message that is quoted: enough to recognize it."""
MAX_NAME_CHARS = 60
"""Users choose their names, of any length."""


def display_name(name: str) -> str:
    """Put a name on one line of bounded length."""
    return truncate.shortened(fencing.name(name), MAX_NAME_CHARS)


def said_by(speaker: str, answered: RepliedTo | None, wording: Wording) -> str:
    """Name who speaks, and whom they answer.

    >>> from pipeline.recall.wording import wording_of
    >>> said_by("Ben", None, wording_of("english"))
    'Ben'
    >>> said_by("Ben", RepliedTo(12, "Ana", "does five suit?"), wording_of("english"))
    'Ben, to Ana (“does five suit?”)'
    """
    name = fencing.name(speaker)
    if answered is None:
        return name
    quoted = truncate.shortened(truncate.one_line(answered.said), QUOTED_CHARS)
    form = wording.quoting if quoted else wording.answering
    return form.format(speaker=name, answered=fencing.name(answered.speaker), said=quoted)


def head_of(message: Message, answered: RepliedTo | None, zone: tzinfo, wording: Wording) -> str:
    """Return the time and the speaker of a line, up to what was said."""
    return f"{clock(message.sent_at.astimezone(zone))} {said_by(message.speaker, answered, wording)}: "
