"""Summarize by a language model: one call, or several for what is longer than the model's window."""

from collections.abc import Sequence
from datetime import UTC, tzinfo
from functools import partial

from sqlalchemy import Connection

from pipeline.clients.protocols import Prompt
from pipeline.enrich import answers, model_calls, prompts
from pipeline.enrich.model_calls import ModelCaller, call_of
from pipeline.enrich.protocols import NOWHERE, Source
from schemas.sessions import Message, Summary


class LanguageModelSummarizer(ModelCaller):
    """Ask the model, repair an answer once, and refuse what is no summary of the transcript."""

    def summarize(
        self,
        messages: Sequence[Message],
        previous: Summary | None = None,
        *,
        time_zone: tzinfo = UTC,
        source: Source = NOWHERE,
    ) -> Summary:
        """Summarize as `Summarizer` says; what does not fit into the window in parts, then these together."""
        write = partial(prompts.summary_prompt, time_zone=time_zone, language=source.language)
        room = prompts.room_for_data(self._context_tokens)
        if previous is not None:
            previous = prompts.condensed(previous, room // 2)
            room = prompts.room_for_data(self._context_tokens, previous)
        runs = prompts.divided([prompts.clipped(message, room // 2) for message in messages], room)
        if len(runs) == 1:
            return self._ask(write(runs[0], previous), _said(runs[0], previous), source)
        parts = [self._ask(write(run, None), _said(run), source) for run in runs]
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

        `previous` is the summary of what was said before all of them.
        """
        room = prompts.room_for_data(self._context_tokens, previous)
        left = [prompts.condensed(part, room // 2) for part in parts]
        while len(left) > 1:
            groups = prompts.divided_parts(left, room)
            before = previous if len(groups) == 1 else None
            left = [self._combine(group, before, time_zone, source) for group in groups]
        return left[0]

    def forget_answers(self, connection: Connection, source: Source) -> None:
        """Delete the answers kept for a job, in the transaction that saves its result and before its other statements.

        The next try asks anew.
        """
        self._gateway.forget_answers(connection, call_of("summary", source))

    def _combine(
        self, parts: Sequence[Summary], previous: Summary | None, time_zone: tzinfo, source: Source
    ) -> Summary:
        if len(parts) == 1:
            return parts[0]
        prompt = prompts.combining_prompt(parts, previous, time_zone=time_zone, language=source.language)
        said = [part.search_text() for part in (*([previous] if previous else []), *parts)]
        return self._ask(prompt, said, source)

    def _ask(self, prompt: Prompt, said: Sequence[str], source: Source) -> Summary:
        """Ask for the summary of what was said, and once more if the answer cannot be used. Raises `InvalidAnswer`."""
        return model_calls.ask(
            self._gateway,
            prompt,
            partial(answers.read, said=said),
            purpose="summary",
            source=source,
            timeout_seconds=self._timeout_seconds,
        )


def _said(messages: Sequence[Message], previous: Summary | None = None) -> list[str]:
    """Return all texts that a summary of these messages may tell of."""
    return [*([previous.search_text()] if previous else []), *(f"{m.speaker}: {m.content}" for m in messages)]
