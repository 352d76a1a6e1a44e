"""The data set's own summaries of its sessions, as a language model's answers."""

from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo

from pipeline.enrich import extractive
from pipeline.enrich.protocols import NOWHERE, Source
from pipeline.text.truncate import shortened
from schemas.sessions import Message, Summary

MAX_CHARS = 4000
"""Of a summary."""


class ReferenceSummarizer:
    """Summarize with the summaries that come with LoCoMo; topics, decisions and the like are extracted."""

    model = "reference"

    def __init__(self, summaries: Mapping[str, Mapping[str, str]]) -> None:
        """`summaries` are those of each chat by their session's number, as in the external id `D3:7`."""
        self._summaries = summaries

    def summarize(
        self,
        messages: Sequence[Message],
        previous: Summary | None = None,
        *,
        time_zone: tzinfo = UTC,
        source: Source = NOWHERE,
    ) -> Summary:
        """Join the summaries of the set's sessions that the messages are from."""
        extracted = extractive.summarize(
            messages, previous, earlier=source.earlier, time_zone=time_zone, language=source.language
        )
        of_chat = self._summaries.get(messages[0].chat_id, {})
        numbers = dict.fromkeys(m.external_id.partition(":")[0].removeprefix("D") for m in messages)
        told = " ".join(of_chat[number] for number in numbers if number in of_chat)
        return extracted.model_copy(update={"summary": shortened(told, MAX_CHARS)}) if told else extracted
