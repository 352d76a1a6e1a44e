"""The memories that a question may be answered with: the nearest of each kind, however many parts they have."""

from uuid import UUID

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.store import memory_candidates, vectors
from pipeline.store.database import Database
from pipeline.store.filters import Scope
from pipeline.store.membership import Seen, Visible
from pipeline.store.memory_candidates import FoundMemory, MemoryScope
from schemas.messages import ChatIn
from tests.conftest import TENANT, message
from tests.memories.learned import embedded, learned

CHAT = "test:house"
QUESTION = "where does Ann row her boat"
_PARTS = text("""
    INSERT INTO memory_vectors (tenant_id, memory_id, space_id, chunk_index, content_hash, embedding)
    SELECT tenant_id, memory_id, space_id, part, content_hash, embedding
    FROM memory_vectors CROSS JOIN generate_series(1, 200) AS part WHERE memory_id = :id
""")


def nearest(database: Database, limit: int, *, words_only: bool = False) -> list[FoundMemory]:
    """The nearest memories of each kind to `QUESTION`."""
    seen = Seen(visible=Visible(everywhere=False, chats=frozenset([CHAT])), asker_ids=["test:ann"])
    scope = Scope(chat_id=CHAT, language="english")
    which = MemoryScope(scope=scope, seen=seen, agent_id=None, min_importance=0, limit=limit)
    with database.tenant(TENANT) as connection:
        return list(
            memory_candidates.believed(
                connection,
                which,
                words=["ann", "boat", "row"],
                space=vectors.active_space(connection),
                query=None if words_only else DeterministicEmbedder().embed_query(QUESTION),
            ).found
        )


@pytest.fixture
def house(database: Database) -> Database:
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT), [message(0, "hello", sender_id="test:ann")])
    return database


def of_ann(database: Database, content: str, **fields: object) -> UUID:
    return learned(database, content, **({"user_id": "test:ann", "learned_in": CHAT} | fields))


def test_a_memory_of_many_parts_leaves_room_for_the_others(house: Database) -> None:
    # Given a long memory, of which each part is nearer than all others, and more of two kinds than are asked for
    long = of_ann(house, QUESTION)
    for number in range(6):
        of_ann(house, f"where Ann keeps her boat, number {number}")
        learned(house, f"where the boat lies, number {number}", scope="organization", learned_in=CHAT)
    of_ann(house, "where Ann rows elsewhere", learned_in="test:elsewhere")
    embedded(house)
    with house.tenant(TENANT) as connection:
        connection.execute(_PARTS, {"id": long})
    # When the nearest are asked for
    found = nearest(house, 4)
    # Then there are as many of each kind as there may be, each once, the nearest first
    assert [each.scope for each in found].count("user") == 4
    assert [each.scope for each in found].count("organization") == 4
    assert len({each.id for each in found}) == 8
    assert found[0].id == str(long)
    assert [each.similarity for each in found] == sorted((each.similarity for each in found), reverse=True)


def test_what_has_no_vector_counts_by_its_words(house: Database) -> None:
    of_ann(house, "Ann rows a boat.")
    of_ann(house, "Ann has a cat.")
    first, second = nearest(house, 4)
    assert (first.content, first.cosine) == ("Ann rows a boat.", None)
    assert first.similarity > second.similarity > 0
    embedded(house)
    assert all(each.cosine is not None for each in nearest(house, 4))
    assert nearest(house, 4, words_only=True)[0].content == "Ann rows a boat."
