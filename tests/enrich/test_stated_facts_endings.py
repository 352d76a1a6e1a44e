"""Facts by rules: what somebody says to have ended, or to be off, is known as current no more."""

from datetime import timedelta

import pytest

from pipeline.memories.beliefs import Statement, believed
from tests.enrich.stated import learned
from tests.text.builders import START


def current(*sessions: str, language: str = "english") -> list[str]:
    """What is current after a session on each of these days."""
    statements = [
        Statement(
            memory_id=None,
            session_id=day,
            chat_id="telegram:-1",
            said_at=START + timedelta(days=day),
            content=fact.content,
            attribute=fact.attribute,
            value=fact.value,
        )
        for day, said in enumerate(sessions, start=1)
        for fact in learned(said, language=language)
    ]
    return [each.statements[0].content for each in believed(statements) if not each.superseded_by]


@pytest.mark.parametrize(
    ("language", "before", "after", "content"),
    [
        ("english", "I work at Bosch", "I quit Bosch today", "Ann quit Bosch on 2 March 2026."),
        ("english", "I work at Bosch", "I've left Bosch to join a startup", "Ann left Bosch."),
        ("english", "I work at Bosch", "I don't work at Bosch any more", "Ann does not work at Bosch."),
        ("english", "I work at Bosch", "I stopped working at Bosch", "Ann does not work at Bosch."),
        ("english", "Tom works at Bosch", "Tom left Bosch", "Tom Miller left Bosch."),
        (
            "english",
            "I live in Leeds",
            "I left Leeds last week, now in York",
            "Ann left Leeds in the week of 23 February 2026.",
        ),
        ("english", "I live in Leeds", "we moved out of Leeds", "Ann moved out of Leeds."),
        (
            "english",
            "I'm allergic to nuts",
            "turns out I'm not allergic to nuts",
            "Ann is not allergic to nuts.",
        ),
        ("english", "I'm allergic to nuts", "I outgrew my nut allergy", "Ann is not allergic to nut."),
        ("english", "I'm vegan", "I stopped being vegan", "Ann is not vegan."),
        (
            "english",
            "I'm moving to Lyon in January",
            "I'm not moving to Lyon after all",
            "Ann is not moving to Lyon.",
        ),
        (
            "english",
            "I'm flying to Rome in May",
            "my trip to Rome is cancelled",
            "Ann is not travelling to Rome.",
        ),
        (
            "german",
            "ich arbeite bei Bosch",
            "ich arbeite nicht mehr bei Bosch",
            "Ann arbeitet nicht bei Bosch.",
        ),
        ("german", "ich arbeite bei Bosch", "ich habe Bosch verlassen", "Ann hat Bosch verlassen."),
        ("german", "ich wohne in Graz", "ich bin aus Graz weggezogen", "Ann wohnt nicht mehr in Graz."),
        (
            "german",
            "ich bin allergisch gegen Nüsse",
            "es stellte sich heraus, dass ich gar nicht allergisch gegen Nüsse bin",
            "Ann ist nicht allergisch gegen Nüsse.",
        ),
        ("german", "ich lebe vegan", "ich lebe nicht mehr vegan", "Ann ernährt sich nicht so: vegan."),
        (
            "german",
            "ich ziehe im Januar nach Köln",
            "ich ziehe doch nicht nach Köln",
            "Ann zieht nicht nach Köln.",
        ),
        (
            "german",
            "ich fliege im Mai nach Rom",
            "ich fliege doch nicht nach Rom",
            "Ann reist nicht nach Rom.",
        ),
    ],
)
def test_what_has_ended_is_not_current_any_more(language: str, before: str, after: str, content: str) -> None:
    assert current(before, after, language=language) == [content]


@pytest.mark.parametrize(
    ("before", "after", "content"),
    [
        ("I live in York", "I left Leeds for good", "Ann lives in York."),
        ("I work at Siemens", "I don't work at Bosch any more", "Ann works at Siemens."),
        ("I'm moving to Lyon", "I'm not moving to Paris", "Ann is moving to Lyon."),
    ],
)
def test_the_end_of_something_else_ends_nothing(before: str, after: str, content: str) -> None:
    assert content in current(before, after)
    assert content in current(f"{before}. {after}")


def test_what_comes_after_an_end_is_current_alone() -> None:
    assert current("I live in Leeds", "I left Leeds for good", "I live in York") == ["Ann lives in York."]


@pytest.mark.parametrize(
    "said",
    [
        "I left Bosch early today",
        "I left London this morning",
        "I left Max in the car",
        "I left the office",
        "I moved out of my parents' house",
        "I'm not moving to Lyon in January",
        "I'm not moving to Lyon without you",
        "I can't move to Lyon yet",
        "I'm not going to lie",
    ],
)
def test_what_does_not_end_it_for_good_is_no_end(said: str) -> None:
    assert learned(said) == []
