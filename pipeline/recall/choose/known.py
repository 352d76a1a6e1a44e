"""Choose the memories and document passages that are relevant to the question. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from pipeline.recall import relevance
from pipeline.recall.choose.lines import ChosenLine, Style, display_name
from pipeline.recall.find.retrieved import RetrievedMemory
from pipeline.recall.profiles import Parameters
from pipeline.recall.question.parse import Question
from pipeline.recall.relevance import By
from pipeline.text import duplicates, truncate
from pipeline.text.cues import answer_types
from pipeline.text.duplicates import Bag
from pipeline.text.excerpt import Wanted
from pipeline.text.sentences import words
from schemas.context import Dropped, DropReason

# A statement or passage takes at most the budget divided by `SHARES`, and is not cut below these tokens: a few words of
# a statement say nothing, and a short passage says most as a whole.
SHARES, LEAST, PASSAGE_LEAST = 4, 24, 128
ANSWERED = " → "
"""Separates a question from its answer, in every language."""
# Worth of memories shown whatever the question: a session's own, which are its history, an agent's persona, and those
# about an asker who asks about themselves.
ALWAYS_SHOWN_WORTH = 0.7


def probabilities(
    memories: Sequence[RetrievedMemory],
    question: Question,
    wordings: Sequence[Wanted],
    by: By,
    *,
    named: bool = True,
) -> dict[str, float]:
    """Return by id how probable it is that a memory answers the wording of the question that it fits best.

    `wordings` are the question's words without names, and those of its other queries. Memories are judged beside each
    other, and passages beside each other; that one is about whom the question names only counts if `named`.
    """
    about_asker = answer_types.speaks_of_asker(question.text, question.language)
    judged: dict[str, float] = {}
    for kind in (True, False):
        alike = [memory for memory in memories if (memory.type == "document") is kind]
        contents, cosines = [memory.content for memory in alike], [memory.cosine for memory in alike]
        about = [named and (memory.is_named or (about_asker and memory.of_asker)) for memory in alike]
        by_wording = [relevance.texts(contents, cosines, wanted, by, about) for wanted in wordings]
        judged |= {memory.id: float(max(values)) for memory, *values in zip(alike, *by_wording, strict=True)}
    return judged


def valued(
    memories: Sequence[RetrievedMemory],
    question: Question,
    judged: Mapping[str, float],
    *,
    is_open: bool,
) -> Iterator[tuple[RetrievedMemory, float]]:
    """Yield memories, best first, each with its worth: its probability, or what is always shown is worth.

    The question `is_open` if it asks for nothing but names: then what is known of these people is shown.
    """
    about_asker = answer_types.speaks_of_asker(question.text, question.language)
    for memory in memories:
        is_passage = memory.type == "document"
        of_person = (about_asker and memory.of_asker) or (is_open and memory.is_named)
        always = memory.scope == "session" or memory.type == "persona" or (of_person and not is_passage)
        yield memory, max(judged[memory.id], ALWAYS_SHOWN_WORTH if always or memory.linked_to else 0.0)


def choose(
    memories: Iterable[tuple[RetrievedMemory, float]],
    parameters: Parameters,
    limit: float,
    messages: Mapping[int, str],
    summaries: Sequence[str],
    write: "Writer",
) -> Iterator[ChosenLine | Dropped]:
    """Choose memories, given best first with what each is worth, and say why the others are left out.

    `messages` are the texts of the chosen messages, by id, `summaries` those of sessions: a memory that one of them
    states is not shown as well.
    """
    counts: Counter[str] = Counter()
    chosen: dict[int, list[Bag]] = {}

    @cache
    def told_bags() -> Mapping[int, Sequence[Bag]]:
        bags: dict[int, list[Bag]] = {}
        for bag in map(_bag_of, (*messages.values(), *summaries)):
            bags.setdefault(len(bag.words), []).append(bag)
        return bags

    def dropped(memory: RetrievedMemory, reason: DropReason, detail: str) -> Dropped:
        return Dropped(kind="memory", id=memory.id, reason=reason, detail=detail)

    for memory, value in memories:
        kind, most, plural = (
            ("document", parameters.documents, "documents")
            if memory.type == "document"
            else ("memory", parameters.memories, "memories")
        )
        most_of_scope = getattr(parameters, f"{memory.scope}_memories")
        bag = _bag_of(memory.content)
        if value < limit:
            yield dropped(memory, "below_minimum", f"worth {value:.2f}, below {limit:g}")
        elif kind == "memory" and not messages.keys().isdisjoint(memory.evidence):
            yield dropped(memory, "duplicate", "a message that says it is chosen")
        elif kind == "memory" and duplicates.is_repeated(bag, told_bags()):
            yield dropped(memory, "duplicate", "says the same as a message or summary that is chosen")
        elif duplicates.is_repeated(bag, chosen):
            yield dropped(memory, "duplicate", "says the same as a better memory or passage")
        elif counts[kind] >= most:
            yield dropped(memory, "cap", f"at most {most} {plural}")
        elif counts[memory.scope] >= most_of_scope:
            yield dropped(memory, "cap", f"at most {most_of_scope} {memory.scope}_memories")
        else:
            counts.update((kind, memory.scope))
            chosen.setdefault(len(bag.words), []).append(bag)
            yield write.line(memory, value, counts.total())


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Writes memories and passages as lines of a context."""

    # who asks, and when
    asker: str | None
    now: datetime
    style: Style

    def line(self, memory: RetrievedMemory, worth: float, place: int) -> ChosenLine:
        """Write a statement with its subject and when it holds, or a passage as `Doc <id>/Chunk <n>`.

        A passage of several lines is indented below its head, so that no line can pass for another memory.
        """
        content, is_passage = memory.content, memory.type == "document"
        if is_passage:
            head = f"- Doc {truncate.one_line(memory.document_id or '')}/Chunk {memory.chunk_index}: "
            reason = f"a passage of the {'asker' if memory.scope == 'user' else 'organization'}'s documents"
        else:
            head = f"- [{', '.join(self._origin(memory))}] "
            reason = f"{memory.type} of the {memory.scope}"
            if memory.type == "qa_turn":
                content = content.replace("\n", ANSWERED, 1)
        reason += f"; linked to {memory.linked_to}" if memory.linked_to else ""

        def write(tokens: int) -> str:
            excerpt = self.style.excerpt(head, content, tokens, least=LEAST, in_lines=is_passage)
            return f"{head.rstrip()}\n  {excerpt}" if is_passage and "\n" in excerpt else head + excerpt

        return ChosenLine(
            block="documents" if is_passage else "memories",
            kind="document" if is_passage else "memory",
            id=memory.id,
            score=memory.score,
            reason=reason,
            worth=worth,
            place=(place,),
            write=write,
            shares=SHARES,
            least=PASSAGE_LEAST if is_passage else LEAST,
            may_be_cut=True,
        )

    def _origin(self, memory: RetrievedMemory) -> Iterator[str]:
        """Yield the person a memory is about, when it holds, and the other chat it comes from."""
        wording, zone = self.style.wording, self.style.zone
        name = memory.about or (self.asker if memory.scope == "user" and memory.of_asker else "")
        yield display_name(name or "") or wording.scopes.get(memory.scope, memory.scope)
        since, until = memory.holds_from or memory.since, memory.holds_until
        first = wording.day(since.astimezone(zone)) if since else ""
        last = wording.day(until.astimezone(zone)) if until else ""
        if first and first == last:
            yield wording.on.format(day=first)
        else:
            if since:
                yield (wording.starting if since > self.now else wording.since).format(day=first)
            if last:
                yield wording.until.format(day=last)
        if memory.chat_title:
            yield display_name(memory.chat_title)


def _bag_of(text: str) -> Bag:
    """Return the distinct words of a text, for comparing statements."""
    return Bag(text, frozenset(words(text.casefold())))
