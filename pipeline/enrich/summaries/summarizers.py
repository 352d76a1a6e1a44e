"""The summarizers that settings can name."""

from collections.abc import Sequence
from datetime import UTC, tzinfo

from pipeline.enrich.facts import extraction
from pipeline.enrich.protocols import NOWHERE, Source, Summarizer
from pipeline.enrich.summaries import extractive
from pipeline.enrich.summaries.language_model import LanguageModelSummarizer
from pipeline.enrich.summaries.prompts import ANSWER_TOKENS
from pipeline.llm.gateway import Gateway
from schemas.errors import SettingsError
from schemas.sessions import EXTRACTIVE, Message, Summary


class ExtractiveSummarizer:
    """Summarize with sentences picked from the transcript; never fails and calls no model."""

    model = EXTRACTIVE

    def summarize(
        self,
        messages: Sequence[Message],
        previous: Summary | None = None,
        *,
        time_zone: tzinfo = UTC,
        source: Source = NOWHERE,
    ) -> Summary:
        with extraction.turn(source):
            return extractive.summarize(
                messages, previous, earlier=source.earlier, time_zone=time_zone, language=source.language
            )


def make_summarizer(
    model: str = EXTRACTIVE,
    gateway: Gateway | None = None,
    *,
    timeout_seconds: float = 60,
    context_tokens: int = 16_000,
    answer_tokens: int = ANSWER_TOKENS,
) -> Summarizer:
    """Make the summarizer of this name; a language model's calls go through the gateway. Raises `SettingsError`."""
    if model == EXTRACTIVE:
        return ExtractiveSummarizer()
    if gateway is None:
        raise SettingsError(
            f"BACKSCROLL_SESSION_SUMMARY_MODEL={model} needs BACKSCROLL_OPENAI_BASE_URL or "
            f"BACKSCROLL_OPENAI_API_KEY; {EXTRACTIVE} needs neither."
        )
    return LanguageModelSummarizer(
        gateway, timeout_seconds=timeout_seconds, context_tokens=context_tokens, answer_tokens=answer_tokens
    )
