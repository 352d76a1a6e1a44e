"""A person's page: what is known of them, since when and from where, and nothing that may not be shown there."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.memories import manual_changes, pages, statements
from pipeline.store.connections.database import Database
from schemas.errors import NotFound
from schemas.memory.memories import MemoryIn
from schemas.memory.memory_changes import MemoryCorrection
from schemas.messages import ChatIn
from schemas.people.user_pages import KnownMemory, UserFilter, UserPage
from tests.conftest import EPOCH, TENANT, message
from tests.memories.learned import evidence

HOUSE = ChatIn(chat_id="test:house", title="Harbour House")
ALONE = ChatIn(chat_id="test:alone", kind="direct")
ANN, BOB = "test:ann", "test:bob"


@pytest.fixture
def house(database: Database) -> Database:
    """Ann and Bob in a group, and Ann alone with the bot."""
    accept.accept(
        database,
        TENANT,
        HOUSE,
        [message(n, id=f"h{n}", sender_id=who) for n, who in enumerate((ANN, BOB, ANN))],
    )
    accept.accept(database, TENANT, ALONE, [message(-60, id="a0", sender_id=ANN)])
    return database


def write(database: Database, content: str, chat: ChatIn | None = HOUSE, **fields: Any) -> UUID:
    given = {"scope": "user", "user_id": ANN, "content": content, "said_at": EPOCH, "type": "fact"}
    given |= {"learned_in": chat.chat_id if chat else None}
    written = statements.remember(database, TENANT, MemoryIn.model_validate(given | fields))
    assert written.id is not None
    return written.id


def learn(database: Database, memory: UUID, *said: tuple[ChatIn, str]) -> None:
    """Let a memory be one that these messages say."""
    evidence(database, memory, *(f"{chat.chat_id}/{external_id}" for chat, external_id in said))
    with database.tenant(TENANT) as connection:
        connection.execute(
            text("""
                UPDATE memories SET learned_by = 'rules-v1', subject = 'Ann', confidence = 0.8,
                    also_in = ARRAY(SELECT DISTINCT chat_id FROM memory_evidence
                        WHERE memory_id = :id AND chat_id <> learned_in)
                WHERE id = :id
            """),
            {"id": memory},
        )


def page(database: Database, chat: ChatIn | None = None, **wanted: Any) -> UserPage:
    given = UserFilter(chat_id=chat.chat_id if chat else None, **wanted)
    return pages.user_page(database, TENANT, ANN, given)


def contents(memories: list[KnownMemory]) -> list[str]:
    return [each.content for each in memories]


def test_a_page_says_what_is_known_since_when_and_from_where(house: Database) -> None:
    tea = write(house, "Ann likes tea.", type="preference", importance=7)
    learn(house, tea, (HOUSE, "h2"), (HOUSE, "h0"), (ALONE, "a0"))
    shown = page(house)
    assert (shown.user_id, shown.chats, shown.memories, shown.earlier) == (ANN, 2, 1, [])
    (known,) = shown.current
    assert (known.content, known.type, known.about, known.since) == (
        "Ann likes tea.",
        "preference",
        "Ann",
        EPOCH,
    )
    assert (known.learned_in.chat_id, known.learned_in.title) == ("test:house", "Harbour House")
    assert [each.chat_id for each in known.also_in] == ["test:alone"]
    assert [(each.chat_id, each.external_id) for each in known.messages] == [
        ("test:alone", "a0"),
        ("test:house", "h0"),
        ("test:house", "h2"),
    ]
    assert (round(known.confidence, 1), known.importance, known.access_count) == (0.8, 7, 0)
    assert (known.learned_by, known.superseded_by, known.retracted_at) == ("rules-v1", [], None)


def test_what_was_superseded_or_wrong_stands_below_with_what_became_of_it(house: Database) -> None:
    porto, boat = write(house, "Ann lives in Porto."), write(house, "Ann has a boat.", None)
    at = datetime(2026, 5, 3, tzinfo=UTC)
    braga = manual_changes.correct(
        house, TENANT, porto, MemoryCorrection(content="Ann lives in Braga.", said_at=at)
    ).id
    manual_changes.correct(house, TENANT, boat, MemoryCorrection(said_at=at))
    shown = page(house)
    assert [each.id for each in shown.current] == [braga]
    assert (shown.current[0].since, shown.current[0].source) == (at, "correction")
    by_id = {each.id: each for each in shown.earlier}
    assert by_id.keys() == {porto, boat}
    assert by_id[boat].retracted_at == at
    (newer,) = by_id[porto].superseded_by
    assert (newer.id, newer.content, newer.since) == (braga, "Ann lives in Braga.", at)


def test_in_a_chat_a_page_shows_only_what_may_be_shown_there(house: Database) -> None:
    write(house, "Ann has a secret.", ALONE)
    porto = write(house, "Ann lives in Porto.")
    both = write(house, "Ann likes tea.", ALONE, said_at=EPOCH - timedelta(hours=1))
    learn(house, both, (ALONE, "a0"), (HOUSE, "h0"))
    # Given that she says in private that she has moved
    moved = MemoryCorrection(content="Ann lives in Faro.", chat_id=ALONE.chat_id)
    faro = manual_changes.correct(house, TENANT, porto, moved).id
    # Then that changes nothing in the group, where not even the private chat is named
    group = page(house, HOUSE)
    assert set(contents(group.current)) == {"Ann lives in Porto.", "Ann likes tea."}
    assert group.earlier == []
    tea = next(each for each in group.current if each.id == both)
    assert (tea.learned_in, [each.chat_id for each in tea.also_in]) == (None, ["test:house"])
    assert [each.external_id for each in tea.messages] == ["h0"]
    # nor when and how much was said there
    assert tea.since == EPOCH
    assert (group.chats, group.memories) == (1, 2)
    assert "test:alone" not in group.model_dump_json()
    assert "Faro" not in group.model_dump_json()
    # and where she is alone she sees all of it
    alone = page(house, ALONE)
    assert set(contents(alone.current)) == {"Ann lives in Faro.", "Ann likes tea.", "Ann has a secret."}
    assert [(each.id, each.superseded_by[0].id) for each in alone.earlier] == [(porto, faro)]
    with pytest.raises(NotFound, match="there is no chat test:nowhere"):
        page(house, ChatIn(chat_id="test:nowhere"))
