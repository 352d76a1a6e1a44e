"""What people look for by the letter is found: names, amounts, times, links, code."""

import pytest

from pipeline.text.entities import entities


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://example.org/a?b=1, then call", ["https://example.org/a?b=1"]),
        ("mail ann.lee@example.org or ask @harbourbot", ["ann.lee@example.org", "@harbourbot"]),
        ("pay 240 € or $5.50 or 20 euros", ["240 €", "$5.50", "20 euros"]),
        ("on 28 March at 9:00, not May 3rd at 5pm", ["28 March", "9:00", "May 3rd", "5pm"]),
        ("keep it at 1.4 bar", ["1.4 bar"]),
        ("error E41 in parse_time of api.py, see `make it`", ["E41", "parse_time", "api.py", "make it"]),
        ("call +351 900 000 147", ["+351 900 000 147"]),
        ("we saw Ana Maria da Silva in New York", ["Ana Maria da Silva", "New York"]),
        ("Rang Zulmira about it", ["Zulmira"]),
        ("The Santa Preguiça. It leaves. I THINK I know", ["Santa Preguiça"]),
    ],
)
def test_each_kind_is_recognized_where_it_stands(text: str, found: list[str]):
    assert entities([text], "english") == found


def test_a_word_that_begins_sentences_is_a_name_when_it_comes_up_again():
    assert entities(["Beatriz can tomorrow", "ok. Beatriz it is"], "english") == ["Beatriz"]
    assert entities(["Bread is in the oven", "the bread is ready. Bread!"], "english") == []


def test_the_most_frequent_come_first_and_known_names_not_at_all():
    texts = ["we met Amílcar and Beatriz", "so Beatriz, Ann and Mel?", "dear Beatriz"]

    assert entities(texts, "english", known=["Ann Lee", "Melanie"]) == ["Beatriz", "Amílcar"]
    assert entities(texts, "english", known=["Ann Lee", "Melanie"], limit=1) == ["Beatriz"]


def test_where_all_nouns_are_capitalized_a_capital_makes_no_name() -> None:
    said = [
        "ich habe in der Nacht Stimmen gehört und das Tor war offen",
        "wir waren den ganzen Tag mit Frau Schmidt in Bad Tölz, und das Tor ist noch nicht zu",
        "aber das Tor kostet 240 Euro",
    ]
    found = entities(said, "english")
    assert {"Frau Schmidt", "Bad Tölz"} <= set(found)
    assert not {"Nacht", "Stimmen", "Tor", "Tag"} & set(found)
    assert "Beatriz" in entities(["we saw Beatriz in the garden and the gate was open"], "english")
