"""Lay out the blocks of a context within its budget: which of them takes tokens first, and what makes way. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import cache, cached_property

from pipeline.context import blocks, memory_block, recent_talk
from pipeline.context.found_talk import FoundTalk
from pipeline.context.page import Page
from pipeline.context.posted_question import PostedQuestion
from pipeline.context.wording import Wording
from pipeline.retrieval.gather import RetrievalResult
from pipeline.retrieval.memory_search import RetrievedMemory
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.retrieval.profiles import Parameters
from pipeline.text.duplicates import Bag
from pipeline.text.excerpt import Wanted
from schemas.context import BlockKind
from schemas.payloads import ContextQuery
from schemas.sessions import Message

MESSAGES: tuple[BlockKind, ...] = ("history", "exchanges")
"""The blocks that show messages."""
# Recent talk with one of so many of the best messages has to do with the question.
BEST = 10


@dataclass(frozen=True)
class Layout:
    """What a page is filled from."""

    query: ContextQuery
    prepared: PreparedQuery
    found: RetrievalResult
    budget: int
    wording: Wording
    # the latest messages that may be shown, newest first
    recent: Sequence[Message]
    question: PostedQuestion
    # whether what is cut in recent talk may be shown with what is found
    moves: bool = True

    @property
    def parameters(self) -> Parameters:
        """The parameters of the request."""
        return self.prepared.request.parameters

    @property
    def zone(self) -> tzinfo:
        """The chat's time zone."""
        return self.prepared.parsed.zone

    @property
    def now(self) -> datetime:
        """When the question is asked."""
        return self.prepared.request.as_of or self.prepared.request.prelude.now

    @property
    def history_cap(self) -> int:
        """The most tokens of recent talk."""
        return min(self.parameters.history_tokens, int(self.budget * self.parameters.history_share))

    @cached_property
    def asked(self) -> Wanted:
        """What long messages are excerpted about: the question, with the words of recent talk that it leans on."""
        said = " ".join((self.query.query, *self.prepared.parsed.brief))
        return Wanted.of(said, self.prepared.request.chat.language)

    @cached_property
    def _bag_of(self) -> Callable[[str], Bag]:
        """Read the words of a text once, however often the page is filled."""
        return cache(memory_block.bag_of)

    @cached_property
    def talk(self) -> FoundTalk:
        """What was found of earlier talk."""
        return FoundTalk(self.prepared, self.found, self.wording, self.question, self.asked, self.moves)

    def fill(self, page: Page) -> Page:
        """Fill a page: first with recent talk as far as it matters, then with what is found, then with more of it.

        A message of recent talk that is cut there and found whole is shown where it is whole.
        """
        recent = self.recent[: self._claimed()]
        filled = self._filled(page, recent)
        more, whole = recent_talk.fitting(self.recent, len(recent), filled, self.history_cap)
        if more > len(recent) or whole:
            recent = self.recent[:more]
            filled = self._filled(page, recent, whole)
        moved = set[str]()
        while twice := _ids(filled, "history") & _ids(filled, "exchanges"):
            moved |= twice
            recent = [message for message in recent if str(message.id) not in moved]
            filled = self._filled(page, recent, whole)
        if moved <= _ids(filled, "exchanges"):
            return filled
        # what was to be shown there made way for something else
        return replace(self, moves=False).fill(page)

    def _claimed(self) -> int:
        """Return how many of the latest messages come before what is found."""
        parsed = self.prepared.parsed
        if not self.parameters.history_yields or self.found.retrieved is None:
            return len(self.recent)
        best = {hit.candidate.id for _, hit in self.talk.in_order[:BEST]}
        asked = Wanted.of(self.prepared.question.content, self.prepared.request.chat.language)
        leans = bool(parsed.brief)
        return recent_talk.claimed(self.recent, asked, best, leans=leans, now=self.now)

    def _filled(self, page: Page, recent: Sequence[Message], whole: Collection[int] = ()) -> Page:
        """Fill a page with the latest messages, and then with memories, documents, weeks, sessions and messages.

        A memory makes way for a message or passage that says the same, and the tokens go to others.
        """
        page = page.copy()
        page.fill(
            recent_talk.history(
                recent,
                self.history_cap,
                self.zone,
                self.wording,
                asked=self.asked,
                whole=whole,
                count=page.count,
            )
        )
        foreseen = self._foreseen(page)
        repeated = dict(foreseen)
        while True:
            filled, known = self._with_memories(page, repeated)
            filled = self.talk.fill(filled, int(self.budget * self.parameters.session_share))
            if again := self._repeats(known.statements, filled):
                repeated |= again
            elif foreseen and (kept := foreseen.keys() - self._repeats(self._statements(foreseen), filled)):
                # what was to repeat them is not shown
                repeated, foreseen = {each: repeated[each] for each in repeated.keys() - kept}, {}
            else:
                return filled

    def _foreseen(self, page: Page) -> dict[str, str]:
        """Return which memories the messages that the page will probably show repeat, and why.

        Most contexts have some, and are filled once instead of twice.
        """
        likely = {candidate.id: candidate.text for candidate in self.talk.likely(page.room // 2)}
        likely |= {int(item.id): self._contents[int(item.id)] for item in page.items("history")}
        repeated: dict[str, str] = {}
        while again := memory_block.repeats(
            self._chosen_memories(repeated).statements,
            likely,
            (),
            self.parameters.duplicate_jaccard,
            self._bag_of,
        ):
            repeated |= again
        return repeated

    def _repeats(self, statements: Sequence[RetrievedMemory], page: Page) -> dict[str, str]:
        """Return which statements repeat a message or passage of the page, and why."""
        messages = [int(item.id) for kind in MESSAGES for item in page.items(kind)]
        passages = {item.id for item in page.items("documents")}
        return memory_block.repeats(
            statements,
            {each: self._contents[each] for each in messages},
            (memory.content for memory in self.found.memories if memory.id in passages),
            self.parameters.duplicate_jaccard,
            self._bag_of,
        )

    def _statements(self, ids: Collection[str]) -> list[RetrievedMemory]:
        return [memory for memory in self.found.memories if memory.id in ids]

    @cached_property
    def _contents(self) -> dict[int, str]:
        """The text of each message that may be shown."""
        contents = {hit.candidate.id: hit.candidate.text for hit in self.found.ranked}
        return contents | {message.id: message.content for message in self.found.recent}

    @cached_property
    def _choices(self) -> dict[frozenset[tuple[str, str]], memory_block.ChosenMemories]:
        """What was chosen so far: a page is filled several times, and a memory is compared with the question once."""
        return {}

    def _chosen_memories(self, repeated: Mapping[str, str]) -> memory_block.ChosenMemories:
        key = frozenset(repeated.items())
        if key not in self._choices:
            self._choices[key] = memory_block.choose(
                self.found.memories,
                self.parameters,
                self.talk.scale,
                self.prepared.question,
                self.query.queries,
                repeated,
            )
        return self._choices[key]

    def _with_memories(
        self, page: Page, repeated: Mapping[str, str]
    ) -> tuple[Page, memory_block.ChosenMemories]:
        """Fill a copy of the page with memories, documents and weeks; return it with what was chosen."""
        parameters, filled, wording = self.parameters, page.copy(), self.wording
        known = self._chosen_memories(repeated)
        filled.dropped.extend(known.dropped)
        cap = int(self.budget * parameters.memory_share)
        keep_free = self.talk.best_alone(page)
        filled.fill(
            memory_block.memories(
                known.statements,
                cap,
                self.prepared.request.prelude.asker,
                self.now,
                self.zone,
                wording,
                self.asked,
                page.count,
            ),
            keep_free=keep_free,
        )
        documents = memory_block.documents(known.passages, cap, self.asked, wording, page.count)
        filled.fill(documents, keep_free=keep_free)
        rollup_cap = int(self.budget * parameters.session_share)
        rollups = blocks.rollups(self.found.weeks, parameters, rollup_cap, wording)
        filled.fill(rollups, keep_free=keep_free)
        return filled, known


def _ids(page: Page, kind: BlockKind) -> set[str]:
    return {item.id for item in page.items(kind)}
