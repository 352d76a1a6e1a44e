"""Judge what is learned from the sample of facts: how much, how true it is kept, and whom it is shown to.

Everything goes through the shipped path: messages accepted and placed, sessions read by the rules or by a language
model with recorded answers, memories embedded, contexts built for the questions.

Chains of facts are divided at random, with all their questions, into those that limits may be chosen on (`tune`) and
those that are only judged on (`judge`). The answers of a language model to its sessions were recorded from the
transcripts only.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter
from sqlalchemy import text

from ops.dev import shipped
from ops.dev.eval.asking import Row, means, recalled_text
from ops.dev.eval.samples import read_talk
from ops.dev.figures import Report, Say
from ops.dev.shipped import Shipped
from pipeline.clients.protocols import Completion, Prompt
from pipeline.enrich.facts.fact_model import LanguageModelExtractor
from pipeline.enrich.facts.kept_on_request import RequestExtractor
from pipeline.jobs.runner import Handler
from pipeline.llm.gateway import Gateway
from pipeline.memories.learn import Learning, learner
from pipeline.text.duplicates import says_the_same
from pipeline.text.truncate import one_line
from schemas.context import Context
from schemas.messages import ChatIn, MessageIn
from schemas.settings import Settings

_LINE = re.compile(r"^\[(\d+)\] [\d-]{10} [\d:]{5} [^:]*: (.*)$")
_KNOWN = re.compile(r"^k(\d+): (.*) \(since [\d-]+\)$")
SAMPLE_FOLDER = files("ops") / "dev" / "eval" / "memory_sample"
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


def read_memory_sample() -> MemorySample:
    facts = _read("facts.json", list[PlantedFact])
    recorded = _read("answers.json", list[dict[str, Any]])
    return MemorySample(
        chats=read_talk(SAMPLE_FOLDER / "chats.jsonl"),
        facts={fact.id: fact for fact in facts},
        questions=_read("questions.json", list[MemoryQuestion]),
        claims=[claim["tokens"] for claim in _read("bot_claims.json", list[dict[str, Any]])],
        answers={record["first"]: record["facts"] for record in recorded},
    )


def _read(name: str, kind: Any) -> Any:
    return TypeAdapter(kind).validate_json((SAMPLE_FOLDER / name).read_text(encoding="utf-8"))


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


BUDGET = 2000
PARTS = ("tune", "judge")
KINDS = ("now", "changed", "as_of")
"""Kinds of questions that somebody may know the answer of."""
CONTEXT_TOKENS = 16_000
RULES, MODEL = "rules", "recorded model"
"""The ways to learn."""
_STORED = text("""
    SELECT m.id, m.scope, m.user_id, m.content, m.learned_in, m.also_in, coalesce(m.said_at, m.created_at) AS said_at,
        coalesce((SELECT array_agg(ARRAY[e.chat_id, g.external_id]) FROM memory_evidence e
            JOIN messages g ON g.id = e.message_id WHERE e.memory_id = m.id), '{}') AS said,
        (SELECT coalesce(array_agg(superseded_by), '{}') FROM memory_supersessions s WHERE s.memory_id = m.id) AS newer
    FROM memories m WHERE m.type <> 'document' ORDER BY m.id
