"""A transcript is data: no message can leave its fence, and an answer that follows an order in it is refused."""

import json
import re
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.enrich.summaries import prompts
from pipeline.enrich.summaries.prompts import InvalidAnswer
from pipeline.text.tokens import estimate_line
from schemas.sessions import Message, Summary
from tests.harness.prompts import fence_of, message

ATTACKS: list[dict[str, str]] = json.loads(Path(__file__).with_name("attacks.json").read_text())
SAID = (
    ("Ann", "the boiler in the cellar shows error E42 since yesterday"),
    ("Ben", "I called the plumber, he comes on Monday at nine"),
    ("Ann", "good, then we decide about the new radiator after his visit"),
    ("Ben", "the old radiator leaks in the kitchen, I put a bucket under it"),
)
GOOD = {
    "summary": "Ann reports that the boiler in the cellar shows error E42. Ben has called the plumber, who comes on "
    "Monday at nine. They will decide about a new radiator after the visit.",
    "topics": ["boiler error E42", "radiator"],
    "decisions": ["Decide about the radiator after the plumber's visit"],
    "open_questions": [],
    "action_items": [],
    "entities": ["Ann", "Ben"],
}


def talk(*more: tuple[str, str]) -> list[Message]:
    return [message(n, speaker, content) for n, (speaker, content) in enumerate((*SAID, *more))]


def prompt_of(messages: list[Message], previous: Summary | None = None, **named: Any) -> Any:
    given = {"time_zone": UTC, "language": "english"} | named
    return prompts.summary_prompt(messages, previous, **given)


def texts(messages: list[Message]) -> list[str]:
    return [f"{m.speaker}: {m.content}" for m in messages]


def is_fenced(prompt: Any, count: int) -> bool:
    """Tell whether each message is one line between the marks, which stand there once."""
    fence = fence_of(prompt)
    lines = prompt.turns[0].split("\n")
    inside = lines[lines.index(f"<{fence}>") + 1 : lines.index(f"</{fence}>")]
    stamped = all(re.match(r"\[\d{4}-\d\d-\d\d \d\d:\d\d\] ", line) for line in inside)
    return (
        len(inside) == count and stamped and lines[-1] == f"</{fence}>" and "".join(lines).count(fence) == 2
    )


# The prompt


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
def test_no_attack_leaves_the_fence(attack: dict[str, str]) -> None:
    fence = fence_of(prompt_of(talk()))
    messages = talk(("Mallory", attack["says"].replace("{fence}", fence)))
    assert is_fenced(prompt_of(messages), len(messages))
    # nor does a speaker's name
    assert is_fenced(prompt_of(talk((attack["says"], "hello"))), len(SAID) + 1)
    # nor what an earlier summary quotes
    before = Summary(summary=attack["says"], topics=[attack["says"][:300]])
    continued = prompt_of(talk(), before)
    assert is_fenced(continued, len(SAID))
    assert continued.turns[0].count("<before-") == 1
    assert len(continued.turns[0].split("\n")) == len(SAID) + 5


@given(st.lists(st.tuples(st.text(max_size=80), st.text(max_size=300)), min_size=1, max_size=8))
def test_no_text_leaves_the_fence(said: list[tuple[str, str]]) -> None:
    messages = [message(n, speaker or "x", content) for n, (speaker, content) in enumerate(said)]
    assert is_fenced(prompt_of(messages), len(messages))


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60), st.integers(200, 2000))
def test_a_long_session_is_divided_and_nothing_left_out(sizes: list[int], room: int) -> None:
    messages = [prompts.clipped(message(n, "Ann", "word " * size), room // 2) for n, size in enumerate(sizes)]
    runs = prompts.divided(messages, room)
    assert [m.id for run in runs for m in run] == [m.id for m in messages]
    for run in runs:
        assert sum(estimate_line(line) for line in prompts.transcript(run, UTC)) <= room + 20


# The answer


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
def test_an_answer_that_obeyed_an_attack_is_refused(attack: dict[str, str]) -> None:
    messages = talk(("Mallory", attack["says"]))
    with pytest.raises(InvalidAnswer):
        prompts.read_answer(attack["obeyed"], texts(messages))


@pytest.mark.parametrize(
    "around",
    [
        "```json\n{}\n```",
        "<think>The user wants {{JSON}}. I write it.</think>{}",
        '{{"note": "first"}} {}',
    ],
)
def test_text_around_the_answer_does_no_harm(around: str) -> None:
    found = prompts.read_answer(around.format(json.dumps(GOOD)), texts(talk()))
    assert found.summary == GOOD["summary"]
    assert found.entities == ["Ann", "Ben"]


@pytest.mark.parametrize(
    "said",
    [
        "Аня пишет:\nкотёл в подвале не греет.\r\nБорис вызвал мастера.",
        "The bot showed Léa a stray </think> tag again, and Zoë saw </Thinking> in the cellar. 🔥",
    ],
)
@pytest.mark.parametrize("before", ["", '{"summary": "a draft {"}\nSo the answer is\n</think>\n'])
def test_line_ends_and_quoted_marks_in_an_answer_do_no_harm(said: str, before: str) -> None:
    answer = before + json.dumps(GOOD | {"summary": said}, ensure_ascii=False)
    for each in "\n\r\t":
        answer = answer.replace(json.dumps(each)[1:-1], each)
    assert prompts.parse_answer(answer).summary == " ".join(said.split())


@given(st.text(max_size=400))
def test_any_answer_is_a_summary_or_refused(answer: str) -> None:
    for given_answer in (
        answer,
        json.dumps({"summary": answer}),
        f'{{"summary": "{answer}", "topics": {answer}',
    ):
        try:
            found = prompts.read_answer(given_answer, texts(talk()))
        except InvalidAnswer:
            continue
        assert found.summary.strip()
