"""Build a context from what was found: the order in which blocks take from the budget, and the answer."""

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pipeline.context import blocks, memory_block, packing
from pipeline.context.explain import explanation
from pipeline.context.message_block import exchanges
from pipeline.context.packing import UNCAPPED, Page, Section
from pipeline.context.prompt import Prompt, chat_messages, prompt
from pipeline.ranking.similarity import Scale
from pipeline.retrieval.gather import RetrievalResult
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.retrieval.sessions import RetrievedSession
from pipeline.text import addressing, truncate
from pipeline.text.tokens import ESTIMATE, Count, Tokenizer
from schemas.context import Block, BlockKind, Context, ContextItem, Dropped, MemoryPreview
from schemas.errors import InvalidInput
from schemas.payloads import ContextQuery
from schemas.sessions import Message

SUMMARIES: tuple[BlockKind, ...] = ("sessions", "related")
"""The blocks that summarize sessions."""
MESSAGES: tuple[BlockKind, ...] = ("history", "exchanges")
"""The blocks that show messages."""


def question_block(query: ContextQuery, budget: int, tokenizer: Tokenizer = ESTIMATE) -> Block:
    """Return the question as the context shows it.

    Raises `InvalidInput` for a budget that is too small for it, which is known before anything is searched.
    """
    block = packing.plain("question", Prompt(query=query.query).text, tokenizer.count)
    if block.tokens > budget:
        raise InvalidInput(
            f"budget_tokens is {budget}, but the question itself takes {block.tokens}: raise it or ask shorter",
            field="budget_tokens",
        )
    return block


def assemble(
    query: ContextQuery,
    prepared: PreparedQuery,
    found: RetrievalResult,
    budget: int,
    tokenizer: Tokenizer = ESTIMATE,
) -> Context:
    """Assemble the context within `budget` tokens as `tokenizer` counts them.

    The budget goes first to what must be there (the question, the guardrails), then to recent talk, then to memories;
    sessions and messages get the rest. Raises `InvalidInput` as `question_block` does.
    """
    parameters, zone = prepared.request.parameters, prepared.parsed.zone
    count = tokenizer.count
    page = Page(budget, count, explained=query.explain)
    if found.hidden_memories:
        # only their number, and that whatever the question: the asker may not see more
        detail = f"{found.hidden_memories:,} learned in other chats, where not everybody here was"
        page.dropped.append(Dropped(kind="memory", id="", reason="audience", detail=detail))
    degraded = [*prepared.degraded, *found.degraded]
    question_block(query, budget, tokenizer)
    guardrails = packing.plain("guardrails", blocks.GUARDRAILS, count)
    question = _prompt(prepared, (budget - guardrails.tokens, budget), count)
    page.put(packing.plain("question", question.text, count))
    if not question.today:
        degraded.append("question: the budget has no room for today's date")
    if not page.put(guardrails):
        degraded.append("guardrails: the budget has no room for them")

    is_question = _question_matcher(query.query, prepared.request.chat.language, found)
    recent = [m for m in found.recent if m.content.strip() and not is_question(m.content)]
    history_cap = min(parameters.history_tokens, int(budget * parameters.history_share))
    page.fill(blocks.history(recent, history_cap, zone, count))
    page = _with_memories(page, query, prepared, found, budget, is_question)

    ordered = page.ordered()
    shown = {item.id for item in page.items("memories")}
    previews = [
        MemoryPreview(id=m.id, source=m.source, preview=truncate.shortened(m.content, 120), score=m.score)
        for m in found.memories
        if m.id in shown
    ]
    history_tokens = page.blocks["history"].tokens if "history" in page.blocks else 0
    return Context(
        context_id=f"ctx_{secrets.token_hex(8)}",
        text="\n\n".join(block.text for block in ordered),
        messages=chat_messages(ordered, recent, question, zone, count, alternate=query.alternate_roles),
        blocks=ordered,
        used_tokens=sum(block.tokens for block in ordered),
        budget=budget,
        counted_by=tokenizer.name,
        degraded=degraded,
        fell_back=found.fell_back,
        explain=explanation(query, prepared, found, ordered, page.dropped) if query.explain else None,
        memories=previews if query.profile == "ask" else None,
        usedHistoryTokens=history_tokens if query.profile == "ask" else None,
    )


def _prompt(prepared: PreparedQuery, rooms: Sequence[int], count: Count) -> Prompt:
    """Show the question with the asker and the time, or as much of them as there is room for."""
    whole = prompt(
        prepared.request.text, prepared.parsed.asker, prepared.parsed.now.astimezone(prepared.parsed.zone)
    )
    alone = Prompt(query=whole.query)
    forms = (whole, replace(whole, today=""), alone)
    fitting = (form for room in rooms for form in forms if count(form.text) <= room)
    return next(fitting, alone)


