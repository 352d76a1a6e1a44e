"""A language model whose answers to the sample's sessions were recorded: for the shipped path, without a server."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ops.dev.eval.memory_sample import MemorySample
from pipeline.clients.protocols import Completion, Prompt
from pipeline.text.truncate import one_line

_LINE = re.compile(r"^\[(\d+)\] [\d-]{10} [\d:]{5} [^:]*: (.*)$")
_KNOWN = re.compile(r"^k(\d+): (.*) \(since [\d-]+\)$")


class RecordedModel:
    """Answers each transcript with what was recorded for it; messages and known facts by their numbers there."""

    model = "recorded"
    provider = "recorded"

    def __init__(self, sample: MemorySample) -> None:
        # what was recorded by the words of a session's first message; its messages by their words
        self._answers: dict[str, list[dict[str, Any]]] = {}
        self._words: dict[str, str] = {}
        for chat, said in sample.chats:
            for message in said:
                words = one_line(message.content)
                self._words[message.external_id] = words
                if (recorded := sample.answers.get((chat.chat_id, message.external_id))) is not None:
                    self._answers[words] = recorded

    def complete(self, prompt: Prompt, *, timeout_seconds: float) -> Completion:
        """Return the recorded answer; an empty one for what was not recorded."""
        lines = prompt.turns[0].splitlines()
        numbers = {match[2]: int(match[1]) for line in reversed(lines) if (match := _LINE.match(line))}
        known = {match[2]: f"k{match[1]}" for line in lines if (match := _KNOWN.match(line))}
        first = min(numbers, key=lambda words: numbers[words], default="")
        facts = [self._answer(fact, numbers, known) for fact in self._answers.get(first, [])]
        text = json.dumps({"facts": facts}, ensure_ascii=False)
        return Completion(text=text, input_tokens=len(prompt.turns[0]) // 4, output_tokens=len(text) // 4)

    def _answer(
        self, fact: Mapping[str, Any], numbers: Mapping[str, int], known: Mapping[str, str]
    ) -> dict[str, Any]:
        said: Sequence[str] = fact["messages"]
        return {
            **fact,
            "messages": [numbers[self._words[each]] for each in said if self._words.get(each) in numbers],
            "replaces": [known[content] for content in fact["replaces"] if content in known],
        }
