"""Write into a line which message it answers. Pure."""

from pipeline.text import truncate
from schemas.sessions import RepliedTo

QUOTED_CHARS = 60
"""What is quoted of the message that a line answers: enough to know it by."""


def speaking(speaker: str, answered: RepliedTo | None) -> str:
    """Who speaks, and to what; to be followed by a colon.

    >>> speaking("Ben", None)
    'Ben'
    >>> speaking("Ben", RepliedTo(12, "Ana", "does five suit?"))
    'Ben, to Ana (“does five suit?”)'
    """
    name = truncate.one_line(speaker)
    if answered is None:
        return name
    quoted = truncate.shortened(truncate.one_line(answered.said), QUOTED_CHARS)
    return f"{name}, to {truncate.one_line(answered.speaker)}" + (f" (“{quoted}”)" if quoted else "")
