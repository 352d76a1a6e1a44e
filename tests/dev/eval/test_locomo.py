"""The evaluation over LoCoMo's conversations, on two small ones of its shape."""

import json
from collections.abc import Iterator
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ops.dev import shipped
from ops.dev.eval import gather, locomo, run
from ops.dev.eval.drawing import PLOTTED_BUDGETS, draw
from ops.dev.eval.gather import Gathered
from ops.dev.eval.question_messages import asked_as_message
from ops.dev.eval.reference import ReferenceSummarizer
from ops.dev.eval.report import locomo_tables
from ops.dev.eval.run import Options
from pipeline.recall.ask.weights import Weights
from schemas.context import Context
from schemas.errors import InvalidInput
from schemas.settings import Settings

TALK = [
    "I adopted a grey parrot last week",
    "Lovely! What is the parrot called?",
    "Vasco, after the sailor",
    "My sister paints boats in the harbour",
    "Which colour did she choose?",
    "Blue, as always",
    "We moved to Almada in March",
    "The bakery there has wonderful bread",
]
QUESTIONS = [
    ("What is the name of the parrot?", 4, ["D1:3"]),
    ("When did Ann move to Almada?", 2, ["D2:3"]),
    ("Which colour are the boats that the sister paints?", 1, ["D1:4", "D2:2"]),
    ("Who likes bread?", 5, ["D2:4"]),
]


def conversation(first: str, second: str) -> dict[str, Any]:
    def turn(session: int, number: int, text: str) -> dict[str, str]:
        return {
            "dia_id": f"D{session}:{number}",
            "speaker": first if number % 2 else second,
            "text": text,
        }

    return {
        "speaker_a": first,
        "speaker_b": second,
        "session_1": [turn(1, n, text) for n, text in enumerate(TALK[:4], start=1)],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [turn(2, n, text) for n, text in enumerate(TALK[4:], start=1)],
        "session_2_date_time": "2:00 pm on 18 May, 2023",
        "qa": [{"question": q, "category": c, "evidence": e} for q, c, e in QUESTIONS],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("locomo")
    (folder / "one.json").write_text(json.dumps(conversation("Ann", "Bob")))
    (folder / "two.json").write_text(json.dumps(conversation("Cy", "Dee")))
    return folder


SETTINGS = Settings(_env_file=None, embedding_provider="deterministic")


def evaluate(folder: Path, **options: Any) -> dict[str, Any]:
    return run.locomo(folder, SETTINGS, Options(**options), lambda _: None)


@pytest.fixture(scope="module")
def everything(folder: Path) -> dict[str, Any]:
    return evaluate(folder, ablate=True, plotted=PLOTTED_BUDGETS)


@pytest.fixture(scope="module")
def gathered(folder: Path) -> Iterator[tuple[shipped.Shipped, list[Gathered]]]:
    with shipped.temporary(SETTINGS) as backscroll:
        (first, _) = locomo.read(folder)
        backscroll.fill(first.chat, first.messages, lambda _: None)
        yield backscroll, [gather.gather(backscroll, first, n) for n in range(len(first.questions))]


def test_the_set_is_read_as_it_is_published(folder: Path, tmp_path: Path) -> None:
    # Given all conversations in one file, with the ids that are in it not as they should be
    samples = []
    for name in ("one", "two"):
        talk = json.loads((folder / f"{name}.json").read_text())
        talk["qa"][0]["evidence"] = ["D:1:3; D02:04"]
        samples.append({"sample_id": name, "qa": talk.pop("qa"), "conversation": talk})
    (tmp_path / "locomo10.json").write_text(json.dumps(samples))
    # Then the file, and the folder that it lies in, are the same conversations
    apart = [(c.name, c.messages, c.questions[1:]) for c in locomo.read(folder)]
    for path in (tmp_path, tmp_path / "locomo10.json"):
        together = list(locomo.read(path))
        assert [(c.name, c.messages, c.questions[1:]) for c in together] == apart
        assert {c.questions[0].evidence for c in together} == {("D1:3", "D2:4")}


@pytest.mark.parametrize("text", ["[1]", "{}", "no json", '{"speaker_a": "Ann"}'])
def test_a_file_of_something_else_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"other\.json is not a LoCoMo conversation"):
        list(locomo.read(tmp_path))
    with pytest.raises(InvalidInput, match=r"there is no .*nothing\.json"):
        list(locomo.read(tmp_path / "nothing.json"))


