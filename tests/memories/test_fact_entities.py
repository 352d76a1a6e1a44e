"""What a fact of a language model names, and how that is related."""

import pytest

from pipeline.memories.fact_entities import entities_of
from tests.memories.told import fact

NAMES = {"Lena Berger": "test:lena", "Анна": "test:anna"}


@pytest.mark.parametrize(
    ("content", "attribute", "value", "relation", "name", "kind", "user_id"),
    [
        ("Bob lives in Porto.", "home", "porto", "home", "Porto", "place", ""),
        ("Боб живёт в Казани.", "home", "kazan", "home", "kazan", "place", ""),
        ("Bob 在字节跳动工作。", "employer", "字节跳动", "employer", "字节跳动", "organization", ""),
        ("Bob likes green tea.", "likes green tea", "yes", "likes", "green tea", "thing", ""),
        # of two people who write in the chat
        ("Bob is with Lena.", "partner", "lena", "partner", "Lena Berger", "person", "test:lena"),
        ("Bob teaches Анна.", "teaches анна", "yes", "teaches", "Анна", "person", "test:anna"),
        # nobody who writes there
        ("Bob is with Kim Lee.", "partner", "kim lee", "partner", "Kim Lee", "person", ""),
    ],
)
def test_a_fact_relates_its_subject_to_what_it_names(
    content: str, attribute: str, value: str, relation: str, name: str, kind: str, user_id: str
) -> None:
    bob, other = entities_of(fact(content, "Bob", attribute, value), "test:bob", NAMES, "english")
    assert (bob.user_id, bob.name, bob.kind, bob.relation) == ("test:bob", "Bob", "person", "")
    assert (other.relation, other.name, other.kind, other.user_id) == (relation, name, kind, user_id)
    assert (other.entity == "") == (user_id != "")


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("", ""),
        ("age", "34"),
        ("rent", "400 euros"),
        ("likes tea", "no"),
        ("home", "not porto"),
        ("plan", "to move to another town with everybody"),
        ("nickname", "bob"),
    ],
)
def test_amounts_denials_and_whole_sentences_are_no_entities(attribute: str, value: str) -> None:
    found = entities_of(fact("Bob.", "Bob", attribute, value), "", {}, "english")
    assert [(each.entity, each.name) for each in found] == [("bob", "Bob")]


def test_a_name_that_a_fact_gives_is_one_more_of_its_subject() -> None:
    said = fact("Lena Berger is called Leni.", "Lena Berger", "nickname", "leni")
    found = entities_of(said, "test:lena", NAMES, "english")
    assert [(each.user_id, each.alias, each.short) for each in found] == [
        ("test:lena", "lena berger", "lena"),
        ("test:lena", "leni", ""),
    ]


def test_a_group_is_no_entity_and_a_bot_is_a_thing() -> None:
    ours = fact("We rent a van.", "", "rents van", "yes", about="organization")
    assert [(each.name, each.relation) for each in entities_of(ours, "", NAMES, "english")] == [
        ("van", "rents")
    ]
    bot = fact("Marlow answers briefly.", "Marlow", "", "", about="agent")
    assert [each.kind for each in entities_of(bot, "", NAMES, "english")] == ["thing"]
