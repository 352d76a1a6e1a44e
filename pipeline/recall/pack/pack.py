"""Build a context from ranked results: its blocks within the budget, its messages for a chat model, the response."""

import secrets
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import groupby
from typing import get_args

from pipeline.recall import relevance
from pipeline.recall.choose.choose import choose
from pipeline.recall.choose.lines import ChosenLine, Frame, Wording, display_name, head_of, wording_of
from pipeline.recall.choose.talk import PostedQuestion
from pipeline.recall.gather import Ranked
from pipeline.recall.pack.explain import explanation
from pipeline.recall.request import Request
from pipeline.text import fencing, truncate
from pipeline.text.fencing import CLOSE, OPEN, harmless, visible
from pipeline.text.languages import FALLBACK
from pipeline.text.tokens import ESTIMATE, Count, Tokenizer, estimate_line
from pipeline.text.truncate import ELLIPSIS
from schemas.context import (
    Block,
    BlockKind,
    ChatMessage,
    Context,
    ContextItem,
    Dropped,
    DropReason,
    MemoryPreview,
)
from schemas.errors import InvalidInput
from schemas.payloads import ContextQuery
from schemas.sessions import Message


@dataclass(frozen=True, kw_only=True)
class AskedPrompt:
    """A question as shown to a model."""

    # as it was asked
    query: str
    wording: Wording
    # the asker's name; empty where nobody is named
    asker: str = ""
    # the date and the time on the chat's clock, as a line; empty where there is no room for it
    today: str = ""

    @property
    def question(self) -> str:
        """The question, with its asker.

        >>> from pipeline.recall.choose.lines import wording_of
        >>> AskedPrompt(query="How much did I pay?", wording=wording_of("english"), asker="Ben").question
        'Question, from Ben: How much did I pay?'
        """
        form = self.wording.question_from if self.asker else self.wording.question
        return form.format(asker=self.asker, query=self.query)

    @property
    def text(self) -> str:
        """The question under today's date."""
        return f"{self.today}\n{self.question}" if self.today else self.question


def chat_messages(
    ordered: Sequence[Block],
    recent: Sequence[Message],
    prompt: AskedPrompt,
    zone: tzinfo,
    count: Count,
    *,
    alternate: bool = False,
) -> list[ChatMessage]:
    """Return the blocks as messages, the question last.

    With `alternate` user and assistant take turns, the user first: a run of one role is one message, with the names
    of its speakers, and what the assistant said before anybody else becomes a line of the user's.
    """
    texts = [block.text for block in ordered if block.kind not in {"history", "question"}]
    system = "\n\n".join(filter(None, (*texts, prompt.today)))
    history = next((block for block in ordered if block.kind == "history"), None)
    spoken = list(_spoken(history, recent, prompt, zone, count, alternate=alternate)) if history else []
    if alternate:
        runs = [(role, list(run)) for role, run in groupby(spoken, lambda message: message.role)]
        spoken = [ChatMessage(role=role, content="\n".join(m.content for m in run)) for role, run in runs]
    if alternate and spoken and spoken[-1].role == "user":
        question = f"{spoken.pop().content}\n\n{prompt.question}"
    else:
        question = f"{prompt.asker}: {prompt.query}" if prompt.asker else prompt.query
    first = [ChatMessage(role="system", content=system)] if system else []
    return [*first, *spoken, ChatMessage(role="user", content=question)]


def _spoken(
    history: Block,
    recent: Sequence[Message],
    prompt: AskedPrompt,
    zone: tzinfo,
    count: Count,
    *,
    alternate: bool,
) -> Iterator[ChatMessage]:
    """Return the messages of the history in their roles, oldest first."""
    by_id = {str(message.id): message for message in recent}
    shown = [(item, by_id[item.id], count(item.text)) for item in history.items]
    dates = [prompt.wording.day_heading(message.sent_at.astimezone(zone)) for _, message, _ in shown]
    # the tokens of heading and fence in the text may be spent on line breaks
    spare = history.tokens - sum(map(count, set(dates))) - sum(tokens for _, _, tokens in shown)
    assistants = {message.speaker for _, message, _ in shown if message.role == "assistant"}
    named = alternate and len(assistants) > 1
    under, began = "", not alternate
    for (item, message, tokens), date in zip(shown, dates, strict=True):
        began = began or message.role != "assistant"
        is_answer = message.role == "assistant" and began
        head = head_of(message, message.answered if item.answers else None, zone, prompt.wording)
        body = item.text.removeprefix(head)
        forms = _of_an_assistant(message, body, named=named) if is_answer else _of_people(item, message, body)
        text, used = _fitting(forms, item.text, tokens, tokens + max(spare, 0), count)
        spare -= max(used - tokens, 0)
        if is_answer:
            yield ChatMessage(role="assistant", content=text)
        else:
            yield ChatMessage(role="user", content=text if date == under else f"{date}\n{text}")
            under = date


