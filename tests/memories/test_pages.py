"""A person's page: what is known of them, since when and from where, and nothing that may not be shown there."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from pipeline.ingest import accept
from pipeline.memories import entities, statements
from pipeline.store.connections.database import Database
from schemas.errors import NotFound
from schemas.memories import MemoryCorrection, MemoryIn
from schemas.messages import ChatIn
from schemas.people import KnownMemory, UserFilter, UserPage
from tests.conftest import EPOCH, TENANT, message
from tests.memories.learned import change, evidence

HOUSE = ChatIn(chat_id="test:house", title="Harbour House")
ALONE = ChatIn(chat_id="test:alone", kind="direct")
ANN, BOB = "test:ann", "test:bob"


@pytest.fixture
def house(database: Database) -> Database:
    """Ann and Bob in a group, and Ann alone with the bot."""
    both = [message(n, id=f"h{n}", sender_id=who) for n, who in enumerate((ANN, BOB))]
    accept.accept(database, TENANT, HOUSE, both)
    accept.accept(database, TENANT, ALONE, [message(-60, id="a0", sender_id=ANN)])
    return database


def write(database: Database, content: str, chat: ChatIn = HOUSE, **fields: Any) -> UUID:
    given = {"scope": "user", "user_id": ANN, "content": content, "said_at": EPOCH, "type": "fact"}
    given |= {"learned_in": chat.chat_id}
    written = statements.remember(database, TENANT, MemoryIn.model_validate(given | fields))
    assert written.id is not None
    return written.id


def page(database: Database, chat: ChatIn) -> UserPage:
    return entities.user_page(database, TENANT, ANN, UserFilter(chat_id=chat.chat_id))


def contents(memories: list[KnownMemory]) -> set[str]:
    return {each.content for each in memories}


def test_in_a_chat_a_page_shows_only_what_may_be_shown_there(house: Database) -> None:
    write(house, "Ann has a secret.", ALONE)
    porto = write(house, "Ann lives in Porto.")
    both = write(house, "Ann likes tea.", ALONE, said_at=EPOCH - timedelta(hours=1))
    evidence(house, both, "test:alone/a0", "test:house/h0")
    change(house, both, learned_by="rules-v1", also_in=[HOUSE.chat_id])
    # Given that she says in private that she has moved
    moved = MemoryCorrection(content="Ann lives in Faro.", chat_id=ALONE.chat_id)
    faro = statements.correct(house, TENANT, porto, moved).id
    # Then that changes nothing in the group, where not even the private chat is named
    group = page(house, HOUSE)
    assert contents(group.current) == {"Ann lives in Porto.", "Ann likes tea."}
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
    assert contents(alone.current) == {"Ann lives in Faro.", "Ann likes tea.", "Ann has a secret."}
    assert [(each.id, each.superseded_by[0].id) for each in alone.earlier] == [(porto, faro)]
    with pytest.raises(NotFound, match="there is no chat test:nowhere"):
        page(house, ChatIn(chat_id="test:nowhere"))
