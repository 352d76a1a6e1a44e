"""Run an evaluation: fill, ask, count."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ops.eval import shipped
from ops.eval.locomo import CATEGORIES, AskedQuestion, Conversation, read_folder
from ops.eval.measures import SESSION_KS, TURN_KS, Answered, share_found, tables
from ops.eval.shipped import Shipped
from pipeline.assemble import one_line
from schemas.settings import Settings

BUDGETS = (800, 2000)


def locomo(folder: Path, settings: Settings, progress: Callable[[str], None]) -> dict[str, Any]:
    """The tables of `measures.tables` over all conversations of a folder.

    Raises `InvalidInput` when the folder holds none.
    """
    conversations = list(read_folder(folder))
    answered: list[Answered] = []
    with shipped.temporary(settings) as backscroll:
        for conversation in conversations:
            backscroll.fill(conversation.chat, conversation.messages, progress)
            session_of = backscroll.sessions_of(conversation.chat.chat_id)
            texts = {m.external_id: one_line(m.content) for m in conversation.messages}
            for number, question in enumerate(conversation.questions, start=1):
                progress(f"{conversation.chat.chat_id}: question {number} of {len(conversation.questions)}")
                answered.append(_ask(backscroll, conversation, question, session_of, texts))
    return tables(answered)


def _ask(
    backscroll: Shipped,
    conversation: Conversation,
    question: AskedQuestion,
    session_of: dict[str, int],
    texts: dict[str, str],
) -> Answered:
    contexts = {
        budget: backscroll.ask(conversation.chat.chat_id, question.text, budget) for budget in BUDGETS
    }
    explain = contexts[BUDGETS[0]].explain
    if explain is None:
        raise RuntimeError("a context came without its explanation")
    turns = [hit.external_id for hit in explain.messages]
    sessions = [hit.session_id for hit in explain.sessions]
    wanted = {session_of[turn] for turn in question.evidence}
    return Answered(
        category=CATEGORIES.get(question.category, str(question.category)),
        session={k: share_found(wanted, sessions, k) for k in SESSION_KS},
        turn={k: share_found(question.evidence, turns, k) for k in TURN_KS},
        coverage={
            budget: sum(texts[turn] in context.text for turn in question.evidence) / len(question.evidence)
            for budget, context in contexts.items()
        },
    )
