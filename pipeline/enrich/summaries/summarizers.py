"""The summarizers that settings can name, and how they summarize a session part by part."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.clients.protocols import ChatModel, Prompt
from pipeline.enrich import model_calls
from pipeline.enrich.facts import fact_prompts
from pipeline.enrich.model_calls import ModelCaller
from pipeline.enrich.protocols import NOWHERE, Summarizer, SummarySource
from pipeline.enrich.summaries import extractive, prompts
from pipeline.enrich.summaries.prompts import ANSWER_TOKENS
from pipeline.llm.gateway import Gateway
from pipeline.store.connections.database import Database
from pipeline.store.messages import message_rows
from schemas.errors import Permanent, SettingsError
from schemas.sessions import EXTRACTIVE, Message, Summary


class ExtractiveSummarizer:
    """Summarize with sentences picked from the transcript; never fails and calls no model."""

    model = EXTRACTIVE

    def summarize(
        self,
        messages: Sequence[Message],
        previous: Summary | None = None,
        *,
        source: SummarySource = NOWHERE,
    ) -> Summary:
        with fact_prompts.extraction_turn(source):
            return extractive.summarize(
                messages,
                previous,
                earlier=source.earlier,
                time_zone=source.time_zone,
                language=source.language,
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


SAMPLE = (
    ("Zoë", "We rented the harbour hall for the concert on 5 June."),
    ("Jürgen", "Good. The hall costs 340 € and they want the money by the 15th of May."),
    ("Zoë", "I pay it tomorrow. Who brings the lights?"),
    ("Jürgen", "I bring the lights and two loudspeakers, the doors open at eight."),
)
"""A chat for trying a model."""


class LanguageModelSummarizer(ModelCaller):
    """Ask the model, repair an answer once, and refuse one that does not summarize the transcript."""

    def summarize(
        self,
        messages: Sequence[Message],
        previous: Summary | None = None,
        *,
        source: SummarySource = NOWHERE,
    ) -> Summary:
        """Summarize as `Summarizer` does; a session longer than the window in parts, which are then combined."""
        write = partial(prompts.summary_prompt, time_zone=source.time_zone, language=source.language)
        room = self._room_for_data()
        if previous is not None:
            previous = prompts.condensed(previous, room // 2)
            room = self._room_for_data(previous)
        runs = prompts.divided([prompts.clipped(message, room // 2) for message in messages], room)
        if len(runs) == 1:
            return self._ask(write(runs[0], previous), _texts(runs[0], previous), source)
        parts = [self._ask(write(run, None), _texts(run), source) for run in runs]
        return self.combine(parts, previous, source=source)

    def combine(
        self,
        parts: Sequence[Summary],
        previous: Summary | None = None,
        *,
        source: SummarySource = NOWHERE,
    ) -> Summary:
        """Summarize at least one summary, in order of time, as one; raises as `summarize` does.

        `previous` is the summary of everything before them.
        """
        room = self._room_for_data(previous)
        summaries = [prompts.condensed(part, room // 2) for part in parts]
        while len(summaries) > 1:
            groups = prompts.divided_parts(summaries, room)
            before = previous if len(groups) == 1 else None
            summaries = [self._combine(group, before, source) for group in groups]
        return summaries[0]

    def _room_for_data(self, previous: Summary | None = None) -> int:
        return prompts.room_for_data(self._context_tokens, previous, answer_tokens=self._answer_tokens)

    def _combine(self, parts: Sequence[Summary], previous: Summary | None, source: SummarySource) -> Summary:
        if len(parts) == 1:
            return parts[0]
        prompt = prompts.combining_prompt(
            parts, previous, time_zone=source.time_zone, language=source.language
        )
        texts = [part.search_text() for part in (*([previous] if previous else []), *parts)]
        return self._ask(prompt, texts, source)

    def _ask(self, prompt: Prompt, texts: Sequence[str], source: SummarySource) -> Summary:
        """Ask for the summary of texts, and once more if the answer cannot be used. Raises `InvalidAnswer`."""
        prompt = replace(prompt, max_tokens=self._answer_tokens)
        return self._answer(
            prompt, partial(prompts.read_answer, texts=texts), purpose="summary", source=source
        )


def try_model(
    client: ChatModel, *, timeout_seconds: float, context_tokens: int, answer_tokens: int
) -> Summary:
    """Ask a model to summarize a short chat, with the prompt for sessions but without limits or a budget.

    The call is not recorded. Raises as `Summarizer.summarize` does.
    """
    began = datetime(2026, 5, 1, 10, tzinfo=UTC)
    messages = [
        Message(
            id=number,
            chat_id="",
            external_id=str(number),
            sender_id=name,
            sender_name=name,
            role="user",
            content=content,
            sent_at=began + timedelta(minutes=number),
            position=0,
            session_key="",
            agent_id=None,
            metadata={},
        )
        for number, (name, content) in enumerate(SAMPLE)
    ]
    prompt = prompts.summary_prompt(messages, None, time_zone=UTC, language="english")
    return model_calls.ask(
        lambda _purpose, prompt: client.complete(prompt, timeout_seconds=timeout_seconds),
        replace(prompt, max_tokens=answer_tokens),
        partial(prompts.read_answer, texts=_texts(messages)),
        model=client.model,
        purpose="doctor",
        context_tokens=context_tokens,
    )


def _texts(messages: Sequence[Message], previous: Summary | None = None) -> list[str]:
    """Return all texts that a summary of these messages may draw on."""
    return [*([previous.search_text()] if previous else []), *(f"{m.speaker}: {m.content}" for m in messages)]


MESSAGES_AT_ONCE = 1000
"""Messages in one part of a longer session; each part is summarized with the summary of the parts before it."""

OVERLAP = timedelta(seconds=2)
"""Time that a rolling summary reads again: messages of the same second arrive in any order."""


def summarize_session(
    database: Database,
    row: Row[Any],
    client: Summarizer,
    source: SummarySource,
    version: int,
) -> Summary:
    """Summarize a session's messages part by part. Raises `Permanent` if there are none left."""
    with database.tenant(source.tenant_id) as connection:
        summary, start = _carried_on(connection, row, client.model, version)
    last: Message | None = None
    while True:
        with database.tenant(source.tenant_id) as connection:
            part = message_rows.in_range(
                connection,
                row.chat_id,
                row.session_key,
                start,
                row.ended_at,
                limit=MESSAGES_AT_ONCE,
                after=last.stamp if last else None,
            )
        if part:
            summary = client.summarize(part, summary, source=source)
            last = part[-1]
        if len(part) < MESSAGES_AT_ONCE:
            break
        source.before_call()
    if summary is None:
        raise Permanent("the session has no messages left")
    return summary


