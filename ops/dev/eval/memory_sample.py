"""The sample of facts: three people over four months, what they say of themselves, and questions about it.

Chains of facts are divided at random, with all their questions, into those that limits may be chosen on (`tune`) and
those that are only judged on (`judge`). The answers of a language model to its sessions were recorded from the
transcripts only.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from ops.dev.eval.samples import read_talk
from pipeline.clients.protocols import Completion, Prompt
from pipeline.text.truncate import one_line
from schemas.messages import ChatIn, MessageIn

_LINE = re.compile(r"^\[(\d+)\] [\d-]{10} [\d:]{5} [^:]*: (.*)$")
_KNOWN = re.compile(r"^k(\d+): (.*) \(since [\d-]+\)$")
FOLDER = files("ops") / "dev" / "eval" / "memory_sample"
Part = Literal["tune", "judge"]


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PlantedFact(_Read):
    """A fact that the sample's people say."""

    id: str
    chat: str
    # external ids of the messages that say it, and of those that say it again
    evidence: tuple[str, ...]
    repeated: tuple[str, ...] = ()
    # pieces that any memory of it has to hold, in any case
    tokens: tuple[str, ...]
    # said in a direct chat only
    private: bool
    # the fact that it makes untrue
    replaces: str | None
    how: Literal["first", "change", "contradiction"]
    part: Part

    def is_in(self, content: str, sources: Collection[tuple[str, ...]]) -> bool:
        """Tell whether a memory that rests on messages `(chat, external id)` is of this fact."""
        rests = any((self.chat, id_) in sources for id_ in (*self.evidence, *self.repeated))
        return rests and all(token.lower() in content.lower() for token in self.tokens)


class MemoryQuestion(_Read):
    """A question with the facts that an answer rests on, and those that must not be shown."""

    question: str
    kind: Literal["now", "as_of", "changed", "leak", "unknown"]
    chat: str
    asker: str
    as_of: datetime | None
    expects: tuple[str, ...]
    forbids: tuple[str, ...]
    part: Part


@dataclass(frozen=True, kw_only=True)
class MemorySample:
    """All of it."""

    chats: list[tuple[ChatIn, list[MessageIn]]]
    facts: Mapping[str, PlantedFact]
    questions: list[MemoryQuestion]
    # pieces of what only the bot says
    claims: list[list[str]]
    # by external id of the first message of a session
    answers: Mapping[str, list[dict[str, Any]]]

    def may_show(self, learned_in: str, asked_in: str) -> bool:
        """Tell by the audience rule, apart from the shipped code, where what was learned in a chat may be shown."""
        kinds = {chat.chat_id: chat.kind for chat, _ in self.chats}
        people = {
            chat.chat_id: {message.sender_id for message in messages if message.role == "user"}
            for chat, messages in self.chats
        }
        heard = kinds[learned_in] != "direct" and people[asked_in] <= people[learned_in]
        return learned_in == asked_in or heard


def read() -> MemorySample:
    """Read the sample."""
    facts = _read("facts.json", list[PlantedFact])
    recorded = _read("answers.json", list[dict[str, Any]])
    return MemorySample(
        chats=read_talk(FOLDER / "chats.jsonl"),
        facts={fact.id: fact for fact in facts},
        questions=_read("questions.json", list[MemoryQuestion]),
        claims=[claim["tokens"] for claim in _read("bot_claims.json", list[dict[str, Any]])],
        answers={record["first"]: record["facts"] for record in recorded},
    )


def _read(name: str, kind: Any) -> Any:
    return TypeAdapter(kind).validate_json((FOLDER / name).read_text(encoding="utf-8"))


class RecordedModel:
    """Answers each transcript with what was recorded for it; messages and known facts by their numbers there."""

    model = "recorded"
    provider = "recorded"

    def __init__(self, sample: MemorySample) -> None:
        said = [message for _, messages in sample.chats for message in messages]
        self._words = {message.external_id: one_line(message.content) for message in said}
        # by the words of a session's first message
        self._answers = {self._words[first]: facts for first, facts in sample.answers.items()}

    def complete(self, prompt: Prompt, *, timeout_seconds: float) -> Completion:
        """Return the recorded answer; an empty one for what was not recorded."""
        lines = prompt.turns[0].splitlines()
        numbers = {match[2]: int(match[1]) for line in reversed(lines) if (match := _LINE.match(line))}
        known = {match[2]: f"k{match[1]}" for line in lines if (match := _KNOWN.match(line))}
        first = min(numbers, key=lambda words: numbers[words], default="")
        facts = [
            {
                **fact,
                "messages": [
                    numbers[self._words[id_]] for id_ in fact["messages"] if self._words.get(id_) in numbers
                ],
                "replaces": [known[content] for content in fact["replaces"] if content in known],
            }
            for fact in self._answers.get(first, [])
        ]
        text = json.dumps({"facts": facts}, ensure_ascii=False)
        return Completion(text=text, input_tokens=len(prompt.turns[0]) // 4, output_tokens=len(text) // 4)
