"""The summarizer that needs no model: sentences picked from the transcript, and what stands out in it."""

from collections.abc import Sequence
from datetime import UTC, tzinfo

from schemas.sessions import Message
from schemas.summaries import Summary


def summarize(
    messages: Sequence[Message], previous: Summary | None = None, *, time_zone: tzinfo = UTC
) -> Summary:
    """The first sentences, for now."""
    text = " ".join(f"{m.speaker}: {m.content}" for m in messages[:5])[:1000] or "Nothing was said."
    return Summary(summary=text)
