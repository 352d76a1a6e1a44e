"""Make the summarizer that a setting names."""

from collections.abc import Sequence
from datetime import UTC, tzinfo

from pipeline.clients.protocols import Summarizer
from pipeline.enrich import extractive
from schemas.errors import SettingsError
from schemas.sessions import Message, Summary


class ExtractiveSummarizer:
    """`extractive-v1`: sentences picked from the transcript; never fails and calls nobody."""

    model = "extractive-v1"

    def summarize(
        self, messages: Sequence[Message], previous: Summary | None = None, *, time_zone: tzinfo = UTC
    ) -> Summary:
        return extractive.summarize(messages, previous, time_zone=time_zone)


def make_summarizer(model: str = ExtractiveSummarizer.model) -> Summarizer:
    """Make the summarizer of this name. Raises `SettingsError`."""
    if model == ExtractiveSummarizer.model:
        return ExtractiveSummarizer()
    raise SettingsError(
        f"BACKSCROLL_SESSION_SUMMARY_MODEL={model} is not built in yet: set {ExtractiveSummarizer.model}."
    )