def _of_an_assistant(message: Message, body: str, *, named: bool) -> tuple[str, str]:
    """Return an assistant's message verbatim and as the text shows it; a cut message stays cut."""
    name = f"{fencing.name(message.speaker)}: " if named else ""
    content = harmless(visible(message.content)) if body == truncate.displayed(message.content) else body
    return name + content, name + body


def _of_people(item: ContextItem, message: Message, body: str) -> tuple[str, str]:
    """Return a line of the text with and without the message's line breaks; a cut message stays cut."""
    if body != truncate.displayed(message.content):
        return item.text, item.text
    return item.text.removesuffix(body) + truncate.in_lines(message.content), item.text


def _fitting(forms: Sequence[str], line: str, tokens: int, room: int, count: Count) -> tuple[str, int]:
    """Return the first of these forms of a message that fits into `room` tokens, or the first one cut; and its tokens.

    `tokens` are those of the message's line in the text, which are not counted again.
    """
    for form in forms:
        used = tokens if form == line else count(form)
        if used <= room:
            return form, used
    return truncate.within_tokens(forms[0], room, count), room


def question_block(
    query: ContextQuery, budget: int, tokenizer: Tokenizer = ESTIMATE, wording: Wording | None = None
) -> Block:
    """Return the question as the context shows it, by default in English.

    Raises `InvalidInput`, before anything is searched, if the budget is too small for it.
    """
    shown = AskedPrompt(query=query.query, wording=wording or wording_of(FALLBACK))
    block = plain("question", shown.text, tokenizer.count)
    if block.tokens > budget:
        raise InvalidInput(
            f"budget_tokens is {budget}, but the question itself takes {block.tokens}: raise it or ask shorter",
            field="budget_tokens",
        )
    return block


def assemble(
    query: ContextQuery,
    request: Request,
    results: Ranked,
    budget: int,
    tokenizer: Tokenizer = ESTIMATE,
) -> Context:
    """Assemble the context within `budget` tokens as `tokenizer` counts them, in the language of the chat.

    The budget goes first to what must be there, the question and the guardrails, then to what is worth most. Raises
    `InvalidInput` as `question_block` does.
    """
    wording, zone = wording_of(request.chat.language), request.zone
    count = tokenizer.count
    degraded = [*request.degraded, *results.degraded]
    question_block(query, budget, tokenizer, wording)
    posted = PostedQuestion(request.questions, results)
    recent = [m for m in results.recent if m.content.strip() and not posted.is_recent(m)]
    chosen = choose(query, request, results, recent, posted, wording, count)
    evidence = results.evidence and relevance.with_told(results.evidence, chosen.told, results.judged_by)
    results = replace(results, evidence=evidence)
    unanswered = evidence is not None and evidence.level == "none"
    guardrails = plain(
        "guardrails",
        f"{wording.guardrails} {wording.unanswered}" if unanswered else wording.guardrails,
        count,
    )
    question = _prompt(request, wording, (budget - guardrails.tokens, budget), count)
    fixed = [plain("question", question.text, count)]
    if not question.today:
        degraded.append("question: the budget has no room for today's date")
    if fixed[0].tokens + guardrails.tokens <= budget:
        fixed.append(guardrails)
    else:
        degraded.append("guardrails: the budget has no room for them")

    ordered, unfit = pack(chosen.lines, chosen.frames, budget, count, fixed)
    dropped = [*chosen.dropped, *unfit]
    if results.hidden_memories:
        # the asker may see only their number, which does not depend on the question
        detail = f"{results.hidden_memories:,} learned in other chats, where not everybody here was"
        dropped.append(Dropped(kind="memory", id="", reason="audience", detail=detail))
    by_kind = {block.kind: block for block in ordered}
    shown = {item.id for item in by_kind["memories"].items} if "memories" in by_kind else set()
    previews = [
        MemoryPreview(id=m.id, source=m.type, preview=truncate.shortened(m.content, 120), score=m.score)
        for m in results.memories
        if m.id in shown
    ]
    history_tokens = by_kind["history"].tokens if "history" in by_kind else 0
    return Context(
        context_id=f"ctx_{secrets.token_hex(8)}",
        text="\n\n".join(block.text for block in ordered),
        messages=chat_messages(ordered, recent, question, zone, count, alternate=query.alternate_roles),
        blocks=ordered,
        used_tokens=sum(block.tokens for block in ordered),
        budget=budget,
        counted_by=tokenizer.name,
        evidence=evidence.level if evidence else None,
        evidence_probability=evidence.probability if evidence else None,
        degraded=degraded,
        fell_back=results.fell_back,
        explain=explanation(query, request, results, ordered, dropped) if query.explain else None,
        memories=previews if query.profile == "ask" else None,
        usedHistoryTokens=history_tokens if query.profile == "ask" else None,
    )


