"""The entity graph knows who and what sessions speak of, and shows nothing from a chat that may not be shown."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from pipeline.erasure import edits, forget
from pipeline.ingest import accept, chat_moves
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories import entities
from pipeline.memories.entity_graph import note_session
from pipeline.memories.statements import remember
from pipeline.store import messages, sessions
from pipeline.store import suppression as suppression_list
from pipeline.store.database import Database
from schemas.entities import Entity, EntityFilter, EntityPlace
from schemas.errors import NotFound
from schemas.facts import KnownFact
from schemas.forgetting import Subject
from schemas.memories import MemoryIn
from schemas.messages import ChatIn, MessageIn
from tests.conftest import EPOCH, TENANT, message
from tests.memories.learned import change
from tests.test_pipeline import learns, place, rows, run, summarizer

GROUP = ChatIn(chat_id="test:group", title="Group")
DIRECT = ChatIn(chat_id="test:direct", title="Direct", kind="direct")
TABLES = ("entities", "entity_aliases", "entity_links", "entity_relations")


def says(who: str, minute: float, content: str) -> MessageIn:
    return message(
        minute, content, id=f"{who}{minute}", sender_id=f"test:{who.split()[0].lower()}", sender_name=who
    )


IN_THE_GROUP = [
    says("Ann", 0, "I am back from a week in Porto with the whole family."),
    says("Bob", 1, "Porto is lovely. I think Lena Berger lived in Porto for years."),
    says("Ann", 2, "Oh, did Lena work for Kranz GmbH there?"),
    says("Bob", 3, "She did, and she will come to the party."),
]
ALONE = [
    says("Ann", 0, "Between us: I am going to marry Zoltan in Vienna."),
    says("Ann", 1, "Zoltan has already asked my father."),
    says("Ann", 2, "The ring comes from Vienna."),
    says("Ann", 3, "Tell nobody."),
]


def note(database: Database, facts: Sequence[KnownFact] = ()) -> None:
    """Learn from every session."""
    with database.tenant(TENANT) as connection:
        for row in sessions.listing(connection, None, limit=100):
            suppression_list.lock(connection, TENANT, row.chat_id)
            said = messages.in_range(
                connection, row.chat_id, row.session_key, row.started_at, row.ended_at, limit=1000
            )
            here = facts if row.chat_id == GROUP.chat_id else ()
            note_session(connection, TENANT, row.id, row.chat_id, said, here, "english")


@pytest.fixture
def talked(database: Database, rules: SessionPolicy, policy: Policy) -> Database:
    """A group of two, and what one of them told a bot alone."""
    accept.accept(database, TENANT, GROUP, IN_THE_GROUP)
    accept.accept(database, TENANT, DIRECT, ALONE)
    place(database, rules, policy)
    run(database, "summarize", summarizer(database), policy)
    note(database)
    return database


def shown(database: Database, name: str, chat: ChatIn | None = None) -> Entity:
    where = EntityPlace(chat_id=chat and chat.chat_id, user_id=chat and "test:ann")
    (found,) = entities.show(database, TENANT, name, where).entities
    return found


def listed(database: Database, chat: ChatIn | None = None) -> dict[str, str]:
    wanted = EntityFilter(chat_id=chat and chat.chat_id)
    return {each.name: each.kind for each in entities.listing(database, TENANT, wanted).entities}


def contents(database: Database) -> list[list[tuple[object, ...]]]:
    return [rows(database, f"SELECT count(*) FROM {table}") for table in TABLES]


def test_people_places_and_organizations_are_told_apart(talked: Database) -> None:
    assert listed(talked, GROUP) == {
        "Porto": "place",
        "Lena Berger": "unknown",
        "Ann": "person",
        "Bob": "person",
        "Kranz GmbH": "organization",
    }


def test_an_entity_knows_where_it_is_mentioned_and_with_whom(talked: Database) -> None:
    porto = shown(talked, "porto")
    assert (porto.name, porto.mentions, porto.sessions, porto.chats) == ("Porto", 2, 1, ["test:group"])
    assert [link.preview for link in porto.links] == [IN_THE_GROUP[1].content, IN_THE_GROUP[0].content]
    assert {each.name for each in porto.related} == {"Ann", "Bob", "Lena Berger"}
    # named in one sentence, and by Bob
    assert porto.related[0].name in {"Lena Berger", "Bob"}
    assert porto.first_at == EPOCH


def test_somebody_who_writes_is_one_person_under_each_of_their_names(
    talked: Database, rules: SessionPolicy, policy: Policy
) -> None:
    lena = [
        message(100 + n, said, id=f"l{n}", sender_id="test:lena", sender_name="Lena Berger")
        for n, said in enumerate(["Hello, I am new here", "I like it", "Who is at the party?", "See you"])
    ]
    accept.accept(talked, TENANT, GROUP, [*lena, says("Bob", 104, "Great that you come, Lena!")])
    place(talked, rules, policy)
    note(talked)
    found = shown(talked, "Lena")
    assert (found.kind, found.user_id, found.mentions) == ("person", "test:lena", 3)
    assert found == shown(talked, "lena berger") == shown(talked, "test:lena")


def test_a_learned_fact_relates_what_it_names(talked: Database) -> None:
    written = remember(
        talked,
        TENANT,
        MemoryIn(
            scope="user", user_id="test:bob", learned_in=GROUP.chat_id, content="Bob's sister lives in Faro."
        ),
    )
    assert isinstance(written.id, UUID)
    fact = KnownFact(
        id=written.id,
        content="Bob's sister lives in Faro.",
        subject="Bob",
        attribute="sister",
        value="faro",
        said_at=EPOCH,
    )
    note(talked, [fact])
    faro = shown(talked, "Faro")
    assert [(link.memory_id, link.preview) for link in faro.links] == [(str(written.id), fact.content)]
    assert [(each.name, each.weight) for each in faro.related] == [("Bob", 3.0)]


def test_learning_notes_who_and_what_sessions_that_are_over_speak_of_where_that_is_wanted(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    def learned(town: str, at: datetime, *, entity_graph: bool = True) -> dict[str, str]:
        said = [f"I live in {town}.", f"{town} is lovely, and near {town} is the sea."]
        moved = [
            says("Ann", n, content).model_copy(
                update={"external_id": f"{town}{n}", "sent_at": at + timedelta(minutes=n)}
            )
            for n, content in enumerate(said)
        ]
        accept.accept(database, TENANT, GROUP, moved)
        place(database, rules, policy)
        run(database, "extract", learns(database, entity_graph=entity_graph), policy)
        return listed(database)

    assert learned("Faro", EPOCH, entity_graph=False) == {}
    assert learned("Porto", EPOCH + timedelta(days=1)) == {"Ann": "person", "Porto": "place"}
    # the last is going on
    assert "Lisbon" not in learned("Lisbon", datetime.now(UTC) - timedelta(minutes=5))
    porto = shown(database, "Porto")
    assert [link.preview for link in porto.links if link.memory_id] == ["Ann lives in Porto."]
    assert [each.name for each in porto.related] == ["Ann"]


def test_what_is_known_to_be_wrong_is_no_longer_told_of_an_entity(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    moved = [says("Ann", n, said) for n, said in enumerate(["I live in Porto.", "Porto is lovely."])]
    accept.accept(database, TENANT, GROUP, [*moved, says("Ann", 1000, "Hello again.")])
    place(database, rules, policy)
    run(database, "extract", learns(database, entity_graph=True), policy)
    ((memory, *_),) = rows(database, "SELECT id FROM memories")
    assert str(memory) in {link.memory_id for link in shown(database, "Porto").links}
    assert isinstance(memory, UUID)
    change(database, memory, retracted_at=EPOCH)
    assert {link.memory_id for link in shown(database, "Porto").links} == {None}


def test_learning_again_changes_nothing(talked: Database) -> None:
    before = contents(talked)
    note(talked)
    assert contents(talked) == before


def test_nothing_told_in_private_is_shown_in_the_group(talked: Database) -> None:
    assert {"Zoltan", "Vienna"} <= listed(talked, DIRECT).keys()
    assert not {"Zoltan", "Vienna"} & listed(talked, GROUP).keys()
    with pytest.raises(NotFound):
        shown(talked, "Zoltan", GROUP)
    # Ann is in both: what is told of her is of the place where it is asked
    assert {each.name for each in shown(talked, "Ann", GROUP).related} == {
        "Porto",
        "Lena Berger",
        "Kranz GmbH",
    }
    assert "Zoltan" in {each.name for each in shown(talked, "Ann").related}


# Erasing


def test_an_edit_takes_away_what_the_old_text_named(
    talked: Database, rules: SessionPolicy, policy: Policy
) -> None:
    edits.edit(talked, TENANT, DIRECT.chat_id, "Ann0", "Between us: I am going to marry.", None, rules)
    assert not {"Zoltan", "Vienna"} & listed(talked).keys()
    place(talked, rules, policy)
    note(talked)
    assert "Vienna" in listed(talked)


def test_a_deleted_message_leaves_no_name_behind(talked: Database, rules: SessionPolicy) -> None:
    edits.delete(talked, TENANT, GROUP.chat_id, "Ann2", rules)
    note(talked)
    assert "Kranz GmbH" not in listed(talked)
    assert rows(talked, "SELECT count(*) FROM entities WHERE name = 'kranz gmbh'") == [(0,)]


def test_a_forgotten_person_is_no_entity_anywhere(
    talked: Database, rules: SessionPolicy, policy: Policy
) -> None:
    forget.start(talked, TENANT, Subject(kind="user", sender_id="test:bob"))
    run(talked, "forget", forget.forgetter(talked, rules), policy)
    for _ in ("at once", "and when it is learned again"):
        assert "Bob" not in listed(talked)
        note(talked)
    assert "Porto" in listed(talked)
    assert rows(talked, "SELECT count(*) FROM entity_aliases WHERE alias LIKE 'bob%'") == [(0,)]


@pytest.mark.parametrize("kind", ["chat", "tenant"])
def test_a_forgotten_chat_or_tenant_leaves_nothing(
    talked: Database, rules: SessionPolicy, policy: Policy, kind: str
) -> None:
    chats = [GROUP.chat_id, DIRECT.chat_id] if kind == "chat" else [None]
    for chat in chats:
        forget.start(talked, TENANT, Subject(kind=kind, chat_id=chat))  # type: ignore[arg-type]
    run(talked, "forget", forget.forgetter(talked, rules), policy)
    assert contents(talked) == [[(0,)]] * 4


def test_a_moved_chat_takes_its_entities_along(
    talked: Database, rules: SessionPolicy, policy: Policy
) -> None:
    chat_moves.start(talked, TENANT, GROUP.chat_id, "test:moved")
    run(talked, "forget", forget.forgetter(talked, rules), policy)
    assert shown(talked, "Porto").chats == ["test:moved"]
    assert {each.chats[0] for each in shown(talked, "Porto").related} == {"test:moved"}


def test_joined_sessions_are_learned_from_as_one(
    talked: Database, rules: SessionPolicy, policy: Policy
) -> None:
    accept.accept(talked, TENANT, GROUP, [says("Bob", 50, "Is Faro near?"), says("Ann", 51, "Faro is far.")])
    place(talked, rules, policy)
    note(talked)
    assert shown(talked, "Faro").sessions == 1
    accept.accept(talked, TENANT, GROUP, [says("Bob", 25, "Still here.")])
    place(talked, rules, policy)
    note(talked)
    assert shown(talked, "Faro").links[0].session_id == shown(talked, "Porto").links[0].session_id


def test_what_two_sessions_name_at_once_is_kept_by_both(talked: Database) -> None:
    """Sessions that name the same are learned from by several workers, and none takes it from another."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: note(talked), range(8)))
    assert shown(talked, "Porto").mentions == 2
    assert rows(
        talked,
        "SELECT count(*) FROM entities e WHERE NOT EXISTS "
        "(SELECT 1 FROM entity_aliases a WHERE a.entity_id = e.id)",
    ) == [(0,)]
