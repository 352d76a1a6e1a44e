"""What a flatmate would ask of the sample chat, before and after its bot was asked all of it.

The questions are in `flatmates_questions.json`, with the pieces of messages that their answers rest on: all of the
list, and of each entry any one. One question has no answer. The bundled model embeds.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, TypeAdapter

from ops.dev import shipped
from ops.dev.eval.samples import read_chat
from ops.dev.shipped import Shipped
from ops.local import demo
from pipeline.clients.onnx.onnx import is_installed
from schemas.context import Context
from schemas.messages import MessageIn
from schemas.settings import Settings
from tests.guide.pages import README

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not is_installed(), reason="the extra `local` is not installed"),
]
NUMBER = re.compile(r"\d+(?:\.\d+)?")
SAMPLE = read_chat("harbour_house")
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
    """The same after each question was put to the bot in vain."""
    at = datetime.now(UTC) - timedelta(minutes=len(QUESTIONS))
    for number, one in enumerate(QUESTIONS):
        asked = {
            "sender_id": "telegram:davi",
            "sender_name": "Davi",
            "content": f"@harbourbot {one.question}",
        }
        answer = {"sender_id": "telegram:bot", "sender_name": "Harbour Bot", "content": "I don't know."}
        said = [
            MessageIn.model_validate(
                {**fields, "external_id": f"asked-{number}-{role}", "role": role, "sent_at": at}
            )
            for fields, role in ((asked, "user"), (answer, "assistant"))
        ]
        fresh.fill(SAMPLE.chat, said, lambda _: None)
        fresh.ask(CHAT, one.question, 800, include_history=True)
        at += timedelta(seconds=20)
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


def test_a_chat_answers_what_is_asked_of_it(fresh: Shipped) -> None:
    for budget, most in ((2000, 4), (800, 4)):
        failed = missed(fresh, budget)
        assert len(failed) <= most, failed


# the decision that stands has no word of the question: it is behind what has, and shown where all tokens are spent
def test_what_was_decided_and_what_replaced_it_are_shown_in_their_order(fresh: Shipped) -> None:
    options = {"fill": True, "include_history": True, "explain": False}
    context = fresh.ask(CHAT, "What did we decide about the boiler?", 2000, **options)
    assert "we drop Amílcar and take Beatriz" in context.text
    # what it replaced stands under its own day, where that is shown
    replaced = context.text.find("ok decided: Amílcar")
    said = context.text.rfind("we drop Amílcar and take Beatriz")
    assert replaced < said


def test_the_answers_in_the_readme_are_those_of_the_demo(fresh: Shipped) -> None:
    (printed,) = re.findall(r"<!-- demo output -->\n\n```text\n(.*?)\n```", README.text, re.DOTALL)
    copies = [copy.splitlines() for copy in printed.split("\n\n")]
    for question, (title, best, reason, *others, last) in zip(demo.questions(), copies, strict=True):
        query = demo.query(CHAT, question["question"])
        context = fresh.build(query)
        shown, whole = demo.report(question, context), demo.report(question, context, 1000)
        assert [title, best] == shown[:2]
        # the last digits of a score, and what comes next after equal ones, depend on the processor
        for copied, printed_now in ((reason, shown[2]), (last, shown[-1])):
            assert NUMBER.sub("#", copied) == NUMBER.sub("#", printed_now)
            numbers, now = (list(map(float, NUMBER.findall(line))) for line in (copied, printed_now))
            assert numbers == pytest.approx(now, rel=0.05, abs=0.02)
        assert len(others) == len(shown) - 4
        assert set(others) <= set(whole)


# A guard, one above what was measured: how long the questions took decides what is recent talk.
def test_it_does_so_after_all_was_asked_of_the_bot(asked_before: Shipped) -> None:
    failed = missed(asked_before, 800)
    assert len(failed) <= 8, failed
