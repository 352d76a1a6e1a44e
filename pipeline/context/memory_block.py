"""Choose memories and documents by similarity, without duplicates and within caps for each scope. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from types import MappingProxyType
from typing import Literal

from pipeline.context.blocks import display_name
from pipeline.context.packing import Entry, Section, entry_of
from pipeline.context.wording import Wording
from pipeline.question.parse import Question
from pipeline.ranking.similarity import Scale
from pipeline.retrieval.memory_search import RetrievedMemory
from pipeline.retrieval.profiles import Parameters
from pipeline.text import duplicates, excerpt, truncate
from pipeline.text.duplicates import Bag
from pipeline.text.excerpt import Wanted
from pipeline.text.fencing import CLOSE, OPEN
from pipeline.text.sentences import words
from pipeline.text.tokens import Count, estimate_line
from schemas.context import ContextItem, Dropped, DropReason

# In a chat with few messages there is hardly a scale; a lower cosine than this means nothing in common with any model:
# many place everything closer.
MIN_COSINE = 0.2
# Of a statement or passage no fewer tokens are shown: a few words of it say nothing.
MIN_STATEMENT_TOKENS = 24
# First-person pronouns, by language.
_PRONOUNS = (
    "i|me|my|mine|myself|i'm|i've|i'd|i'll",
    "ich|mich|mir|mein|meine|meinem|meinen|meiner|meins",
    "eu|mim|meu|minha|meus|minhas",
    "yo|mí|mi|mis|mío|mía",
    "je|j'ai|moi|mon|ma|mes",
    "io|mio|mia|miei|mie",
    "ik|mij|mijn",
)
_FIRST_PERSON = re.compile(rf"\b(?:{'|'.join(_PRONOUNS)})\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ChosenMemories:
    """Statements and passages of documents, best first, and why the others are left out."""

    statements: list[RetrievedMemory] = field(default_factory=list)
    passages: list[RetrievedMemory] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)


def choose(
    found: Sequence[RetrievedMemory],
    parameters: Parameters,
    scale: Scale,
    question: Question,
    queries: Sequence[str] = (),
    repeated: Mapping[str, str] = MappingProxyType({}),
) -> ChosenMemories:
    """Choose from these memories, best first, what the parameters ask for.

    These need not be similar to the question: a session's own memories, which are its history, an agent's character,
    what is known of an asker who asks about themselves, and of people where a question asks for nothing beside them.
    `repeated` says why some repeat what the context shows.
    """
    chosen = ChosenMemories()
    # a name is in all that is known of somebody, and makes none of it more of an answer
    asked = Wanted.of("\n".join((question.content, *queries)), question.language)
    about_asker = _FIRST_PERSON.search(question.text) is not None
    about_people = not asked.terms
    of_scope: Counter[str] = Counter()
    seen: dict[bool, dict[int, list[Bag]]] = {True: {}, False: {}}

    def drop(memory: RetrievedMemory, reason: DropReason, detail: str) -> None:
        chosen.dropped.append(Dropped(kind="memory", id=memory.id, reason=reason, detail=detail))

    for memory in found:
        is_passage = memory.type == "document"
        kept, most, kind = (
            (chosen.passages, parameters.documents, "documents")
            if is_passage
            else (chosen.statements, parameters.memories, "memories")
        )
        similar = scale.similarity(memory.cosine)
        of_person = (about_asker and memory.of_asker) or (about_people and memory.is_named)
        always = memory.scope == "session" or memory.type == "persona" or (of_person and not is_passage)
        most_of_scope = getattr(parameters, f"{memory.scope}_memories")
        if memory.id in repeated:
            drop(memory, "duplicate", repeated[memory.id])
        elif memory.scope != "session" and similar is not None and similar < parameters.min_similarity:
            drop(memory, "below_minimum", f"similarity {similar:.2f}, below {parameters.min_similarity:g}")
        elif not always and not _is_related(memory, similar, parameters, asked):
            least = parameters.memory_similarity
            drop(
                memory,
                "below_minimum",
                f"no word in common with the question, and similarity below {least:g}",
            )
        elif duplicates.is_said(
            bag := bag_of(memory.content), seen[is_passage], parameters.duplicate_jaccard
        ):
            better = "passage" if is_passage else "memory"
            drop(memory, "duplicate", f"says the same as a better {better}")
        elif len(kept) >= most:
            drop(memory, "cap", f"at most {most} {kind}")
        elif of_scope[memory.scope] >= most_of_scope:
            drop(memory, "cap", f"at most {most_of_scope} {memory.scope}_memories")
        else:
            kept.append(memory)
            of_scope[memory.scope] += 1
            seen[is_passage].setdefault(len(bag.words), []).append(bag)
    return chosen


def repeats(
    statements: Sequence[RetrievedMemory],
    messages: Mapping[int, str],
    passages: Iterable[str],
    jaccard: float,
    bag: Callable[[str], Bag],
) -> dict[str, str]:
    """Return which of these statements, by id, repeat a message or passage that the context shows, and why.

    `messages` are the texts of those shown, by id; `bag` is `bag_of`, which may remember what it has read.
    """
    if not statements:
        return {}
    shown: dict[int, list[Bag]] = {}
    for read in map(bag, (*messages.values(), *passages)):
        shown.setdefault(len(read.words), []).append(read)
    why = {}
    for memory in statements:
        if not messages.keys().isdisjoint(memory.evidence):
            why[memory.id] = "a message that says it is shown"
        elif duplicates.is_said(bag(memory.content), shown, jaccard):
            why[memory.id] = "says the same as a message or passage that is shown"
    return why


def bag_of(text: str) -> Bag:
    """Return the words of a text, each once, as statements are compared by."""
    return Bag(text, frozenset(words(text.casefold())))


def _is_related(
    memory: RetrievedMemory, similar: float | None, parameters: Parameters, asked: Wanted
) -> bool:
    """Return whether a memory shares a word with the question, is similar to it or linked to what it names.

    One that has no vector yet was found by its words.
    """
    if memory.linked_to:
        return True
    if not parameters.memory_similarity or memory.cosine is None:
        return memory.score > 0
    if asked.held(memory.content):
        return True
    return memory.cosine >= MIN_COSINE and (similar is None or similar >= parameters.memory_similarity)


def memories(
    found: Sequence[RetrievedMemory],
    cap: int,
    asker: str | None,
    now: datetime,
    zone: tzinfo,
    wording: Wording,
    asked: Wanted,
    count: Count = estimate_line,
) -> Section:
    """Statements, the best first: about whom each is, since when it holds, and from which other chat it is.

    Of a statement that would take more than half of the block, only the part that is about what is `asked`.
    """
    half = _half(cap, wording.memories, count)
    entries = []
    for number, memory in enumerate(found):
        head = f"- [{', '.join(_origin(memory, asker, now, zone, wording))}] "
        reason = f"{memory.type} of the {memory.scope}"
        reason += f"; linked to {memory.linked_to}" if memory.linked_to else ""
        entries.append(_entry(number, memory, "memory", head, half, asked, reason, count))
    return Section(kind="memories", heading=wording.memories, entries=entries, cap=cap)


def _origin(
    memory: RetrievedMemory, asker: str | None, now: datetime, zone: tzinfo, wording: Wording
) -> Iterator[str]:
    """Yield about whom a memory is, when it holds, and from which other chat it is."""
    name = memory.about or (asker if memory.scope == "user" and memory.of_asker else "")
    yield display_name(name or "") or wording.scopes.get(memory.scope, memory.scope)
    since, until = memory.holds_from or memory.since, memory.holds_until
    first = wording.day(since.astimezone(zone)) if since else ""
    last = wording.day(until.astimezone(zone)) if until else ""
    if first and first == last:
        yield wording.on.format(day=first)
    else:
        if since:
            yield (wording.starting if since > now else wording.since).format(day=first)
        if last:
            yield wording.until.format(day=last)
    if memory.chat_title:
        yield display_name(memory.chat_title)


def documents(
    found: Sequence[RetrievedMemory], cap: int, asked: Wanted, wording: Wording, count: Count = estimate_line
) -> Section:
    """Chunks of documents of the organization and the asker, each cited as `Doc <id>/Chunk <n>`.

    Of a chunk that would take more than half of the block, only the part that the question is about.
    """
    half = _half(cap, wording.documents, count)
    entries = []
    for number, memory in enumerate(found):
        citation = f"- Doc {truncate.one_line(memory.document_id or '')}/Chunk {memory.chunk_index}: "
        reason = f"a passage of the {'asker' if memory.scope == 'user' else 'organization'}'s documents"
        entries.append(_entry(number, memory, "document", citation, half, asked, reason, count))
    return Section(kind="documents", heading=wording.documents, entries=entries, cap=cap)


def _half(cap: int, heading: str, count: Count) -> int:
    """Return half of the tokens that a block has for its entries."""
    return (cap - count("\n".join((heading, OPEN, CLOSE)))) // 2


def _entry(
    number: int,
    memory: RetrievedMemory,
    kind: Literal["memory", "document"],
    head: str,
    tokens: int,
    asked: Wanted,
    reason: str,
    count: Count,
) -> Entry:
    room = max(tokens - count(head), MIN_STATEMENT_TOKENS)
    text = head + excerpt.shown(memory.content, asked, room, count)
    item = ContextItem(kind=kind, id=memory.id, text=text, score=memory.score, reason=reason)
    return entry_of(item, (number,))
