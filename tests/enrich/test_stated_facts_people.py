"""Facts by rules: a fact is about whom it was said of, and is said by who states it."""

from dataclasses import replace

import pytest

from pipeline.enrich.protocols import People, Source
from pipeline.enrich.stated_facts.extractor import RuleExtractor
from tests.enrich.stated import GROUP, learned
from tests.text.builders import conversation, message


@pytest.mark.parametrize(
    ("language", "said", "content"),
    [
        ("english", "my dog Bob is allergic to nuts", "Bob (Ann's dog) is allergic to nuts."),
        ("english", "my brother Bob lives in Rome", "Bob (Ann's brother) lives in Rome."),
        (
            "german",
            "mein Hund Bob ist allergisch gegen Nüsse",
            "Bob (der Hund von Ann) ist allergisch gegen Nüsse.",
        ),
    ],
)
def test_a_relation_or_a_pet_is_not_the_member_of_the_same_name(
    language: str, said: str, content: str
) -> None:
    found = learned(said, language=language)
    assert content in [fact.content for fact in found]
    assert {fact.about for fact in found} == {"speaker"}


def test_a_name_that_a_member_and_a_pet_have_means_neither() -> None:
    (pet,) = learned("my dog Bob is here", "my dog Bob is fun", "Bob is allergic to nuts")
    assert pet.content == "Bob is Ann's dog."
    (fact,) = learned("Bob is allergic to nuts")
    assert (fact.about, fact.subject) == ("person", "Bob")


@pytest.mark.parametrize("names", [{}, {"Max Miller": "telegram:Max"}])
def test_a_name_that_two_members_have_means_neither_and_is_known_all_the_same(names: dict[str, str]) -> None:
    people = People(kind="group", names={"Ann": "telegram:Ann"} | names, shared=frozenset({"Max"}))
    assert learned("Max is vegan", people=people) == []
    assert learned("Max: I live in Porto", people=people) == []


@pytest.mark.parametrize("author", ["Lena", ""])
def test_nothing_is_learned_of_who_forwards_a_message(author: str) -> None:
    passed_on = replace(message("I live in Porto"), metadata={"forwarded_from": author})
    assert RuleExtractor().extract([passed_on], people=GROUP, source=Source(language="english")) == []


def test_a_forwarded_yes_agrees_to_nothing() -> None:
    asked, yes = conversation("Ann: so saturday the 18th of april?", "Bob: yes")
    said = [asked, replace(yes, metadata={"forwarded_from": "Lena"})]
    assert RuleExtractor().extract(said, people=GROUP, source=Source(language="english")) == []


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("english", "Bob: I live in Porto"),
        ("english", "Tom Miller: I live in Porto"),
        ("english", "[18:30, 3/4/2026] Tom: I live in Porto"),
        ("english", "Bob:\nI live in Porto\nI speak Dutch"),
        ("english", "Lena wrote: nice here. I live in Porto."),
        ("english", "my landlord replied to me:\nI live in Porto"),
        ("german", "Bob: ich wohne in Porto"),
        ("german", "Lena schrieb: schön hier. Ich wohne in Porto."),
    ],
)
def test_nothing_is_learned_of_who_copies_what_others_wrote(language: str, said: str) -> None:
    assert learned(said, language=language) == []


def test_what_somebody_says_before_and_after_a_copied_message_is_learned() -> None:
    found = learned("I speak Dutch\nBob: I live in Porto\n\nI'm vegan")
    assert sorted(fact.attribute for fact in found) == ["diet", "speaks dutch"]


@pytest.mark.parametrize(
    "said", ["PS: I live in Porto", "update: I live in Porto", "Bob, listen: I live in Porto"]
)
def test_a_colon_alone_does_not_make_words_somebody_elses(said: str) -> None:
    assert [fact.attribute for fact in learned(said)] == ["home"]
