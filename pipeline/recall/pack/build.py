"""Build a context from ranked results: its blocks within the budget, and the response."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

from pipeline.recall.ask.ask import Ask
from pipeline.recall.choose.choose import choose
from pipeline.recall.choose.posted_question import PostedQuestion
from pipeline.recall.choose.speech import display_name
from pipeline.recall.choose.wording import Wording, wording_of
from pipeline.recall.pack.explain import explanation
from pipeline.recall.pack.pack import pack, plain
from pipeline.recall.pack.prompt import Prompt, chat_messages
from pipeline.recall.rank.ranked import Ranked
from pipeline.recall.relevance import judge
from pipeline.text import truncate
from pipeline.text.languages import FALLBACK
from pipeline.text.tokens import ESTIMATE, Count, Tokenizer
from schemas.context import Block, Context, Dropped, MemoryPreview
from schemas.errors import InvalidInput
from schemas.payloads import ContextQuery


def question_block(
    query: ContextQuery, budget: int, tokenizer: Tokenizer = ESTIMATE, wording: Wording | None = None
) -> Block:
    """Return the question as the context shows it, by default in English.

    Raises `InvalidInput`, before anything is searched, if the budget is too small for it.
    """
    shown = Prompt(query=query.query, wording=wording or wording_of(FALLBACK))
    block = plain("question", shown.text, tokenizer.count)
    if block.tokens > budget:
        raise InvalidInput(
            f"budget_tokens is {budget}, but the question itself takes {block.tokens}: raise it or ask shorter",
            field="budget_tokens",
        )
    return block


def assemble(
    query: ContextQuery,
    prepared: Ask,
    results: Ranked,
    budget: int,
    tokenizer: Tokenizer = ESTIMATE,
) -> Context:
    """Assemble the context within `budget` tokens as `tokenizer` counts them, in the language of the chat.

    The budget goes first to what must be there, the question and the guardrails, then to what is worth most. Raises
    `InvalidInput` as `question_block` does.
    """
    wording, zone = wording_of(prepared.request.chat.language), prepared.zone
    count = tokenizer.count
    degraded = [*prepared.degraded, *results.degraded]
    question_block(query, budget, tokenizer, wording)
    posted = PostedQuestion.of(query.query, prepared.request.prelude, results)
    recent = [m for m in results.recent if m.content.strip() and not posted.is_recent(m)]
    chosen = choose(query, prepared, results, recent, posted, wording, count)
    evidence = results.evidence and judge.with_told(results.evidence, chosen.told, results.judged_by)
    results = replace(results, evidence=evidence)
    unanswered = evidence is not None and evidence.level == "none"
    guardrails = plain(
        "guardrails",
        f"{wording.guardrails} {wording.unanswered}" if unanswered else wording.guardrails,
        count,
    )
    question = _prompt(prepared, wording, (budget - guardrails.tokens, budget), count)
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
        explain=explanation(query, prepared, results, ordered, dropped) if query.explain else None,
        memories=previews if query.profile == "ask" else None,
        usedHistoryTokens=history_tokens if query.profile == "ask" else None,
    )


def _prompt(prepared: Ask, wording: Wording, rooms: Sequence[int], count: Count) -> Prompt:
    """Show the question with the asker and the time, or as much of them as there is room for."""
    now = (prepared.request.as_of or prepared.request.prelude.now).astimezone(prepared.zone)
    bare = Prompt(query=prepared.request.text, wording=wording)
    asker = display_name(prepared.request.prelude.asker or "")
    full = replace(bare, asker=asker, today=wording.now(now))
    forms = (full, replace(full, today=""), bare)
    fitting = (form for room in rooms for form in forms if count(form.text) <= room)
    return next(fitting, bare)
