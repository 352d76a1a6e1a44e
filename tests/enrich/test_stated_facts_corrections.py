"""Facts by rules: what somebody takes back in the same message, or says for fun, is not learned."""

import pytest

from tests.enrich.stated import learned


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("english", "I work at Bosch, no wait, since monday at Siemens"),
        ("english", "I work at Bosch in Ulm, I mean Siemens"),
        ("english", "my name is Bob, scratch that"),
        ("english", "I live in Berlin lol no"),
        ("english", "I live in Leeds. Well, not really."),
        ("english", "I moved to Porto!! just kidding"),
        ("english", "I'm vegan. I moved to Porto. Haha kidding!"),
        ("english", "I love olives. NOT!"),
        ("german", "ich wohne in Berlin, ach nein, in Bern"),
        ("german", "ich wohne in Berlin. Stimmt gar nicht"),
        ("german", "ich bin nach Porto gezogen! War nur Spaß :)"),
    ],
)
def test_what_somebody_takes_back_in_the_same_message_is_not_learned(language: str, said: str) -> None:
    assert learned(said, language=language) == []


@pytest.mark.parametrize(
    ("language", "said", "content"),
    [
        ("english", "I live in Berlin, sorry, I mean Bern", "Ann lives in Bern."),
        ("english", "I live in Berlin. Sorry, I meant New York!", "Ann lives in New York."),
        ("english", "my birthday is 4 May... no, 5 May", "Ann has their birthday on 5 May."),
        ("english", "I live in Berlin, no wait, I live in Bern", "Ann lives in Bern."),
        ("english", "I live in Berlin. Correction: Bern.", "Ann lives in Bern."),
        ("english", "just kidding, I live in Rome", "Ann lives in Rome."),
        ("german", "ich wohne in Berlin, ich meine Bern", "Ann wohnt in Bern."),
        ("german", "ich wohne in Berlin. Quatsch, ich wohne in Bern", "Ann wohnt in Bern."),
    ],
)
def test_what_is_said_instead_is_learned_where_it_is_clear(language: str, said: str, content: str) -> None:
    assert [fact.content for fact in learned(said, language=language)] == [content]


def test_a_correction_takes_back_only_the_sentence_before_it() -> None:
    found = learned("I'm vegan. I live in Berlin. I mean Bern")
    assert sorted(fact.value for fact in found) == ["bern", "vegan"]


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("english", "I live in Rome. I mean it!"),
        ("english", "I live in Rome. I mean, who doesn't?"),
        ("english", "I live in Rome. Sorry, I meant to tell you earlier"),
        ("english", "I live in Rome, no, really"),
        ("english", "I live in Rome! no kidding"),
        ("english", "no, I live in Rome"),
        ("english", "I live in Rome. Not kidding!"),
        ("english", "wait, no one knows? I live in Rome"),
        ("german", "ich wohne in Rom. Ich meine das ernst."),
        ("german", "nein, ich wohne in Rom"),
    ],
)
def test_what_only_sounds_like_taking_back_takes_nothing_back(language: str, said: str) -> None:
    assert [fact.attribute for fact in learned(said, language=language)] == ["home"]
