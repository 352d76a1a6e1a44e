"""Facts by rules: what somebody denies or doubts is not learned as if they stated it."""

import pytest

from tests.enrich.stated import learned

DENIED = [
    ("english", "my name is not Bob"),
    ("english", "we haven't moved to Rome"),
    ("english", "I live in Rome no longer"),
    ("english", "I'm not a nurse"),
    ("english", "I'm allergic to nuts not eggs"),
    ("english", "my birthday is not on May 12th"),
    ("english", "my favourite colour is never green"),
    ("english", "the meeting is not on Friday"),
    ("english", "my visa ends not in June"),
    ("english", "we have not decided to meet at the Red Lion"),
    ("english", "Tom hasn't moved to Graz"),
    ("english", "he is not my brother"),
    ("english", "I love no olives"),
    ("english", "Tom likes no olives"),
    ("english", "I'm allergic to no nuts"),
    ("english", "I don't have a new car"),
    ("english", "I have no car keys"),
    ("german", "ich heiße nicht Bob"),
    ("german", "ich wohne nicht in Graz"),
    ("german", "nicht mehr in Graz wohne ich"),
    ("german", "ich bin doch nicht nach Bonn gezogen"),
    ("german", "ich ziehe nicht im Mai nach Köln"),
    ("german", "ich fange nicht bei Siemens an"),
    ("german", "ich bin nicht Arzt"),
    ("german", "ich bin kein Arzt"),
    ("german", "ich habe nicht gekündigt"),
    ("german", "ich habe niemals gekündigt"),
    ("german", "wir haben noch nicht geheiratet"),
    ("german", "wir haben uns nie getrennt"),
    ("german", "ich bin nicht schwanger"),
    ("german", "ich habe mir nie ein Auto gekauft"),
    ("german", "wir haben nicht unser Auto verkauft"),
    ("german", "ich bin gegen keine Nüsse allergisch"),
    ("german", "ich habe keine Nussallergie"),
    ("german", "ich habe kein Asthma"),
    ("german", "ich habe nicht mit dem Rauchen aufgehört"),
    ("german", "ich lerne kein Spanisch"),
    ("german", "ich bin noch nicht 30 geworden"),
    ("german", "mein Geburtstag ist nicht am 12. Mai"),
    ("german", "ich habe meine Prüfung nicht am Freitag"),
    ("german", "ich fahre morgen nicht nach Rom"),
    ("german", "ich habe nicht die Prüfung bestanden"),
    ("german", "ich trainiere nicht für den Marathon"),
    ("german", "mein Ziel ist nicht, Arzt zu werden"),
    ("german", "ich habe mich nicht für den Kurs angemeldet"),
    ("german", "ich war gestern nicht auf dem Konzert"),
    ("german", "ich bin zum Glück nicht operiert worden"),
    ("german", "ich wurde nicht befördert"),
    ("german", "montags habe ich keinen Chor"),
    ("german", "ich nehme täglich keine Tablette"),
    ("german", "mein Visum endet nicht im Juni"),
    ("german", "Tom kommt nicht am Freitag"),
    ("german", "ich bin nicht in Bob verliebt"),
    ("german", "meine Lieblingsfarbe ist nicht Grün"),
    ("german", "ich esse gern keine Oliven"),
    ("german", "Oliven mag ich nicht"),
    ("german", "ich spiele Klavier nicht mehr"),
    ("german", "wir haben nicht beschlossen, den Garten umzubauen"),
    ("german", "wir haben den Termin noch nicht vereinbart"),
    ("german", "Tom hat nicht gekündigt"),
    ("german", "das ist nicht meine Schwester"),
]


@pytest.mark.parametrize(("language", "said"), DENIED)
def test_what_somebody_denies_is_not_learned(language: str, said: str) -> None:
    assert learned(said, language=language) == []


@pytest.mark.parametrize(
    ("language", "said", "content", "value"),
    [
        ("english", "I have no dog", "Ann has no dog.", "no"),
        ("english", "we don't have any cats", "Ann has no cats.", "no"),
        ("english", "I have no kids", "Ann has no kids.", "no"),
        ("english", "I don't have a car", "Ann has no car.", "no"),
        ("english", "we have no car", "Ann has no car.", "no"),
        ("english", "Tom doesn't have a car", "Tom Miller has no car.", "no"),
        ("english", "I don't have a car any more", "Ann has no car any more.", "no"),
        ("english", "I sold my car", "Ann has no car any more.", "no"),
        ("english", "I'm planning to never fly again", "Ann wants to never fly.", "yes"),
        ("english", "I live in Rome, not in Paris", "Ann lives in Rome.", "rome"),
        ("english", "I'm not sure why but I live in Rome", "Ann lives in Rome.", "rome"),
        ("english", "we decided not to meet at the Red Lion", "Decided: not to meet at the Red Lion.", ""),
        ("german", "ich habe keinen Hund", "Ann hat keinen Hund.", "no"),
        ("german", "ich habe keine Kinder", "Ann hat keine Kinder.", "no"),
        ("german", "ich habe kein Auto mehr", "Ann hat kein Auto.", "no"),
        ("german", "ich bin gegen Nüsse nicht allergisch", "Ann ist nicht allergisch gegen Nüsse.", "no"),
        ("german", "Tom mag Oliven nicht", "Tom Miller mag nicht: Oliven.", "no"),
        ("german", "ich wohne nicht mehr in Graz", "Ann wohnt nicht mehr in Graz.", "not graz"),
        ("german", "ich wohne in Graz, nicht in Wien", "Ann wohnt in Graz.", "graz"),
    ],
)
def test_that_somebody_has_or_does_not_is_learned_as_such(
    language: str, said: str, content: str, value: str
) -> None:
    (fact,) = learned(said, language=language)
    assert (fact.content, fact.value) == (content, value)


def test_what_the_family_likes_is_not_what_they_like_none_of() -> None:
    assert [fact.attribute for fact in learned("my kids like no olives")] == ["relation children"]


@pytest.mark.parametrize(
    "said",
    [
        "I don't think that I'm allergic to nuts",
        "I doubt, frankly, that I'm allergic to nuts",
        "I deny that I'm allergic to nuts and that I have asthma",
        "it's not true that I'm allergic to nuts",
        "don't assume that I'm allergic to nuts",
        "she hates the rumour that I'm moving to Porto",
        "my doctor ruled out that I have diabetes",
        "there is no evidence that I have diabetes",
        "it's not because I'm moving to Porto",
        "it sounds as though I'm allergic to nuts",
        "my exam is not tomorrow",
        "my exam is no longer on Friday",
    ],
)
def test_what_the_words_before_it_deny_or_doubt_is_not_learned(said: str) -> None:
    assert learned(said) == []


def test_nor_is_it_in_german() -> None:
    assert learned("meine Prüfung ist nicht morgen", language="german") == []
    assert learned("nicht weil ich bin allergisch gegen Nüsse", language="german") == []


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("I can't believe that I'm moving to Porto", "Ann is moving to Porto."),
        ("don't forget that I'm moving to Porto", "Ann is moving to Porto."),
        ("I can't come because I'm moving to Porto", "Ann is moving to Porto."),
        ("I'm not sure about that, I'm moving to Porto", "Ann is moving to Porto."),
        ("I doubt it, but you know that I'm moving to Porto", "Ann is moving to Porto."),
    ],
)
def test_what_is_true_all_the_same_is_learned(said: str, content: str) -> None:
    assert [fact.content for fact in learned(said)] == [content]
