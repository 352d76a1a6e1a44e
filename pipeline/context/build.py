"""Make a context out of what was found: which block comes first to the budget, and how they stand in the end."""

import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from pipeline.context import blocks, memory_block, packing
from pipeline.context.chat_turns import chat_messages
from pipeline.context.covered_sessions import shown_whole
from pipeline.context.explain import explanation
from pipeline.context.message_block import exchanged
from pipeline.context.packing import Section
from pipeline.context.prompt import Prompt, prompt
from pipeline.ranking.similarity import Scale
from pipeline.retrieval.found import Remembered
from pipeline.retrieval.gather import Found
from pipeline.retrieval.prepare import Asked
from pipeline.text import addressing, truncate
from pipeline.text.tokens import ESTIMATE, Count, Tokenizer, estimate_line
from schemas.context import Block, BlockKind, Context, ContextItem, Dropped, MemoryPreview
from schemas.errors import InvalidInput
from schemas.payloads import ContextQuery

ORDER: tuple[BlockKind, ...] = (
    "guardrails",
    "documents",
    "memories",
    "sessions",
    "exchanges",
    "related",
    "history",
    "question",
)

SUMMARIES: tuple[BlockKind, ...] = ("sessions", "related")
"""The blocks that tell what a session was about."""


class Page:
    """The blocks of a context under its budget: each takes what is left to it, whatever its place in the end."""

    def __init__(self, budget: int, count: Count = estimate_line, *, explained: bool = True) -> None:
        self.room = budget
        self.count = count
        self.explained = explained
        self.blocks: dict[BlockKind, Block] = {}
        self.dropped: list[Dropped] = []

    def put(self, block: Block) -> bool:
        """Take a block as it is; whether there is room for it."""
        if block.tokens > self.room:
            return False
        self.blocks[block.kind] = block
        self.room -= block.tokens
        return True

    def fill(self, section: Section, *, keep_free: int = 0) -> None:
        """Take what fits of a section, leaving so many tokens to what comes after it."""
        filled = packing.fill(section, self.room - keep_free, self.count, explained=self.explained)
        self.dropped.extend(filled.dropped)
        if filled.block is not None:
            self.put(filled.block)

    def items(self, kind: BlockKind) -> list[ContextItem]:
        """What one of the blocks shows."""
        return self.blocks[kind].items if kind in self.blocks else []

    def copy(self) -> "Page":
        """The same, to be filled otherwise."""
        made = Page(self.room, self.count, explained=self.explained)
        made.blocks, made.dropped = dict(self.blocks), list(self.dropped)
        return made

    def ordered(self) -> list[Block]:
        """The blocks as a reader gets them."""
        return [self.blocks[kind] for kind in ORDER if kind in self.blocks]


def question_block(query: ContextQuery, budget: int, tokenizer: Tokenizer = ESTIMATE) -> Block:
    """The question as it stands in the context.

    Raises `InvalidInput` for a budget that is too small for it alone, which is known before anything is searched.
    """
    block = packing.plain("question", Prompt(query=query.query).text, tokenizer.count)
    if block.tokens > budget:
        raise InvalidInput(
            f"budget_tokens is {budget}, but the question alone takes {block.tokens}: raise it or ask shorter",
            field="budget_tokens",
        )
    return block


def answer(
    query: ContextQuery, asked: Asked, found: Found, budget: int, tokenizer: Tokenizer = ESTIMATE
) -> Context:
    """The context, within `budget` tokens as `tokenizer` counts them.

    What must be there comes first to the budget (the question, the guardrails), then what is said anyway (recent
    talk), then what is known, and what was found takes the rest. Raises `InvalidInput` as `question_block` does.
    """
    parameters = asked.parameters
    count = tokenizer.count
    page = Page(budget, count, explained=query.explain)
    if found.hidden_memories:
        # no more than the number, and that whatever was asked: the rest is not for whoever is here
        detail = f"{found.hidden_memories:,} learned in other chats, where not everybody here was"
        page.dropped.append(Dropped(kind="memory", id="", reason="audience", detail=detail))
    degraded = list(asked.degraded)
    question_block(query, budget, tokenizer)
    guardrails = packing.plain("guardrails", blocks.GUARDRAILS, count)
    question = _prompt(query, asked, (budget - guardrails.tokens, budget), count)
    page.put(packing.plain("question", question.text, count))
    if not question.today:
        degraded.append("question: the budget has no room for today's date")
    if not page.put(guardrails):
        degraded.append("guardrails: the budget has no room for them")

    itself = _repeats(query.query, found)
    recent = [m for m in found.recent if m.content.strip() and not itself(m.content)]
    history_cap = min(parameters.history_tokens, int(budget * parameters.history_share))
    page.fill(blocks.history(recent, history_cap, asked.zone, count))
    scale = found.scale
    known = memory_block.choose(found.memories, parameters, scale, query.query)
    page.dropped.extend(known.dropped)
    memory_cap = int(budget * parameters.memory_share)
    page.fill(blocks.memories(known.statements, memory_cap, asked.asker))
    page.fill(blocks.documents(known.passages, memory_cap, query.query))
    page = _what_was_found(page, asked, found, scale, int(budget * parameters.session_share), itself)

    ordered = page.ordered()
    history_tokens = page.blocks["history"].tokens if "history" in page.blocks else 0
    return Context(
        context_id=f"ctx_{secrets.token_hex(8)}",
        text="\n\n".join(block.text for block in ordered),
        messages=chat_messages(ordered, recent, question, asked.zone, count, alternate=query.alternate_roles),
        blocks=ordered,
        used_tokens=sum(block.tokens for block in ordered),
        budget=budget,
        counted_by=tokenizer.name,
        degraded=degraded,
        fell_back=found.fell_back,
        explain=explanation(query, asked, found, ordered, page.dropped) if query.explain else None,
        memories=_previews(known.statements) if query.profile == "ask" else None,
        usedHistoryTokens=history_tokens if query.profile == "ask" else None,
    )