def _with_memories(
    page: Page,
    query: ContextQuery,
    prepared: PreparedQuery,
    found: RetrievalResult,
    budget: int,
    is_question: Callable[[str], bool],
) -> Page:
    """Fill the page with memories, documents, weeks, sessions and messages.

    A memory makes way for a message or passage that says the same, and the tokens go to others.
    """
    parameters, scale = prepared.request.parameters, found.scale
    memory_cap, session_cap = int(budget * parameters.memory_share), int(budget * parameters.session_share)
    now = prepared.request.as_of or prepared.parsed.now
    contents = {hit.candidate.id: hit.candidate.text for hit in found.ranked}
    contents |= {message.id: message.content for message in found.recent}
    repeated: dict[str, str] = {}
    while True:
        filled = page.copy()
        known = memory_block.choose(
            found.memories, parameters, scale, prepared.question, query.queries, repeated
        )
        filled.dropped.extend(known.dropped)
        filled.fill(
            memory_block.memories(
                known.statements, memory_cap, prepared.parsed.asker, now, prepared.parsed.zone
            )
        )
        filled.fill(
            memory_block.documents(known.passages, memory_cap, query.query, prepared.request.chat.language)
        )
        filled.fill(blocks.rollups(found.weeks, parameters, int(budget * parameters.rollup_share)))
        filled = _with_sessions(filled, prepared, found, scale, session_cap, is_question)
        messages = [int(item.id) for kind in MESSAGES for item in filled.items(kind)]
        passages = {item.id for item in filled.items("documents")}
        again = memory_block.repeats(
            known.statements,
            {each: contents[each] for each in messages},
            (passage.content for passage in known.passages if passage.id in passages),
            parameters.duplicate_jaccard,
        )
        if not again:
            return filled
        repeated |= again


def _with_sessions(
    page: Page,
    prepared: PreparedQuery,
    found: RetrievalResult,
    scale: Scale,
    session_cap: int,
    is_question: Callable[[str], bool],
) -> Page:
    """Fill the page with sessions, messages and related sessions.

    A session whose messages are all shown is not summarized: the tokens go to others.
    """
    if found.retrieved is None:
        return page
    parameters, zone = prepared.request.parameters, prepared.parsed.zone
    summarized = [session for session in found.sessions if session.summary and not found.fell_back]
    session_of = {str(hit.candidate.id): hit.candidate.session for hit in found.ranked} if summarized else {}

    def whole(made: Page) -> set[int]:
        history, exchanged = made.items("history"), made.items("exchanges")
        return shown_whole(summarized, found.recent, history, exchanged, session_of, is_question)

    def filled(covered: Collection[int]) -> Page:
        sessions = [session for session in summarized if session.id not in covered]
        shown, others = sessions[: parameters.sessions], sessions[parameters.sessions :]
        filled = page.copy()
        filled.fill(blocks.sessions(shown, parameters, session_cap, zone))
        related = blocks.related(shown, others, parameters, zone)
        reserve = packing.fill(related, filled.room // 10, filled.count).block
        entries = exchanges(
            found.looked_into,
            [hit.candidate for hit in found.ranked],
            {int(item.id): "the recent messages" for item in filled.items("history")},
            parameters,
            zone,
            is_question,
            scale,
        )
        heading = blocks.EXCHANGES if "sessions" in filled.blocks else blocks.EARLIER
        if found.fell_back:
            heading = blocks.ANYWHERE
        section = Section(kind="exchanges", heading=heading, entries=entries, cap=UNCAPPED)
        filled.fill(section, keep_free=reserve.tokens if reserve else 0)
        filled.fill(related)
        return filled

    covered = whole(page)
    while True:
        result = filled(covered)
        summaries = {int(item.id) for kind in SUMMARIES for item in result.items(kind)}
        twice = summaries & whole(result)
        if not twice:
            break
        covered |= twice
    detail = "the context holds all its messages"
    result.dropped += [
        Dropped(kind="session", id=str(session), reason="covered", detail=detail)
        for session in sorted(covered)
    ]
    return result


def shown_whole(
    sessions: Iterable[RetrievedSession],
    recent: Iterable[Message],
    history: Collection[ContextItem],
    exchanged: Collection[ContextItem],
    session_of: Mapping[str, int],
    is_question: Callable[[str], bool],
) -> set[int]:
    """Return the sessions whose messages are all in the context, so that their summaries would repeat them.

    `recent` are the chat's newest messages, of which `history` shows some; `exchanged` are other messages, whose
    sessions `session_of` maps by id. Messages without text, and the question itself, need not be shown.
    """
    lines = {item.id: item.text for item in history}
    shown = [
        message
        for message in recent
        if not message.content.strip()
        or is_question(message.content)
        # the newest may be cut
        or lines.get(str(message.id), "").endswith(truncate.one_line(message.content))
    ]
    elsewhere = [(item.id, session_of.get(item.id)) for item in exchanged]
    return {
        session.id
        for session in sessions
        if len(
            {str(message.id) for message in shown if _belongs(message, session)}
            | {message for message, its_session in elsewhere if its_session == session.id}
        )
        >= session.message_count
        > 0
    }


def _belongs(message: Message, session: RetrievedSession) -> bool:
    same_key = message.session_key == session.session_key
    return same_key and session.started_at <= message.sent_at <= session.ended_at


def _question_matcher(question: str, language: str, found: RetrievalResult) -> Callable[[str], bool]:
    """Recognize messages that are the question itself, also with a mention of the bot that was cut off."""
    bots = {hit.candidate.speaker for hit in found.ranked if hit.candidate.role == "assistant"}
    names = addressing.names_of(bots | {m.speaker for m in found.recent if m.role == "assistant"})
    asked = addressing.said(question, language, names)
    return lambda text: addressing.said(text, language, names) == asked
