"""Choose what a context offers of the memories that were found: like enough, none twice, so many of each scope."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.ranking.similarity import Scale
from pipeline.retrieval.found import Remembered
from pipeline.retrieval.profiles import Parameters
from pipeline.text import duplicates
from pipeline.text.sentences import terms, words
from schemas.context import Dropped, DropReason

# Where little was said there is hardly a scale; what is less alike than this has nothing in common, whatever
# the model: many put everything nearer.
LEAST_COSINE = 0.2
# Words for oneself, by language.
_SELF = (
    "i|me|my|mine|myself|i'm|i've|i'd|i'll",
    "ich|mich|mir|mein|meine|meinem|meinen|meiner|meins",
    "eu|mim|meu|minha|meus|minhas",
    "yo|mí|mi|mis|mío|mía",
    "je|j'ai|moi|mon|ma|mes",
    "io|mio|mia|miei|mie",
    "ik|mij|mijn",
)
_FIRST_PERSON = re.compile(rf"\b(?:{'|'.join(_SELF)})\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Statements and passages of documents, best first, and why the others are left out."""

    statements: list[Remembered] = field(default_factory=list)
    passages: list[Remembered] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)


def choose(found: Sequence[Remembered], parameters: Parameters, scale: Scale, question: str) -> Chosen:
    """What the parameters ask for of these memories, best first.

    A session's own memories are its history: they need not be like the question. Nor need an agent's character, and
    what is known of whoever asks about themselves.
    """
    chosen = Chosen()
    asked = set(terms(words(question)))
    of_asker = _FIRST_PERSON.search(question) is not None
    of_scope: Counter[str] = Counter()
    said: dict[int, list[frozenset[str]]] = {}

    def drop(memory: Remembered, reason: DropReason, detail: str) -> None:
        chosen.dropped.append(Dropped(kind="memory", id=memory.id, reason=reason, detail=detail))

    for memory in found:
        is_passage = memory.type == "document"
        kept, most, kind = (
            (chosen.passages, parameters.documents, "documents")
            if is_passage
            else (chosen.statements, parameters.memories, "memories")
        )
        similar = scale.similarity(memory.cosine)
        of_self = of_asker and memory.scope == "user" and not is_passage
        stays = memory.scope == "session" or memory.type == "persona" or of_self
        most_of_scope = getattr(parameters, f"{memory.scope}_memories")
        bag = frozenset(memory.content.casefold().split())
        if memory.scope != "session" and similar is not None and similar < parameters.min_similarity:
            drop(memory, "below_minimum", f"similarity {similar:.2f}, below {parameters.min_similarity:g}")
        elif not stays and not _is_related(memory, similar, parameters, asked):
            least = parameters.memory_similarity
            drop(
                memory,
                "below_minimum",
                f"no word in common with the question, and similarity below {least:g}",
            )
        elif is_passage and duplicates.is_said(bag, said, parameters.duplicate_jaccard):
            drop(memory, "duplicate", "says the same as a better passage")
        elif len(kept) >= most:
            drop(memory, "cap", f"at most {most} {kind}")
        elif of_scope[memory.scope] >= most_of_scope:
            drop(memory, "cap", f"at most {most_of_scope} {memory.scope}_memories")
        else:
            kept.append(memory)
            of_scope[memory.scope] += 1
            if is_passage:
                said.setdefault(len(bag), []).append(bag)
    return chosen


def _is_related(memory: Remembered, similar: float | None, parameters: Parameters, asked: set[str]) -> bool:
    """Whether a memory has to do with the question: by a word in common or by its meaning.

    One that has no vector yet is found by its words.
    """
    if not parameters.memory_similarity or memory.cosine is None:
        return memory.score > 0
    if not asked.isdisjoint(terms(words(memory.content))):
        return True
    return memory.cosine >= LEAST_COSINE and (similar is None or similar >= parameters.memory_similarity)
