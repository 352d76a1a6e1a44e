"""The evaluation over LoCoMo's conversations, on two small ones of its shape."""

import json
from pathlib import Path
from typing import Any

import pytest

from ops.dev.eval import locomo
from ops.dev.eval.asking import Asking, evaluated
from ops.dev.eval.measures import OURS
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


def test_the_set_is_read_as_it_is_published(folder: Path, tmp_path: Path) -> None:
    # Given all conversations in one file, with the ids that are in it not as they should be
    samples = []
    for name in ("one", "two"):
        talk = json.loads((folder / f"{name}.json").read_text())
        talk["qa"][0]["evidence"] = ["D:1:3; D02:04"]
        samples.append({"sample_id": name, "qa": talk.pop("qa"), "conversation": talk})
    (tmp_path / "locomo10.json").write_text(json.dumps(samples))
    # Then the file, and the folder that it lies in, are the same conversations
    apart = [(c.name, c.messages, c.cases[1:]) for c in locomo.read(folder)]
    for path in (tmp_path, tmp_path / "locomo10.json"):
        together = list(locomo.read(path))
        assert [(c.name, c.messages, c.cases[1:]) for c in together] == apart
        assert {c.cases[0].evidence for c in together} == {("D1:3", "D2:4")}


@pytest.mark.parametrize("text", ["[1]", "{}", "no json", '{"speaker_a": "Ann"}'])
def test_a_file_of_something_else_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"other\.json is not a LoCoMo conversation"):
        list(locomo.read(tmp_path))


def test_unknown_conversations_are_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="none of these"):
        locomo.conversations(folder, ["three"])


def test_every_question_is_counted_by_its_category(folder: Path) -> None:
    settings = Settings(_env_file=None, embedding_provider="deterministic")
    asking = Asking(as_bots_do=False, plain=False)
    found = evaluated(settings, locomo.conversations(folder), asking, lambda _: None)
    assert found["chats"] == ["one", "two"]
    assert found["questions"] == 8
    assert set(found["by_kind"]) == {"single-hop", "temporal", "multi-hop", "adversarial"}
    ours = found["all"][OURS]
    assert ours["R@10"] == ours["S@3"] == 1
    assert ours["C 2000"] > 0.8