def stored_summary(row: Row[Any]) -> Summary | None:
    """Return the summary of a session's row, if any."""
    if not row.summary_text:
        return None
    return Summary(
        summary=row.summary_text,
        topics=row.topic_tags,
        decisions=row.decisions,
        open_questions=row.open_questions,
        action_items=row.action_items,
        entities=row.entities,
    )


def count_left(connection: Connection, row: Row[Any]) -> int:
    """Count a session's messages that are still stored; fewer than `message_count` if retention removed some."""
    return message_rows.count_in_range(connection, row.chat_id, row.session_key, row.started_at, row.ended_at)


def _carried_on(
    connection: Connection, row: Row[Any], model: str, version: int
) -> tuple[Summary | None, datetime]:
    """Return the stored summary, or None to read everything again, and the time from which messages are read.

    If retention has removed messages, the stored summary is all that is left of them, whoever made it: the new one
    continues it with the remaining messages.
    """
    stored = stored_summary(row)
    if stored is None:
        return None, row.started_at
    if _reads_on(connection, row, model, version):
        return stored, row.summary_ended_at - OVERLAP
    if count_left(connection, row) >= row.message_count:
        return None, row.started_at
    reads_on = row.status == "open" and row.summary_ended_at is not None
    return stored, row.summary_ended_at - OVERLAP if reads_on else row.started_at


def _reads_on(connection: Connection, row: Row[Any], model: str, version: int) -> bool:
    """Tell whether only messages since the stored summary need to be read.

    It must be by the same model, and not outdated. For a closed session only a language model continues it, and only if
    every new message is later than those it has read: extraction costs nothing, and is better over the whole session.
    """
    if row.summary_ended_at is None or row.summary_model != model or row.summary_revision is None:
        return False
    if row.status == "open":
        return True
    if model == EXTRACTIVE or row.summary_version != version:
        return False
    stored = message_rows.count_in_range(
        connection, row.chat_id, row.session_key, row.started_at, row.summary_ended_at
    )
    # fewer: retention has removed some, which the summary covers
    return stored <= int(row.summary_message_count)
