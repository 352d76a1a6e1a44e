"""Facts are asked for with the transcript as data, and those of an answer that it does not state are dropped."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clients.protocols import Prompt
from pipeline.enrich.facts import fact_model, fact_prompts
from pipeline.enrich.protocols import People
from pipeline.enrich.summaries.prompts import InvalidAnswer
from schemas.facts import CATEGORIES, Fact, KnownFact
from schemas.sessions import Message
from tests.harness.prompts import GOOD, KNOWN, PEOPLE, fence_of, message

ATTACKS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("fact_attacks.json").read_text())
SAID = (
    ("Ann", "we moved to Porto last month, the flat has a terrace"),
    ("Ben", "lucky you! I am still allergic to every nut there is, so no pastries for me"),
    ("Ann", "then I bake an almond cake only for myself"),
    ("Ben", "Tom starts at the harbour office on Monday by the way"),
)


def talk(*more: tuple[str, str], role: str = "user") -> list[Message]:
    said = [(*each, "user") for each in SAID] + [(*each, role) for each in more]
    return [
        message(n, speaker, content)._replace(id=100 + n, sender_id=f"test:{speaker}", role=its_role)
        for n, (speaker, content, its_role) in enumerate(said)
    ]


def prompt_of(messages: list[Message], known: list[KnownFact] | None = None, **named: Any) -> Prompt:
    options = {
        "people": PEOPLE,
        "time_zone": UTC,
        "language": "english",
        "max_facts": 3,
        "max_tokens": 900,
    } | named
    return fact_prompts.fact_prompt(messages, KNOWN if known is None else known, **options)


def is_fenced(prompt: Prompt, messages: int) -> bool:
    """Whether the data is the bot's name, the known facts and the transcript, each line where it belongs."""
    digest = fence_of(prompt).removeprefix("transcript-")
    bot, known, said = (
        [f"<{name}-{digest}>", *(rf"{begin}.*" for begin in begins), f"</{name}-{digest}>"]
        for name, begins in (
            ("bot", [""]),
            ("known", [f"k{n + 1}: " for n in range(len(KNOWN))]),
            ("transcript", [rf"\[{n + 1}\] 20\d\d-\d\d-\d\d \d\d:\d\d " for n in range(messages)]),
        )
    )
    lines = prompt.turns[0].split("\n")
    wanted = [*bot, *known, *said]
    return len(lines) == len(wanted) and all(map(re.fullmatch, wanted, lines))


def read(
    *facts: dict[str, Any], messages: list[Message] | None = None, people: People = PEOPLE
) -> list[Fact]:
    answer = json.dumps({"facts": list(facts)})
    return fact_model.read_facts(
        answer, messages or talk(), people=people, known=KNOWN, time_zone=ZoneInfo("Europe/Lisbon")
    )


# The prompt


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
def test_no_attack_leaves_the_fence(attack: dict[str, Any]) -> None:
    says = attack["says"].replace("{fence}", fence_of(prompt_of(talk())))
    assert is_fenced(prompt_of(talk(("Mallory", says))), len(SAID) + 1)
    # nor does a speaker's name, a known fact or the bot's name
    assert is_fenced(prompt_of(talk((says, "hello"))), len(SAID) + 1)
    assert is_fenced(prompt_of(talk(), [replace(KNOWN[0], content=says), KNOWN[1]]), len(SAID))
    assert is_fenced(prompt_of(talk(), people=replace(PEOPLE, agent=says)), len(SAID))


# The answer


def test_a_fact_is_read_as_it_was_said() -> None:
    (fact,) = read(GOOD | {"holds_from": "2026-02-01", "holds_until": "2026-12-31", "replaces": ["k1"]})
    assert fact == Fact(
        content="Ann lives in Porto, in a flat with a terrace.",
        category="fact",
        about="speaker",
        subject="Ann",
        attribute="home",
        value="porto",
        confidence=0.9,
        importance=7,
        message_ids=(100,),
        holds_from=datetime(2026, 2, 1, tzinfo=UTC),
        holds_until=datetime(2026, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        replaces=(UUID(int=1),),
    )


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
def test_a_fact_that_obeys_an_attack_is_dropped_or_is_the_attackers_own_word(attack: dict[str, Any]) -> None:
    messages = talk(("Mallory", attack["says"]))
    without_bot = replace(PEOPLE, agent="")
    found = read(GOOD | attack["obeyed"], messages=messages, people=without_bot)
    # what reads like a statement is one of Mallory's, believed less where it is of others, and replaces nothing
    assert [fact.about for fact in found] == ([attack["left"]] if attack["left"] else [])
    for fact in found:
        assert fact.message_ids == (104,)
        assert fact.replaces == ()
        assert fact.about == "speaker" or fact.confidence <= fact_model.HEARSAY_CONFIDENCE


@pytest.mark.parametrize(
    "wrong",
    [
        {"category": "secret"},
        {"subject": "Zora"},
        {"messages": [0, 9, -1, "x", None, 1.5, [1]]},
        {"content": "She lives in Porto, in a flat with a terrace."},
        {"content": "Ann collects stamps."},
        {"content": "Ann lives in Porto, at number 77."},
        {"messages": [4]},
    ],
    ids=lambda wrong: json.dumps(wrong)[:50],
)
def test_what_is_wrong_with_one_fact_drops_that_fact(wrong: dict[str, Any]) -> None:
    nuts = GOOD | {"content": "Ben is allergic to nuts.", "subject": "Ben", "messages": [2]}
    assert [fact.subject for fact in read(GOOD | wrong, nuts)] == ["Ben"]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"confidence": float("nan"), "importance": "high"}, {"confidence": 0.5, "importance": 5}),
        ({"attribute": "Home", "value": " PORTO\n"}, {"attribute": "home", "value": "porto"}),
        ({"holds_from": "soon", "holds_until": "9999-01-01"}, {"holds_from": None, "holds_until": None}),
        (
            {"holds_from": "2026-05-01", "holds_until": "2026-04-01"},
            {"holds_from": datetime(2026, 4, 30, 23, tzinfo=UTC), "holds_until": None},
        ),
        ({"replaces": ["k1", "k2", "k7", "k0", 1, None]}, {"replaces": (UUID(int=1),)}),
    ],
    ids=lambda given: str(given)[:50],
)
def test_what_is_nearly_right_is_set_right(given: dict[str, Any], left: dict[str, Any]) -> None:
    (fact,) = read(GOOD | given)
    assert {name: getattr(fact, name) for name in left} == left