""")


@dataclass(frozen=True, kw_only=True)
class LearnedMemory:
    """A memory that was learned."""

    id: str
    owner: str
    content: str
    # the chats that say it
    chats: frozenset[str]
    said_at: datetime
    # the planted facts that it holds
    facts: frozenset[str]
    superseded_by: frozenset[str]


def judge(settings: Settings, say: Say) -> Report:
    """Return the figures of both ways to learn, each in a database of its own."""
    sample = read_memory_sample()
    found = {way: _judge_way(settings, sample, way, say) for way in (RULES, MODEL)}
    return Report(
        found=found,
        violations=[
            f"{way}: {counts['leaks']} shown where they may not be, {counts['from_bots']} learned from bots"
            for way, counts in found.items()
            if counts["leaks"] or counts["from_bots"]
        ],
    )


def _learner(backscroll: Shipped, sample: MemorySample, way: str) -> Handler:
    rules = RequestExtractor()
    if way == RULES:
        return learner(backscroll.database, Learning(extractor=rules, rules=rules))
    gateway = Gateway.of(backscroll.settings, backscroll.database, RecordedModel(sample))
    model = LanguageModelExtractor(gateway, timeout_seconds=60, context_tokens=CONTEXT_TOKENS)
    return learner(backscroll.database, Learning(extractor=model, rules=rules))


def _judge_way(settings: Settings, sample: MemorySample, way: str, say: Say) -> dict[str, Any]:
    with shipped.temporary(settings) as backscroll:
        backscroll.handlers["extract"] = _learner(backscroll, sample, way)
        for chat, messages in sample.chats:
            say(f"{way}: {chat.chat_id}")
            backscroll.accept(chat, messages)
            backscroll.run_all("ingest", "summarize")
        # as they come: a session after the other, by their end
        backscroll.run_all("extract", "embed", "extract", "embed")
        stored = _stored(backscroll, sample)
        leaks, rows = 0, defaultdict[tuple[str, str], list[Row]](list)
        for number, question in enumerate(sample.questions, 1):
            say(f"{way}: question {number} of {len(sample.questions)}")
            leaked, row = _ask(backscroll, sample, question, stored)
            leaks += leaked
            rows[question.part, question.kind].append(row)
    for fact in sample.facts.values():
        rows[fact.part, "facts"].append(_fact(fact, stored))
    found: dict[str, Any] = {
        "memories": len(stored),
        "from_bots": _from_bots(sample, stored.values()),
        "duplicates": _duplicates(stored.values()),
        "leaks": leaks,
    }
    for part in PARTS:
        found[part] = {"facts": len(rows[part, "facts"]), **means(rows[part, "facts"])}
        found[part] |= {
            kind: {"questions": len(rows[part, kind]), **means(rows[part, kind])} for kind in KINDS
        }
    return found


def _stored(backscroll: Shipped, sample: MemorySample) -> dict[str, LearnedMemory]:
    with backscroll.database.tenant(backscroll.tenant) as connection:
        rows = connection.execute(_STORED).all()
    facts = sample.facts.values()
    return {
        str(row.id): LearnedMemory(
            id=str(row.id),
            owner=f"{row.scope} {row.user_id or ''}",
            content=row.content,
            chats=frozenset({row.learned_in, *row.also_in}),
            said_at=row.said_at,
            facts=frozenset(fact.id for fact in facts if fact.is_in(row.content, set(map(tuple, row.said)))),
            superseded_by=frozenset(map(str, row.newer)),
        )
        for row in rows
    }


def _from_bots(sample: MemorySample, stored: Iterable[LearnedMemory]) -> int:
    """Count what only the bot has said and was learned all the same."""
    contents = [memory.content.lower() for memory in stored if not memory.facts]
    return sum(
        any(all(token.lower() in content for token in claim) for content in contents)
        for claim in sample.claims
    )


def _duplicates(stored: Iterable[LearnedMemory]) -> int:
    """Count pairs of current memories of one owner and chat that hold the same fact or say the same."""
    places: dict[tuple[str, str], list[LearnedMemory]] = defaultdict(list)
    for memory in stored:
        for chat in memory.chats if not memory.superseded_by else ():
            places[memory.owner, chat].append(memory)
    return sum(
        bool(one.facts & other.facts) or says_the_same(one.content, other.content)
        for memories in places.values()
        for place, one in enumerate(memories)
        for other in memories[:place]
    )


def _ask(
    backscroll: Shipped, sample: MemorySample, question: MemoryQuestion, stored: Mapping[str, LearnedMemory]
) -> tuple[int, Row]:
    """Return how much is shown that may not be, and whether the answer stands in contexts with and without memories."""
    options = {"user_id": question.asker, "as_of": question.as_of}
    context = backscroll.ask(question.chat, question.question, BUDGET, **options)
    without = backscroll.ask(question.chat, question.question, BUDGET, **options, parameters={"memories": 0})
    shown = [stored[item.id] for block in context.blocks for item in block.items if item.kind == "memory"]
    forbidden = frozenset().union(*(memory.facts for memory in shown)).intersection(question.forbids)
    # memories of a chat that may not be shown here, or of what was forbidden as private
    leaked = sum(not any(sample.may_show(c, question.chat) for c in memory.chats) for memory in shown)
    leaked += len(forbidden) if question.kind == "leak" else 0

    def answers(context: Context) -> bool:
        recalled = recalled_text(context).lower()
        tokens = (token for fact in question.expects for token in sample.facts[fact].tokens)
        return all(token.lower() in recalled for token in tokens)

    row = {"outdated shown": bool(forbidden)} if question.kind != "now" else {}
    if question.expects:
        row |= {"with memories": answers(context), "without memories": answers(without)}
    return leaked, row


def _fact(fact: PlantedFact, stored: Mapping[str, LearnedMemory]) -> Row:
    """Return whether a fact was learned, and what it replaces superseded, where both were."""
    newer, older = (
        [memory for memory in stored.values() if held in memory.facts] for held in (fact.id, fact.replaces)
    )
    learned = bool(newer)
    row = {"learned": learned, f"learned, {fact.how}": learned}
    if fact.private:
        row["learned, private"] = learned
    if newer and older:
        row["superseded rightly"] = _is_superseded(older, newer, stored)
    return row


def _is_superseded(
    older: Iterable[LearnedMemory], newer: Collection[LearnedMemory], stored: Mapping[str, LearnedMemory]
) -> bool:
    """Tell whether each memory of the older fact is superseded by one of the newer, or by what came after that."""
    by = {memory.id for memory in newer}
    since = min(memory.said_at for memory in newer)
    return all(
        memory.superseded_by & by or any(stored[other].said_at >= since for other in memory.superseded_by)
        for memory in older
        if not memory.facts.intersection(*(one.facts for one in newer))
    )
