"""The memories that a question may be answered with: the nearest of each kind, however many parts they have."""

import random
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.memories import documents
from pipeline.store import vectors
from pipeline.store.chats.membership import Seen, Visible
from pipeline.store.connections.database import Database
from pipeline.store.memories import memory_candidates
from pipeline.store.memories.memory_candidates import FoundMemory, MemoryScope
from pipeline.store.search import vector_search
from pipeline.store.search.filters import Scope
from schemas.memories import DocumentIn
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.harness.search import build_index, scans, unit
from tests.memories.learned import embedded, learned

CHAT = "test:house"
QUESTION = "where does Ann row her boat"
_PARTS = text("""
    INSERT INTO memory_vectors (tenant_id, memory_id, space_id, chunk_index, content_hash, embedding)
    SELECT tenant_id, memory_id, space_id, part, content_hash, embedding
    FROM memory_vectors CROSS JOIN generate_series(1, 200) AS part WHERE memory_id = :id
""")


def nearest(database: Database, limit: int, *, alone: bool = False) -> list[FoundMemory]:
    """The nearest memories of each kind to `QUESTION`."""
    visible = Visible(everywhere=False, chats=frozenset([CHAT]))
    seen = Seen(visible=visible, asker_ids=["test:ann"], alone=alone)
    scope = Scope(chat_id=CHAT, language="english")
    which = MemoryScope(scope=scope, seen=seen, agent_id=None, min_importance=0, limit=limit)
    with database.tenant(TENANT) as connection:
        found = memory_candidates.believed(
            connection,
            which,
            words=["ann", "boat", "row"],
            space=vectors.active_space(connection),
            query=DeterministicEmbedder().embed_query(QUESTION),
        ).found
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
    return list(found)


@pytest.fixture
def house(database: Database) -> Database:
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT), [message(0, "hello", sender_id="test:ann")])
    return database


CHUNKS, EXACT_UP_TO = 800, 600


@pytest.fixture
def library(house: Database, settings: Settings, postgres: EmbeddedPostgres, database_name: str) -> Database:
    """An organization with many documents and an index of their vectors, beside a tenant whose are nearer."""
    rng = random.Random(1)
    for tenant, name, nearness in ((TENANT, "книга", 0.0), ("other", "本", 0.2)):
        asked = DeterministicEmbedder().embed_query(QUESTION)
        chunks = [f"{name} {number}" for number in range(CHUNKS)]
        documents.keep(house, tenant, DocumentIn(document_id="all", content="…"), chunks)
        with house.tenant(tenant) as connection:
            space = vectors.active_space(connection)
            assert space is not None
            ids = connection.scalars(text("SELECT CAST(id AS text) FROM memories")).all()
            made = [
                [value + nearness * own for value, own in zip(unit(rng), asked, strict=True)] for _ in ids
            ]
            rows = [(identity, b"", [vector]) for identity, vector in zip(ids, made, strict=True)]
            vectors.put(connection, tenant, "memory", space.id or 0, rows)
            connection.execute(text("DELETE FROM jobs WHERE kind = 'embed'"))
    build_index(settings, "memory")
    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as superuser:
        superuser.execute("VACUUM ANALYZE")
    return house


def test_many_documents_are_searched_by_their_index_and_what_it_does_not_have_is_found_all_the_same(
    library: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given what one who is asked knows besides
    of_ann(library, "Ann rows a boat.")
    embedded(library)
    exact = nearest(library, 20)
    used = scans(library, "memory")
    # When the documents are many
    monkeypatch.setattr(vector_search, "EXACT_UP_TO", EXACT_UP_TO)
    by_index = nearest(library, 20)
    # Then their index is read, and finds what comparing all finds, though another tenant's are nearer
    assert scans(library, "memory") == used + 1
    assert len(by_index) == len(exact) == 21
    assert len({each.id for each in by_index} & {each.id for each in exact}) >= 18
    assert all(each.content.startswith(("книга", "Ann")) for each in by_index)
    similarities = [each.similarity for each in by_index]
    assert similarities == sorted(similarities, reverse=True)
    # and a document that waits for its vectors, one of Ann's own, and more than the index is asked for
    documents.keep(library, TENANT, DocumentIn(document_id="new", content="…"), ["Ann may row the boat."])
    of_ann(library, "the boat of Ann", type="document", document_id="own", chunk_index=0, learned_in=None)
    found = nearest(library, 20, alone=True)
    assert {"Ann may row the boat.", "the boat of Ann"} <= {each.content for each in found}
    assert sum(each.document_id == "all" for each in found) >= 19
    # of each kind, and she knows one thing of her own
    assert len(nearest(library, 300)) == 300 + 1
    assert {each.content for each in nearest(library, CHUNKS + 1)} > {f"книга {n}" for n in range(CHUNKS)}


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