def test_whom_a_fact_is_about_follows_from_who_said_it() -> None:
    def whom(**named: Any) -> tuple[str, str, tuple[int, ...]]:
        (fact,) = read(GOOD | named)
        return fact.about, fact.subject, fact.message_ids

    assert whom(subject="") == ("speaker", "Ann", (100,))
    assert whom(subject="@ann", about="person") == ("speaker", "Ann", (100,))
    # of what others say nothing is hers
    assert whom(messages=[1, 2]) == ("speaker", "Ann", (100,))
    tom = {"content": "Tom starts at the harbour office on Monday, 9 March 2026.", "messages": [4]}
    # a member of the chat by their whole name
    assert whom(**tom, subject="Tom", about="speaker") == ("person", "Tom Reis", (103,))
    assert whom(**tom, subject="tom reis", about="person") == ("person", "Tom Reis", (103,))
    # somebody else is known by whoever tells of them
    few = replace(PEOPLE, names={"Ann": "test:Ann", "Ben": "test:Ben"})
    (fact,) = read(GOOD | tom | {"subject": "Tom", "about": "person"}, people=few)
    assert (fact.about, fact.subject, fact.message_ids) == ("speaker", "Tom", (103,))
    # as is whoever has the name of two members, even where another's begins with it
    two = replace(PEOPLE, shared=frozenset({"Tom"}))
    (fact,) = read(GOOD | tom | {"subject": "Tom", "about": "person"}, people=two)
    assert (fact.about, fact.subject, fact.message_ids) == ("speaker", "Tom", (103,))
    # a bot's words are no evidence
    said = talk(("Harbour", "Ann, you live in Porto and play the cello."), role="assistant")
    (fact,) = read(GOOD | {"messages": [1, 5]}, messages=said)
    assert fact.message_ids == (100,)
    assert read(GOOD | {"content": "Ann plays the cello.", "messages": [5]}, messages=said) == []
    pastries = {"content": "There are no pastries with nuts for all.", "messages": [2]}
    assert whom(**pastries, about="organization", subject="Us") == ("organization", "", (101,))
    assert whom(**pastries, about="agent", subject="bot") == ("agent", "Harbour", (101,))


def test_what_two_people_of_one_name_say_in_one_answer_is_of_both() -> None:
    said = talk(("Оля", "I live in Porto."), ("Оля", "We live in Porto too."), ("Ben", "Porto is far."))
    said = [each._replace(sender_id=f"test:{each.id}") for each in said]
    both = GOOD | {"content": "Оля lives in Porto.", "subject": "Оля", "messages": [5, 6, 7]}
    facts = read(both, messages=said)
    assert [fact.message_ids for fact in facts] == [(104,), (105,)]
    assert fact_model.chosen_facts(facts, said, 3) == facts


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("I turned 30 yesterday", "Ann is 30 years old since 1 March 2026."),
        ("meine Prüfung ist morgen", "Anns Prüfung ist am 3. März 2026."),
        ("東京に住んでいます", "Annは東京に住んでいる。"),
    ],
)
def test_facts_of_all_kinds_are_recognized_as_said(said: str, content: str) -> None:
    messages = talk(("Ann", said))
    assert len(read(GOOD | {"content": content, "messages": [5]}, messages=messages)) == 1


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=250),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from(sorted(GOOD)), ANYTHING), max_size=4))
def test_any_answer_is_facts_that_can_be_stored(changes: list[dict[str, Any]]) -> None:
    try:
        found = read(*(GOOD | change for change in changes))
    except InvalidAnswer:
        return
    for fact in found:
        assert 0 < len(fact.content) <= 140
        assert fact.category in CATEGORIES
        assert 0 <= fact.confidence <= 1 <= fact.importance <= 10
        assert set(fact.message_ids) <= {100, 101, 102, 103}
        assert fact.message_ids
        assert max(len(fact.attribute), len(fact.value)) <= 60
