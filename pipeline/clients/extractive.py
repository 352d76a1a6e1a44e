"""The summarizer that needs no model, behind the protocol that model-backed ones share."""

from collections.abc import Sequence
from datetime import UTC, tzinfo

from pipeline import extractive
from schemas.sessions import Message
from schemas.summaries import Summary


class ExtractiveSummarizer:
    """`extractive-v1`: sentences picked from the transcript; never fails and calls nobody."""

    model = "extractive-v1"

    def summarize(
        self, messages: Sequence[Message], previous: Summary | None = None, *, time_zone: tzinfo = UTC
    ) -> Summary:
        return extractive.summarize(messages, previous, time_zone=time_zone)
