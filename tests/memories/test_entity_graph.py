"""The entity graph holds what a language model's facts name, and goes with the memories that it comes from."""

from uuid import UUID

import pytest

from pipeline.erasure import edits, forget
from pipeline.memories import entities, statements
from pipeline.memories.entities import entities_of
from pipeline.operations import transfer
from pipeline.store.connections.database import Database
from schemas.errors import NotFound
from schemas.facts import Entity, EntityFilter, EntityPlace
from schemas.memories import MemoryCorrection
from schemas.messages import ChatIn
from schemas.people import Subject
from tests.conftest import TENANT, Templates
from tests.harness.learning import DIRECT, GROUP, Talk, tell
from tests.harness.pipeline import forget_all, rows
from tests.memories.told import ToldModel, fact


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("told", lambda database: tell(Talk(database)))


@pytest.fixture
def talk(database: Database) -> Talk:
    again = Talk(database)
    again.reading = ToldModel()
    return again


def shown(talk: Talk, name: str, chat: ChatIn | None = None) -> Entity:
    where = EntityPlace(chat_id=chat and chat.chat_id, user_id=chat and "test:ann")
    (found,) = entities.show(talk.database, TENANT, name, where).entities
    return found


def listed(talk: Talk, chat: ChatIn | None = None) -> dict[str, str]:
    wanted = EntityFilter(chat_id=chat and chat.chat_id, user_id=chat and "test:ann")
    return {each.name: each.kind for each in entities.listing(talk.database, TENANT, wanted).entities}


def relations(entity: Entity) -> set[tuple[str, str, bool]]:
    return {(each.relation, each.name, each.inverse) for each in entity.related}


def test_facts_of_a_language_model_become_entities_with_typed_relations(talk: Talk) -> None:
    assert listed(talk, GROUP) == {
        "Lena": "person",
        "Köln": "place",
        "Ann": "person",
        "王芳": "person",
        "里斯本银行": "organization",
    }
    lena = shown(talk, "LENA")
    assert (lena.user_id, lena.description, lena.memories) == ("test:lena", "Lena wohnt in Köln.", 2)
    assert relations(lena) == {("home", "Köln", False), ("partner", "Ann", True)}
    assert lena == shown(talk, "test:lena")
    koeln = shown(talk, "köln")
    assert {link.preview for link in koeln.links} == {"Lena wohnt in Köln.", "We have an office in Köln."}
    assert relations(koeln) == {("home", "Lena", True)}
    assert koeln.chats == [GROUP.chat_id]


def test_nothing_told_in_private_is_shown_in_the_group(talk: Talk) -> None:
    assert "Vienna" in listed(talk, DIRECT)
    assert "Vienna" not in listed(talk, GROUP)
    with pytest.raises(NotFound):
        shown(talk, "Vienna", GROUP)
    # Ann is in both: what is told of her is of the place where it is asked
    assert relations(shown(talk, "Ann", GROUP)) == {("partner", "Lena", False)}
    assert ("wedding", "Vienna", False) in relations(shown(talk, "Ann", DIRECT))


def test_what_is_known_to_be_wrong_was_replaced_or_deleted_names_nothing_any_more(talk: Talk) -> None:
    talk.say(50, "Lena wohnt jetzt in Bonn. | Lena | home | bonn", who="Lena")
    talk.learn()
    assert ("home", "Bonn", False) in relations(shown(talk, "Lena"))
    assert ("home", "Köln", False) not in relations(shown(talk, "Lena"))
    (bonn,) = shown(talk, "Bonn").links
    statements.correct(talk.database, TENANT, UUID(bonn.memory_id), MemoryCorrection())
    assert "Bonn" not in listed(talk)
    # nor does what was deleted
    edits.delete(talk.database, TENANT, GROUP.chat_id, f"{GROUP.chat_id}-9", talk.rules)
    assert not {"王芳", "里斯本银行"} & listed(talk).keys()
    assert rows(talk.database, "SELECT count(*) FROM memory_entities WHERE alias = '王芳'") == [(0,)]


def test_a_person_is_exported_with_what_names_them_and_once_forgotten_related_to_nobody(talk: Talk) -> None:
    records = transfer.export_user(talk.database, TENANT, "test:lena")
    (entity,) = [record for record in records if record["record"] == "entity"]
    assert entity["names"] == ["Lena"]
    named_in = rows(talk.database, "SELECT id FROM memories WHERE content ~ 'Lena' ORDER BY id")
    assert entity["named_in"] == [row[0] for row in named_in]
    forget.start(talk.database, TENANT, Subject(kind="user", sender_id="test:lena"))
    forget_all(talk.database)
    assert "Lena" not in listed(talk)
    assert relations(shown(talk, "Ann", GROUP)) == set()
    assert relations(shown(talk, "Köln")) == set()
    assert rows(talk.database, "SELECT count(*) FROM memory_entities WHERE user_id = 'test:lena'") == [(0,)]


# What a fact names


NAMES = {"Lena Berger": "test:lena", "Анна": "test:anna"}


@pytest.mark.parametrize(
    ("content", "attribute", "value", "relation", "name", "kind", "user_id"),
    [
        ("Bob lives in Porto.", "home", "porto", "home", "Porto", "place", ""),
        ("Bob 在字节跳动工作。", "employer", "字节跳动", "employer", "字节跳动", "organization", ""),
        ("Bob likes green tea.", "likes green tea", "yes", "likes", "green tea", "thing", ""),
        # of somebody who writes in the chat
        ("Bob teaches Анна.", "teaches анна", "yes", "teaches", "Анна", "person", "test:anna"),
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
    [("age", "34"), ("likes tea", "no"), ("home", "not porto"), ("plan", "to move to town with everybody")],
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
