"""Judge what is learned from the sample of facts: how much, how true it is kept, and whom it is shown to.

Everything goes through the shipped path: messages accepted and placed, sessions read by the rules or by a language
model with recorded answers, memories embedded, contexts built for the questions.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.table import Table
from sqlalchemy import text

from ops.dev import shipped
from ops.dev.eval import memory_sample
from ops.dev.eval.memory_sample import MemoryQuestion, MemorySample, PlantedFact
from ops.dev.eval.recorded_facts import RecordedModel
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.enrich.facts.fact_model import LanguageModelExtractor
from pipeline.enrich.facts.kept_on_request import RequestExtractor
from pipeline.jobs.runner import Handler
from pipeline.llm.gateway import Gateway
from pipeline.memories.learn import Learning, learner
from pipeline.text.duplicates import says_the_same
from schemas.context import Context
from schemas.settings import Settings

BUDGET = 2000
PARTS = ("tune", "judge")
CONTEXT_TOKENS = 16_000
_STORED = text("""
    SELECT m.id, m.scope, m.user_id, m.content, m.learned_in, m.also_in, coalesce(m.said_at, m.created_at) AS said_at,
        coalesce((SELECT array_agg(ARRAY[e.chat_id, g.external_id]) FROM memory_evidence e
            JOIN messages g ON g.id = e.message_id WHERE e.memory_id = m.id), '{}') AS said
    FROM memories m WHERE m.type <> 'document' ORDER BY m.id
""")
_EDGES = text("SELECT memory_id, superseded_by FROM memory_supersessions")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A memory that was learned."""

    id: str
    owner: str
    content: str
    # the chats that say it
    chats: frozenset[str]
    said_at: datetime
    # its messages, by chat and external id
    said: frozenset[tuple[str, str]]
    # the planted facts that it holds
    facts: frozenset[str]
    superseded_by: frozenset[str]


def judge(settings: Settings, say: Say) -> dict[str, Any]:
    """Return the figures of both ways to learn, each in a database of its own."""
    sample = memory_sample.read()
    ways: dict[str, Callable[[Shipped], Handler]] = {"rules": _by_rules, "recorded model": _by_model(sample)}
    return {name: _judge_way(settings, sample, way, name, say) for name, way in ways.items()}


def _by_rules(backscroll: Shipped) -> Handler:
    rules = RequestExtractor()
    return learner(backscroll.database, Learning(extractor=rules, rules=rules))


def _by_model(sample: MemorySample) -> Callable[[Shipped], Handler]:
    def handler(backscroll: Shipped) -> Handler:
        gateway = Gateway.of(backscroll.settings, backscroll.database, RecordedModel(sample))
        model = LanguageModelExtractor(gateway, timeout_seconds=60, context_tokens=CONTEXT_TOKENS)
        return learner(backscroll.database, Learning(extractor=model, rules=RequestExtractor()))

    return handler


def _judge_way(
    settings: Settings, sample: MemorySample, way: Callable[[Shipped], Handler], name: str, say: Say
) -> dict[str, Any]:
    with shipped.temporary(settings) as backscroll:
        backscroll.handlers["extract"] = way(backscroll)
        for chat, messages in sample.chats:
            say(f"{name}: {chat.chat_id}")
            backscroll.accept(chat, messages)
            backscroll.run_all("ingest", "summarize")
        # as they come: a session after the other, by their end
        backscroll.run_all("extract", "embed", "extract", "embed")
        stored = _stored(backscroll, sample)
        asked = []
        for number, question in enumerate(sample.questions, 1):
            say(f"{name}: question {number} of {len(sample.questions)}")
            asked.append(_ask(backscroll, sample, question, stored))
    return {
        "memories": len(stored),
        "from_bots": _from_bots(sample, stored.values()),
        "duplicates": _duplicates(stored.values()),
        "leaks": sum(each["leaked"] for each in asked),
        "parts": {part: _part(sample, stored, asked, part) for part in PARTS},
    }


def _stored(backscroll: Shipped, sample: MemorySample) -> dict[str, Stored]:
    with backscroll.database.tenant(backscroll.tenant) as connection:
        edges: dict[str, set[str]] = defaultdict(set)
        for older, newer in connection.execute(_EDGES):
            edges[str(older)].add(str(newer))
        rows = connection.execute(_STORED).all()
    found = {}
    for row in rows:
        said = frozenset((chat, external) for chat, external in row.said)
        found[str(row.id)] = Stored(
            id=str(row.id),
            owner=f"{row.scope} {row.user_id or ''}",
            content=row.content,
            chats=frozenset({row.learned_in, *row.also_in}),
            said_at=row.said_at,
            said=said,
            facts=frozenset(fact.id for fact in sample.facts.values() if fact.is_in(row.content, said)),
            superseded_by=frozenset(edges[str(row.id)]),
        )
    return found


def _from_bots(sample: MemorySample, stored: Iterable[Stored]) -> int:
    """Count what only the bot has said and was learned all the same."""
    contents = [each.content.lower() for each in stored if not each.facts]
    return sum(
        any(all(token.lower() in content for token in claim.tokens) for content in contents)
        for claim in sample.claims
    )