def _prompt(request: Request, wording: Wording, rooms: Sequence[int], count: Count) -> AskedPrompt:
    """Show the question with the asker and the time, or as much of them as there is room for."""
    now = request.now.astimezone(request.zone)
    bare = AskedPrompt(query=request.question.text, wording=wording)
    asker = display_name(request.snapshot.asker or "")
    full = replace(bare, asker=asker, today=wording.now(now))
    forms = (full, replace(full, today=""), bare)
    fitting = (form for room in rooms for form in forms if count(form.text) <= room)
    return next(fitting, bare)


# After this many lines in a row that did not fit, smaller ones further down would be noise.
MAX_MISSES = 3
# The first line of a block may be cut if this many tokens of it fit; later ones are taken whole or not at all.
MIN_CUT_TOKENS = 16


def pack(
    lines: Iterable[ChosenLine],
    frames: Mapping[BlockKind, Frame],
    budget: int,
    count: Count = estimate_line,
    fixed: Iterable[Block] = (),
) -> tuple[list[Block], list[Dropped]]:
    """Fill blocks with lines, the most worth first, until nothing more fits; `fixed` blocks are in already.

    Returns the blocks in reading order, and the lines that did not fit.
    """
    room = budget - sum(block.tokens for block in fixed)
    open_blocks: dict[BlockKind, _OpenBlock] = {}
    dropped = []
    shown: set[tuple[str, str]] = set()
    for line in sorted(lines, key=lambda line: -line.worth):
        key = line.kind, line.id
        if key in shown:
            # it is already in another block, where it was worth more
            continue
        if line.block not in open_blocks:
            open_blocks[line.block] = _OpenBlock(frames[line.block], budget, count)
        spent = open_blocks[line.block].offer(line, budget, room)
        if isinstance(spent, int):
            room -= spent
            shown.add(key)
        else:
            kind = "memory" if line.kind == "document" else line.kind
            dropped.append(Dropped(kind=kind, id=line.id, reason=spent))
    blocks = {block.kind: block for block in fixed}
    blocks |= {kind: block.closed(kind) for kind, block in open_blocks.items() if block.shown}
    return [blocks[kind] for kind in get_args(BlockKind) if kind in blocks], dropped


def plain(kind: BlockKind, text: str, count: Count) -> Block:
    """Make a block of this text, such as the guardrails or the question."""
    return Block(kind=kind, tokens=count(text), chars=len(text), text=text)


class _OpenBlock:
    """A block that is being filled."""

    def __init__(self, frame: Frame, budget: int, count: Count) -> None:
        self.frame = frame
        self.cap = int(min(frame.share * budget, budget if frame.cap is None else frame.cap))
        self.count = count
        # in order of place, with their texts
        self.shown: list[tuple[ChosenLine, str]] = []
        self.tokens = 0
        self.misses = 0
        self.fences = (OPEN, CLOSE) if frame.fenced else ()
        self.around = sum(map(count, (frame.heading, *self.fences)))
        self.ellipsis = count(ELLIPSIS)

    def offer(self, line: ChosenLine, budget: int, room: int) -> int | DropReason:
        """Take a line if it fits, cut if need be; return the tokens that it takes, or why it is left out."""
        if self.misses > (0 if self.frame.contiguous else MAX_MISSES - 1):
            return "budget"
        at = bisect_left(self.shown, line.place, key=lambda pair: pair[0].place)
        before = self.shown[at - 1][0] if at else None
        after = self.shown[at][0] if at < len(self.shown) else None
        around = self._between(before, line) + self._between(line, after) - self._between(before, after)
        around += 0 if self.shown else self.around
        free = min(room, self.cap - self.tokens) - around
        text = line.write(max(budget // line.shares, line.least))
        size = self.count(text)
        if size > free >= MIN_CUT_TOKENS and line.may_be_cut and not self.shown:
            text = line.write(free)
            size = self.count(text)
        if size > free:
            self.misses += 1
            return "budget" if size + around > room else "cap"
        self.tokens, self.misses = self.tokens + size + around, 0
        self.shown.insert(at, (line, text))
        return size + around

    def closed(self, kind: BlockKind) -> Block:
        lines, before = [self.frame.heading, *self.fences[:1]], None
        for line, text in self.shown:
            if before is None or before.group != line.group:
                lines += [line.group] if line.group else []
            elif _has_gap(before, line):
                lines.append(ELLIPSIS)
            lines.append(text)
            before = line
        text = "\n".join((*lines, *self.fences[1:]))
        # by the estimate a text takes what its lines take
        tokens = self.tokens if self.count is estimate_line else self.count(text)
        items = [line.item(text) for line, text in self.shown]
        return Block(kind=kind, tokens=tokens, chars=len(text), text=text, items=items)

    def _between(self, before: ChosenLine | None, after: ChosenLine | None) -> int:
        """Return the tokens of the heading or ellipsis between two lines."""
        if after is None:
            return 0
        if before is None or before.group != after.group:
            return self.count(after.group) if after.group else 0
        return self.ellipsis if _has_gap(before, after) else 0


def _has_gap(before: ChosenLine, after: ChosenLine) -> bool:
    """Return whether something is left out between two lines under one heading."""
    return after.follows is not None and after.follows != before.place