def test_the_summaries_of_the_set_are_what_is_searched_and_shown(tmp_path: Path) -> None:
    talk = conversation("Ann", "Bob") | {
        "session_1_summary": "A zeppelin was mentioned.",
        "session_2_summary": "",
    }
    (tmp_path / "one.json").write_text(json.dumps(talk))
    (only,) = locomo.read(tmp_path)
    assert only.summaries == {"1": "A zeppelin was mentioned."}
    with shipped.temporary(SETTINGS) as backscroll:
        backscroll.summarizer = ReferenceSummarizer({only.chat.chat_id: only.summaries})
        backscroll.fill(only.chat, only.messages, lambda _: None)
        found = backscroll.ask(only.chat.chat_id, "zeppelin?", 800).explain
    assert found is not None
    told = [hit.preview for hit in found.sessions]
    assert "A zeppelin was mentioned." in told
    assert any("Almada" in extracted for extracted in told)
    assert evaluate(tmp_path, reference=True)["questions"] == len(only.questions)


def texts(context: Context) -> list[str]:
    return [block.text for block in context.blocks if block.kind != "question"]


def test_what_is_gathered_once_gives_the_very_contexts_that_bots_get(
    gathered: tuple[shipped.Shipped, list[Gathered]],
) -> None:
    backscroll, questions = gathered
    for one in questions:
        talk = one.conversation
        for budget in (120, 800):
            # when the question was put to the bot as a message, as it was when it was gathered: each time another one,
            # as what was deleted is not stored again
            question = asked_as_message(talk.chat, talk.messages, one.question.text)
            with backscroll.put(talk.chat, question):
                bots = backscroll.ask(one.query.chat_id, one.question.text, budget)
            again = one.context(
                one.ranked(one.prepared.request.weights), one.prepared.request.parameters, budget
            )
            # the question says what minute it is
            assert texts(again) == texts(bots)


def test_a_question_that_was_put_to_a_bot_is_no_evidence_and_leaves_nothing_behind(
    gathered: tuple[shipped.Shipped, list[Gathered]],
) -> None:
    backscroll, questions = gathered
    talk = questions[0].conversation
    before = backscroll.sessions_of(talk.chat.chat_id)
    question = asked_as_message(talk.chat, talk.messages, "What is the name of the parrot?")
    with backscroll.put(talk.chat, question):
        assert question.external_id in backscroll.sessions_of(talk.chat.chat_id)
        explain = backscroll.ask(talk.chat.chat_id, "What is the name of the parrot?", 800).explain
        assert explain is not None
        assert explain.messages[0].external_id in {"D1:1", "D1:2", "D1:3"}
        assert explain.messages[-1].external_id == question.external_id
    assert backscroll.sessions_of(talk.chat.chat_id) == before


def test_pictures_are_on_a_line_of_their_own(tmp_path: Path) -> None:
    talk = conversation("Ann", "Bob")
    talk["session_1"][0]["blip_caption"] = "a parrot on a swing"
    (tmp_path / "one.json").write_text(json.dumps(talk))
    (only,) = locomo.read(tmp_path)
    assert only.messages[0].content == f"{TALK[0]}\n[picture: a parrot on a swing]"


def test_merged_conversations_are_one_chat_whose_questions_keep_their_evidence(folder: Path) -> None:
    # Given two conversations of the same days
    apart = list(locomo.read(folder))
    together = locomo.merged(apart)
    # Then the first sessions of both come before the second ones, and ids do not collide
    assert [m.external_id[4:6] for m in together.messages] == ["D1"] * 8 + ["D2"] * 8
    assert len({m.external_id for m in together.messages}) == 16
    said = {m.external_id: m.content for m in together.messages}
    for one in together.questions:
        assert {said[turn] for turn in one.evidence} <= set(TALK)
    assert evaluate(folder, merged=True)["questions"] == 8


def test_every_weight_and_arm_is_turned_off_once(everything: dict[str, Any]) -> None:
    off = everything["ablated"]
    assert {field.name for field in fields(Weights)} <= off.keys()
    assert {"vectors (all meaning)", "keywords (all words)", "session summaries"} <= off.keys()
    assert all(part["questions"] == 8 for part in off.values())
    assert off["keywords (all words)"]["turn"]["mean"]["5"] <= everything["turn"]["mean"]["5"]


def test_people_get_tables_and_a_plot(everything: dict[str, Any], tmp_path: Path) -> None:
    console = Console(file=StringIO(), width=200)
    console.print(*locomo_tables(everything))
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue()
    for expected in ("session R@3", "coverage, 2,000 tokens", "multi-hop", "session"):
        assert expected in printed
    pytest.importorskip("matplotlib", reason="the extra `eval` is not installed")
    draw(everything, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_order_of_arrival_changes_nothing(folder: Path, everything: dict[str, Any]) -> None:
    shuffled = evaluate(folder, shuffle=7)
    assert shuffled["turn"] == everything["turn"]
    assert shuffled["session"] == everything["session"]


def test_what_is_not_summarized_or_embedded_is_found_by_its_words(folder: Path) -> None:
    fresh = evaluate(folder, unsummarized=True, only=["one"])
    assert fresh["questions"] == 4
    assert fresh["turn"]["any"]["5"] >= 0.75


def test_a_conversation_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="none of these conversations"):
        evaluate(folder, only=["three"])
