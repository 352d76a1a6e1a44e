"""What a flatmate would ask of the sample chat, before and after its bot was asked all of it over and over.

The questions are in `flatmates_questions.json`, with the pieces of messages that their answers rest on: all of the
list, and of each entry any one. One question has no answer. The bundled model embeds.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, TypeAdapter

from ops.dev import shipped
from ops.dev.eval.samples import SAMPLES, read
from ops.dev.shipped import Shipped
from pipeline.clients.onnx import is_installed
from pipeline.context import build_context
from schemas.context import Context
from schemas.messages import MessageIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not is_installed(), reason="the extra `local` is not installed"),
]
SAMPLE = read("harbour_house", SAMPLES)
CHAT = SAMPLE.chat.chat_id


class Asked(BaseModel):
    """A question, and by message id what has to stand in its context: any one of each entry."""

    question: str
    evidence: list[dict[str, str]]

    def is_answered(self, context: Context) -> bool:
        shown = "\n".join(block.text for block in context.blocks if block.kind != "question")
        return all(any(piece in shown for piece in entry.values()) for entry in self.evidence)


QUESTIONS = TypeAdapter(list[Asked]).validate_json(
    (Path(__file__).parent / "flatmates_questions.json").read_text("utf-8")
)


@pytest.fixture(scope="module")
def fresh() -> Iterator[Shipped]:
    """The sample chat, summarized and embedded, of which nothing has been asked."""
    with shipped.temporary(Settings(_env_file=None)) as backscroll:
        backscroll.fill(SAMPLE.chat, SAMPLE.messages, lambda _: None)
        yield backscroll


@pytest.fixture(scope="module")
def asked_before(fresh: Shipped) -> Shipped:
    """The same after each question was put to the bot twice: as it is, and with a mention that got no answer."""
    at = datetime.now(UTC) - timedelta(minutes=len(QUESTIONS))

    def said(number: int, sender: str, content: str, role: str = "user") -> MessageIn:
        return MessageIn(
            external_id=f"asked-{number}",
            sender_id=f"telegram:{sender}",
            sender_name=sender,
            role=role,
            content=content,
            sent_at=at + timedelta(seconds=10 * number),
        )

    for number, one in enumerate(QUESTIONS):
        fresh.fill(SAMPLE.chat, [said(number, "Davi", one.question)], lambda _: None)
        fresh.ask(CHAT, one.question, 800, include_history=True)
    for number, one in enumerate(QUESTIONS):
        messages = [
            said(100 + 2 * number, "Davi", f"@harbourbot {one.question}"),
            said(101 + 2 * number, "Harbour Bot", "I don't know.", "assistant"),
        ]
        fresh.fill(SAMPLE.chat, messages[:1], lambda _: None)
        fresh.ask(CHAT, one.question, 800, include_history=True)
        fresh.fill(SAMPLE.chat, messages[1:], lambda _: None)
    return fresh


# In another language than the chat's: a model of many languages finds their answers, or `queries`.
ABROAD = {"Wie viel Miete zahlt Olek?", "Qual é o código da porta?"}


def missed(backscroll: Shipped, budget: int) -> list[str]:
    """The questions whose answer is in the chat and not in the context."""
    return [
        one.question
        for one in QUESTIONS
        if one.question not in ABROAD
        and not one.is_answered(backscroll.ask(CHAT, one.question, budget, include_history=True))
    ]


def test_the_answers_stand_in_the_chat() -> None:
    said = {message.external_id: message.content for message in SAMPLE.messages}
    assert all(
        piece in said[message]
        for one in QUESTIONS
        for entry in one.evidence
        for message, piece in entry.items()
    )
    assert len(QUESTIONS) == 28
    assert sum(bool(one.evidence) for one in QUESTIONS) == 27


@pytest.mark.parametrize(("budget", "most"), [(2000, 2), (800, 4)])
def test_a_chat_answers_what_is_asked_of_it(fresh: Shipped, budget: int, most: int) -> None:
    assert len(missed(fresh, budget)) <= most, missed(fresh, budget)


# at 2,000 tokens: the decision that stands has no word of the question, and is shown beside what has
@pytest.mark.parametrize("profile", ["balanced", "group"])
def test_what_was_decided_and_what_replaced_it_are_shown_in_their_order(fresh: Shipped, profile: str) -> None:
    query = ContextQuery(
        chat_id=CHAT, query="What did we decide about the boiler?", profile=profile, budget_tokens=2000
    )
    context = build_context(
        fresh.resources.database,
        fresh.settings.tenant,
        query,
        embedder=fresh.resources.embedder,
        settings=fresh.settings,
    )
    assert "we drop Amílcar and take Beatriz" in context.text
    # what it replaced stands under its own day, where that is shown
    replaced = context.text.find("ok decided: Amílcar")
    said = context.text.rfind("we drop Amílcar and take Beatriz")
    assert replaced < said


@pytest.mark.parametrize(("budget", "most"), [(2000, 3), (800, 6)])
def test_it_does_so_after_all_was_asked_of_the_bot_twice(
    asked_before: Shipped, budget: int, most: int
) -> None:
    failed = missed(asked_before, budget)
    assert len(failed) <= most, failed
