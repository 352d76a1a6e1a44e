"""Asked what was decided, the decision that stands is found, whatever words it is in."""

import pytest

from pipeline.ranking.model import Candidate
from pipeline.text import answer_types
from tests.ranking.test_rank import candidate, ids

HOUSE = [
    ("the boiler is cold", "Graça sends Amílcar for the boiler", "or Beatriz from the restaurant"),
    ("so. Amílcar for 45 or Beatriz for 60", "ok decided: Amílcar, thursday"),
    ("amílcar says the boiler needs an exchanger", "Beatriz says the boiler has a bad sensor"),
    ("and Graça?", "ok so we drop Amílcar and take Beatriz, tomorrow"),
    ("the cake?", "ok decided: the cake is chocolate"),
    ("the fridge hums", "ok decided: a new bulb for the fridge"),
]


def house(word: str) -> list[Candidate]:
    """Sessions as candidates for a question with one lexeme."""
    return [
        candidate(
            100 * session + place, text, session=session, place=place, terms={word: 1} if word in text else {}
        )
        for session, lines in enumerate(HOUSE, start=1)
        for place, text in enumerate(lines)
    ]


def test_the_newest_decision_about_it_comes_before_the_one_that_it_replaced() -> None:
    found = ids("What did we decide about the boiler?", house("boiler"))
    assert found.index(401) < found.index(201) < found.index(601)
    assert found[0] == 401


def test_without_the_part_it_is_not_found() -> None:
    found = ids("What did we decide about the boiler?", house("boiler"), decision=0)
    assert found.index(401) > 3


def test_what_asks_for_no_decision_is_ranked_as_ever() -> None:
    question = "Is the boiler cold?"
    assert ids(question, house("boiler")) == ids(question, house("boiler"), decision=0)


def test_a_decision_about_something_else_is_no_better_for_being_one() -> None:
    assert ids("What was decided about the cake?", house("cake"))[0] == 501


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("What did we decide about the boiler?", "english"),
        ("Which internet provider did we go with in the end?", "english"),
        ("Have we agreed on a date?", "english"),
        ("What was decided about the cleaning?", "english"),
        ("Which plumber are we using?", "english"),
        ("what's the decision on the lock", "english"),
        ("Was haben wir zum Boiler beschlossen?", "german"),
        ("Wofür haben wir uns entschieden?", "german"),
        ("O que decidimos sobre a caldeira?", "portuguese"),
        ("¿Qué hemos decidido?", "spanish"),
        ("Qu'est-ce qu'on a décidé ?", "french"),
    ],
)
def test_people_ask_for_decisions_in_many_ways(question: str, language: str) -> None:
    assert "decision" in answer_types.asked(question, language)


@pytest.mark.parametrize(
    "question", ["What did Ann decide to study?", "When is the boat trip?", "Do we have milk?"]
)
def test_other_questions_do_not(question: str) -> None:
    assert "decision" not in answer_types.asked(question, "english")
