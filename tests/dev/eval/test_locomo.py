"""The evaluation over LoCoMo's conversations, on two small ones of its shape."""

import json
from pathlib import Path
from typing import Any

import pytest

from ops.dev.eval.asking import OURS, Asking, evaluated
from ops.dev.eval.samples import read_locomo
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


def test_the_set_is_read_as_it_is_published_and_every_question_counted(tmp_path: Path) -> None:
    # Given conversations in files of their own, and all in one, with the ids that are in it not as they should be
    apart, together = tmp_path / "apart", tmp_path / "locomo10.json"
    apart.mkdir()
    samples = []
    for name, speakers in (("one", ("Ann", "Bob")), ("two", ("Cy", "Dee"))):
        talk = conversation(*speakers)
        (apart / f"{name}.json").write_text(json.dumps(talk))
        talk["qa"][0]["evidence"] = ["D:1:3; D02:04"]
        samples.append({"sample_id": name, "qa": talk.pop("qa"), "conversation": talk})
    together.write_text(json.dumps(samples))
    # Then both are the same conversations
    read, published = list(read_locomo(apart)), list(read_locomo(together))
    assert [(c.name, c.messages, c.cases[1:]) for c in read] == [
        (c.name, c.messages, c.cases[1:]) for c in published
    ]
    assert {c.cases[0].evidence for c in published} == {("D1:3", "D2:4")}
    # And what is said is found
    settings = Settings(_env_file=None, embedding_provider="deterministic")
    found = evaluated(settings, read[:1], Asking(as_bots_do=False, plain=False), lambda _: None).found
    assert (found["chats"], found["questions"]) == (["one"], 4)
    ours = found["all"][OURS]
    assert ours["R@10"] == ours["S@3"] == 1
    assert ours["C 2000"] > 0.8


@pytest.mark.parametrize("text", ["[1]", "{}", "no json"])
def test_a_file_of_something_else_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"other\.json is not a LoCoMo conversation"):
        list(read_locomo(tmp_path))
