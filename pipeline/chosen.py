"""Choose what a context offers of the memories that were found: like enough, none twice, so many of each scope."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline import assemble
from pipeline.blocks import Remembered
from pipeline.likeness import Scale
from pipeline.profiles import Parameters
from schemas.context import Dropped, DropReason


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Statements and passages of documents, best first, and why the others are left out."""

    statements: list[Remembered] = field(default_factory=list)
    passages: list[Remembered] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)


def choose(found: Sequence[Remembered], parameters: Parameters, scale: Scale) -> Chosen:
    """What the parameters ask for of these memories, best first.

    A session's own memories are its history: they need not be like the question.
    """
    chosen = Chosen()
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
        most_of_scope = getattr(parameters, f"{memory.scope}_memories")
        bag = frozenset(memory.content.casefold().split())
        if memory.scope != "session" and similar is not None and similar < parameters.min_similarity:
            drop(memory, "below_minimum", f"similarity {similar:.2f}, below {parameters.min_similarity:g}")
        elif is_passage and assemble.is_said(bag, said, parameters.duplicate_jaccard):
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