def _prompt(query: ContextQuery, asked: Asked, rooms: Sequence[int], count: Count) -> Prompt:
    """The question with as much of who asks and when as there is room for, in the first of these rooms that has any."""
    whole = prompt(query.query, asked.asker, asked.now.astimezone(asked.zone))
    alone = Prompt(query=query.query)
    forms = (whole, replace(whole, today=""), alone)
    fitting = (form for room in rooms for form in forms if count(form.text) <= room)
    return next(fitting, alone)


def _what_was_found(
    page: Page, asked: Asked, found: Found, scale: Scale, session_cap: int, itself: Callable[[str], bool]
) -> Page:
    """The page with sessions, the messages that matter, and related sessions.

    A session of which all stands there anyway is not summarized besides: its tokens go to others.
    """
    if found.retrieved is None:
        return page
    cards = [card for card, _ in found.sessions if card.summary and not found.fell_back]
    session_of = {str(hit.candidate.id): hit.candidate.session for hit in found.ranked} if cards else {}

    def whole(made: Page) -> set[int]:
        history, exchanges = made.items("history"), made.items("exchanges")
        return shown_whole(cards, found.recent, history, exchanges, session_of, itself)

    covered = whole(page)
    while True:
        made = _with_found(page.copy(), asked, found, scale, session_cap, itself, covered)
        summarized = {int(item.id) for kind in SUMMARIES for item in made.items(kind)}
        twice = summarized & whole(made)
        if not twice:
            break
        covered |= twice
    detail = "all that was said in it stands in the context"
    made.dropped += [
        Dropped(kind="session", id=str(session), reason="covered", detail=detail)
        for session in sorted(covered)
    ]
    return made


def _with_found(
    page: Page,
    asked: Asked,
    found: Found,
    scale: Scale,
    session_cap: int,
    itself: Callable[[str], bool],
    covered: Collection[int],
) -> Page:
    parameters, zone = asked.parameters, asked.zone
    summarized = [
        (card, score)
        for card, score in found.sessions
        if card.summary and not found.fell_back and card.id not in covered
    ]
    page.fill(blocks.sessions(summarized, parameters, session_cap, zone))
    shown = [card for card, _ in summarized[: parameters.sessions]]
    related = blocks.related(shown, summarized[parameters.sessions :], parameters, zone)
    reserve = packing.fill(related, page.room // 10, page.count).block
    entries = exchanged(
        found.looked_into,
        [hit.candidate for hit in found.ranked],
        {int(item.id): "the recent messages" for item in page.items("history")},
        parameters,
        zone,
        itself,
        scale,
    )
    section = Section(kind="exchanges", heading=_heading(page, found), entries=entries, cap=100_000)
    page.fill(section, keep_free=reserve.tokens if reserve else 0)
    page.fill(related)
    return page


def _repeats(question: str, found: Found) -> Callable[[str], bool]:
    """Tell whether a message is the question itself, also with a mention of the bot that was cut off."""
    bots = {hit.candidate.speaker for hit in found.ranked if hit.candidate.role == "assistant"}
    names = addressing.names_of(bots | {m.speaker for m in found.recent if m.role == "assistant"})
    asked = addressing.said(question, names)
    return lambda text: addressing.said(text, names) == asked


def _heading(page: Page, found: Found) -> str:
    """What the messages stand under: they may be those of the sessions above, or be there alone."""
    if found.fell_back:
        return blocks.ANYWHERE
    return blocks.EXCHANGES if "sessions" in page.blocks else blocks.EARLIER


def _previews(facts: Sequence[Remembered]) -> list[MemoryPreview]:
    return [
        MemoryPreview(id=m.id, source=m.source, preview=truncate.shortened(m.content, 120), score=m.score)
        for m in facts
    ]
