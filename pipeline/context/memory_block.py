"""Choose memories and documents by similarity, without duplicates and within caps for each scope. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipeline.context.blocks import display_name
from pipeline.context.packing import Entry, Section
from pipeline.ranking.similarity import Scale
from pipeline.retrieval.memory_search import RetrievedMemory
from pipeline.retrieval.profiles import Parameters
from pipeline.text import duplicates, excerpt, truncate
from pipeline.text.fencing import CLOSE, OPEN, harmless, visible
from pipeline.text.sentences import terms, words
from pipeline.text.tokens import estimate, estimate_line
from schemas.context import ContextItem, Dropped, DropReason

MEMORIES = "What is known:"
DOCUMENTS = "Documents:"
# In a chat with few messages there is hardly a scale; a lower cosine than this means nothing in common with any model:
# many place everything closer.
MIN_COSINE = 0.2
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
    question: str,
    queries: Sequence[str] = (),
) -> ChosenMemories:
    """Choose from these memories, best first, what the parameters ask for.

    These need not be similar to the question: a session's own memories, which are its history, an agent's character,
    and what is known of an asker who asks about themselves.
    """
    chosen = ChosenMemories()
    asked = {term for query in (question, *queries) for term in terms(words(query))}
    about_asker = _FIRST_PERSON.search(question) is not None
    of_scope: Counter[str] = Counter()
    seen: dict[int, list[frozenset[str]]] = {}

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
        of_asker = about_asker and memory.scope == "user" and not is_passage
        always = memory.scope == "session" or memory.type == "persona" or of_asker
        most_of_scope = getattr(parameters, f"{memory.scope}_memories")
        bag = frozenset(memory.content.casefold().split())
        if memory.scope != "session" and similar is not None and similar < parameters.min_similarity:
            drop(memory, "below_minimum", f"similarity {similar:.2f}, below {parameters.min_similarity:g}")
        elif not always and not _is_related(memory, similar, parameters, asked):
            least = parameters.memory_similarity
            drop(
                memory,
                "below_minimum",
                f"no word in common with the question, and similarity below {least:g}",
            )
        elif is_passage and duplicates.is_said(bag, seen, parameters.duplicate_jaccard):
            drop(memory, "duplicate", "says the same as a better passage")
        elif len(kept) >= most:
            drop(memory, "cap", f"at most {most} {kind}")
        elif of_scope[memory.scope] >= most_of_scope:
            drop(memory, "cap", f"at most {most_of_scope} {memory.scope}_memories")
        else:
            kept.append(memory)
            of_scope[memory.scope] += 1
            if is_passage:
                seen.setdefault(len(bag), []).append(bag)
    return chosen


def _is_related(
    memory: RetrievedMemory, similar: float | None, parameters: Parameters, asked: set[str]
) -> bool:
    """Return whether a memory shares a word with the question or is similar to it.

    One that has no vector yet was found by its words.
    """
    if not parameters.memory_similarity or memory.cosine is None:
        return memory.score > 0
    if not asked.isdisjoint(terms(words(memory.content))):
        return True
    return memory.cosine >= MIN_COSINE and (similar is None or similar >= parameters.memory_similarity)


def memories(found: Sequence[RetrievedMemory], cap: int, asker: str | None = None) -> Section:
    """Statements about the organization, the agent and the asker, the best first."""
    user = f"user {display_name(asker)}" if asker else "user"
    entries = [
        _entry(
            number,
            memory,
            "memory",
            f"- [{user if memory.scope == 'user' else memory.scope}] {truncate.one_line(memory.content)}",
            f"{memory.type} of the {memory.scope}",
        )
        for number, memory in enumerate(found)
    ]
    return Section(kind="memories", heading=MEMORIES, entries=entries, cap=cap)


def documents(found: Sequence[RetrievedMemory], cap: int, asked: str) -> Section:
    """Chunks of the organization's documents, each cited as `Doc <id>/Chunk <n>`.

    Of a chunk that would take more than half of the block, only the part that the question is about.
    """
    half = (cap - estimate_line("\n".join((DOCUMENTS, OPEN, CLOSE)))) // 2 - 1
    entries = []
    for number, memory in enumerate(found):
        citation = f"- Doc {truncate.one_line(memory.document_id or '')}/Chunk {memory.chunk_index}: "
        part = excerpt.about(harmless(visible(memory.content)), asked, max(half - estimate(citation), 1))
        reason = "a passage of the organization's documents"
        entries.append(_entry(number, memory, "document", citation + part, reason))
    return Section(kind="documents", heading=DOCUMENTS, entries=entries, cap=cap)


def _entry(
    number: int, memory: RetrievedMemory, kind: Literal["memory", "document"], text: str, reason: str
) -> Entry:
    item = ContextItem(kind=kind, id=memory.id, text=text, score=memory.score, reason=reason)
    return Entry(item=item, place=(number,))
