"""A language model for tests: answers as it is told, and counts its calls."""

import threading
import time
from collections.abc import Callable, Sequence

from pipeline.clients.protocols import Completion, Prompt
from pipeline.enrich.summaries.prompts import ANSWER_TOKENS
from pipeline.enrich.summaries.summarizers import LanguageModelSummarizer
from pipeline.llm.gateway import Gateway
from pipeline.store.connections.database import Database
from pipeline.text.sentences import sentences
from schemas.sessions import Summary

Reply = Completion | Exception | Callable[[Prompt], Completion]
ANSWER = Completion(text="They fixed the boiler.", input_tokens=1000, output_tokens=100)


class ScriptedModel:
    """Gives the replies in turn, the last one for ever."""

    def __init__(
        self,
        *replies: Reply,
        model: str = "gpt-4.1-mini",
        provider: str = "models.example:443",
        seconds: float = 0.0,
    ) -> None:
        self.model = model
        self.provider = provider
        self.prompts: list[Prompt] = []
        self.most_at_once = 0
        self._replies: Sequence[Reply] = replies or (ANSWER,)
        self._seconds = seconds
        self._at_once = 0
        self._lock = threading.Lock()

    @property
    def calls(self) -> int:
        """How often it was called."""
        return len(self.prompts)

    def complete(self, prompt: Prompt, *, timeout_seconds: float) -> Completion:
        with self._lock:
            reply = self._replies[min(len(self.prompts), len(self._replies) - 1)]
            self.prompts.append(prompt)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            time.sleep(min(self._seconds, timeout_seconds))
            if isinstance(reply, Exception):
                raise reply
            return reply if isinstance(reply, Completion) else reply(prompt)
        finally:
            with self._lock:
                self._at_once -= 1


def asking(text: str = "the boiler shows error E40", *, max_tokens: int = 100) -> Prompt:
    """A prompt."""
    return Prompt(system="Summarize.", turns=(text,), max_tokens=max_tokens)


def retold(prompt: Prompt) -> Completion:
    """Combine the summaries of a prompt: the beginning of each, one after the other."""
    parts = [
        Summary.model_validate_json(line) for line in prompt.turns[0].splitlines() if line.startswith("{")
    ]
    told = [sentence for part in parts for sentence in sentences(part.summary)[:2]]
    return Completion(text=Summary(summary=" ".join(told[:10])[:2000]).model_dump_json())


def summarizing(database: Database, model: ScriptedModel) -> LanguageModelSummarizer:
    """What summarizes with a model."""
    return LanguageModelSummarizer(
        Gateway(database, model), timeout_seconds=60, context_tokens=16_000, answer_tokens=ANSWER_TOKENS
    )
