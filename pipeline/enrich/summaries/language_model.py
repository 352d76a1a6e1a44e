"""Summarize by a language model: in one call, or several for a session longer than the model's window."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial

from pipeline.clients.protocols import ChatModel, Prompt
from pipeline.enrich import model_calls
from pipeline.enrich.model_calls import ModelCaller
from pipeline.enrich.protocols import NOWHERE, Source
from pipeline.enrich.summaries import answers, prompts
from schemas.sessions import Message, Summary

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
        time_zone: tzinfo = UTC,
        source: Source = NOWHERE,
    ) -> Summary:
        """Summarize as `Summarizer` does; a session longer than the window in parts, which are then combined."""
        write = partial(prompts.summary_prompt, time_zone=time_zone, language=source.language)
        room = self._room_for_data()
        if previous is not None:
            previous = prompts.condensed(previous, room // 2)
            room = self._room_for_data(previous)
        runs = prompts.divided([prompts.clipped(message, room // 2) for message in messages], room)
        if len(runs) == 1:
            return self._ask(write(runs[0], previous), _texts(runs[0], previous), source)
        parts = [self._ask(write(run, None), _texts(run), source) for run in runs]
        return self.combine(parts, previous, time_zone=time_zone, source=source)

    def combine(
        self,
        parts: Sequence[Summary],
        previous: Summary | None = None,
        *,
        time_zone: tzinfo = UTC,
        source: Source = NOWHERE,
    ) -> Summary:
        """Summarize at least one summary, in order of time, as one; raises as `summarize` does.

        `previous` is the summary of everything before them.
        """
        room = self._room_for_data(previous)
        summaries = [prompts.condensed(part, room // 2) for part in parts]
        while len(summaries) > 1:
            groups = prompts.divided_parts(summaries, room)
            before = previous if len(groups) == 1 else None
            summaries = [self._combine(group, before, time_zone, source) for group in groups]
        return summaries[0]

    def _room_for_data(self, previous: Summary | None = None) -> int:
        return prompts.room_for_data(self._context_tokens, previous, answer_tokens=self._answer_tokens)

    def _combine(
        self, parts: Sequence[Summary], previous: Summary | None, time_zone: tzinfo, source: Source
    ) -> Summary:
        if len(parts) == 1:
            return parts[0]
        prompt = prompts.combining_prompt(parts, previous, time_zone=time_zone, language=source.language)
        texts = [part.search_text() for part in (*([previous] if previous else []), *parts)]
        return self._ask(prompt, texts, source)

    def _ask(self, prompt: Prompt, texts: Sequence[str], source: Source) -> Summary:
        """Ask for the summary of texts, and once more if the answer cannot be used. Raises `InvalidAnswer`."""
        prompt = replace(prompt, max_tokens=self._answer_tokens)
        return self._answer(prompt, partial(answers.read, texts=texts), purpose="summary", source=source)


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
        partial(answers.read, texts=_texts(messages)),
        model=client.model,
        purpose="doctor",
        context_tokens=context_tokens,
    )


def _texts(messages: Sequence[Message], previous: Summary | None = None) -> list[str]:
    """Return all texts that a summary of these messages may draw on."""
    return [*([previous.search_text()] if previous else []), *(f"{m.speaker}: {m.content}" for m in messages)]