def _duplicates(stored: Iterable[Stored]) -> int:
    """Count pairs of current memories of one owner and chat that hold the same fact or say the same."""
    places: dict[tuple[str, str], list[Stored]] = defaultdict(list)
    for each in stored:
        for chat in each.chats if not each.superseded_by else ():
            places[each.owner, chat].append(each)
    return sum(
        bool(one.facts & other.facts) or says_the_same(one.content, other.content)
        for found in places.values()
        for place, one in enumerate(found)
        for other in found[:place]
    )


def _ask(
    backscroll: Shipped, sample: MemorySample, question: MemoryQuestion, stored: Mapping[str, Stored]
) -> dict[str, Any]:
    given: dict[str, Any] = {"user_id": question.asker}
    if question.as_of is not None:
        given["as_of"] = question.as_of
    context = backscroll.ask(question.chat, question.question, BUDGET, **given)
    without = backscroll.ask(question.chat, question.question, BUDGET, **given, parameters={"memories": 0})
    shown = [stored[item.id] for block in context.blocks for item in block.items if item.kind == "memory"]
    forbidden = frozenset().union(*(each.facts for each in shown)).intersection(question.forbids)
    expected = [sample.facts[each] for each in question.expects]
    return {
        "question": question,
        # memories of a chat that may not be shown here, or of what was forbidden as private
        "leaked": sum(not any(sample.may_show(c, question.chat) for c in each.chats) for each in shown)
        + (len(forbidden) if question.kind == "leak" else 0),
        "with": all(_holds(context, fact) for fact in expected),
        "without": all(_holds(without, fact) for fact in expected),
        "outdated": bool(forbidden) and question.kind in {"changed", "as_of"},
    }


def _holds(context: Context, fact: PlantedFact) -> bool:
    recalled = "\n".join(
        block.text for block in context.blocks if block.kind not in {"guardrails", "question"}
    )
    return all(token.lower() in recalled.lower() for token in fact.tokens)


def _part(
    sample: MemorySample, stored: Mapping[str, Stored], asked: Sequence[Mapping[str, Any]], part: str
) -> dict[str, Any]:
    """Return the figures of the facts and questions of one part."""
    planted = [fact for fact in sample.facts.values() if fact.part == part]
    by_fact: dict[str, list[Stored]] = defaultdict(list)
    for each in stored.values():
        for held in each.facts:
            by_fact[held].append(each)
    pairs = [
        (fact.id, fact.replaces)
        for fact in planted
        if fact.replaces and by_fact[fact.id] and by_fact[fact.replaces]
    ]
    superseded = [{"right": _is_superseded(by_fact[old], by_fact[new], stored)} for new, old in pairs]
    groups = {
        "all": planted,
        "private": [fact for fact in planted if fact.private],
        "change": [fact for fact in planted if fact.how == "change"],
        "contradiction": [fact for fact in planted if fact.how == "contradiction"],
    }
    questions = [each for each in asked if each["question"].part == part]
    return {
        "facts": {group: len(facts) for group, facts in groups.items()},
        "learned": {
            group: _share([{"is": bool(by_fact[fact.id])} for fact in facts], "is")
            for group, facts in groups.items()
        },
        "superseded": _share(superseded, "right"),
        "questions": {kind: _answers(questions, kind) for kind in ("now", "changed", "as_of")},
    }


def _is_superseded(older: Iterable[Stored], newer: Iterable[Stored], stored: Mapping[str, Stored]) -> bool:
    """Tell whether each memory of the older fact is superseded by one of the newer, or by what came after that."""
    by = {each.id for each in newer}
    since = min(each.said_at for each in newer)
    return all(
        each.superseded_by & by or any(stored[other].said_at >= since for other in each.superseded_by)
        for each in older
        if not each.facts.intersection(*(one.facts for one in newer))
    )


def _answers(questions: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    found = [each for each in questions if each["question"].kind == kind]
    asking = [each for each in found if each["question"].expects]
    return {
        "questions": len(found),
        "with_memories": _share(asking, "with"),
        "without_memories": _share(asking, "without"),
        "outdated_shown": _share(found, "outdated"),
    }


def _share(found: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return sum(each[name] for each in found) / len(found) if found else None


def tables(found: Mapping[str, Any]) -> Iterable[Table]:
    """Show the figures, a column for each way to learn."""
    table = Table(title="What is learned from the sample of facts; shares in %")
    table.add_column("")
    for way in found:
        table.add_column(way, justify="right")
    for name in ("memories", "from_bots", "duplicates", "leaks"):
        table.add_row(name, *(str(each[name]) for each in found.values()))
    for part in PARTS:
        table.add_section()
        parts = [each["parts"][part] for each in found.values()]
        for group, there in parts[0]["facts"].items():
            shares = [_percent(p["learned"][group]) for p in parts]
            table.add_row(f"{part}: learned, {group} ({there})", *shares)
        table.add_row(f"{part}: superseded rightly", *(_percent(p["superseded"]) for p in parts))
        for kind, asked in parts[0]["questions"].items():
            for name in ("with_memories", "without_memories", "outdated_shown"):
                cells = [_percent(p["questions"][kind][name]) for p in parts]
                table.add_row(f"{part}: {kind} ({asked['questions']}), {name.replace('_', ' ')}", *cells)
    yield table


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"
