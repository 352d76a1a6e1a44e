"""Long texts: cut into chunks that the model reads whole, each with a vector, and found by the best of them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.vectors import embed
from pipeline.enrich.vectors.embedding_text import MAX_CHUNKS, OwnedText
from pipeline.erasure import edits
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories.statements import remember
from pipeline.recall import build_context, search
from pipeline.store.connections.database import Database
from pipeline.store.operations import stats
from pipeline.store.search import narrowed_search
from pipeline.store.search.filters import Scope
from pipeline.store.search.narrowed_search import SessionsAsked
from pipeline.store.vectors import vectors
from schemas.errors import ProviderRejected
from schemas.memory.memories import MemoryIn
from schemas.payloads import ContextQuery
from schemas.search import SearchQuery
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import TENANT, message
from tests.enrich.test_embed import owe as say
from tests.test_pipeline import CHAT, place, rows, run, summarizer

CHUNKS = """
    SELECT external_id, chunk_index FROM messages JOIN message_vectors ON message_id = id ORDER BY id, chunk_index
"""
WINDOW = 200


class ShortSighted(DeterministicEmbedder):
    """Reads no more than `WINDOW` characters of a text, and refuses those with a word in them."""

    def __init__(self, refused: str | None = None) -> None:
        super().__init__(max_chars=WINDOW)
        self.refused = refused
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.texts.extend(texts)
        if self.refused is not None and any(self.refused in each for each in texts):
            raise ProviderRejected("it is not allowed")
        return super().embed_documents(texts)


def long(ending: str, words: int = 100) -> str:
    """A text about nothing but for its end."""
    return f"{'lorem ipsum ' * words}{ending}"


def embed_all(database: Database, client: DeterministicEmbedder, policy: Policy) -> None:
    run(database, "embed", embed.embedder(database, client), policy)


def chunks(database: Database) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for external_id, chunk in rows(database, CHUNKS):
        found.setdefault(str(external_id), []).append(int(str(chunk)))
    return found


@given(
    st.text(alphabet="ab .\n字", max_size=600),
    st.sampled_from(["", "participants: Ann\n"]),
    st.integers(40, 80),
)
def test_chunks_are_read_whole_leave_nothing_out_and_say_where_they_come_from(
    body: str, header: str, limit: int
) -> None:
    owned = OwnedText(owner="message", id="1", text=header + body, header=header)
    cut = owned.chunks(max_tokens=limit, count=len, max_chars=10_000)
    assert cut
    assert all(len(each) <= limit and each.startswith(header) for each in cut)
    if len(header + body) <= limit:
        assert cut == [header + body]
    # every character of the text is in some chunk, in order
    at = 0
    for each in cut:
        found = body.find(each.removeprefix(header), 0)
        assert found <= at or body[at:found].isspace()
        at = found + len(each.removeprefix(header))
    assert len(cut) == MAX_CHUNKS or not body[at:].strip()


def test_a_long_message_is_found_by_its_end(
    database: Database, rules: SessionPolicy, policy: Policy, settings: Settings
) -> None:
    others = [f"somebody mentions topic number {n}" for n in range(30)]
    say(database, rules, policy, *others, long("the plumber is called Beatriz"), long("see you tomorrow"))
    client = ShortSighted()
    embed_all(database, client, policy)
    assert len(chunks(database)["m30"]) > 4
    assert chunks(database)["m0"] == [0]
    # no text was cut by the model
    assert max(map(len, client.texts)) <= WINDOW
    query = SearchQuery(chat_id=CHAT.chat_id, query="plumber Beatriz", mode="similar", limit=3)
    hits = search(database, TENANT, query, embedder=client, settings=settings).hits
    assert hits[0].external_id == "m30"
    # it is there once, whichever of its chunks are near
    assert len({hit.external_id for hit in hits}) == len(hits)


@pytest.mark.parametrize("known", [True, False])
def test_an_edit_to_a_shorter_text_leaves_nothing_of_the_longer_one(
    database: Database, rules: SessionPolicy, policy: Policy, known: bool
) -> None:
    say(database, rules, policy, long("the plumber"), "short" if known else "another")
    client = ShortSighted()
    embed_all(database, client, policy)
    edits.edit(database, TENANT, CHAT.chat_id, "m0", "short", message(30).sent_at, rules)
    embed_all(database, client, policy)
    assert chunks(database) == {"m0": [0], "m1": [0]}


def test_a_message_is_found_by_those_parts_that_the_model_takes(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    say(database, rules, policy, f"aconite {long('the plumber')}", "aconite")
    embed_all(database, ShortSighted(refused="aconite"), policy)
    found = chunks(database)
    assert found["m0"] == list(range(len(found["m0"])))
    assert len(found["m0"]) > 3
    assert "m1" not in found
    assert rows(database, "SELECT count(*) FROM jobs WHERE dead_at IS NOT NULL") == [(1,)]


def test_sessions_and_memories_count_by_their_best_chunk_and_are_found_once(
    database: Database, rules: SessionPolicy, policy: Policy, settings: Settings
) -> None:
    # Given a session and a memory of two chunks each, of which the second is what is asked for
    said = [message(n, f"the boiler shows error E{n}", id=f"b{n}") for n in range(5)]
    accept.accept(database, TENANT, CHAT, [*said, message(100, "bye")])
    place(database, rules, policy)
    remember(database, TENANT, MemoryIn(scope="organization", content="Something long about plumbers."))
    remember(database, TENANT, MemoryIn(scope="organization", content="Tea is at four."))
    run(database, "summarize", summarizer(database), policy)
    client = DeterministicEmbedder()
    embed_all(database, client, policy)
    about = client.embed_documents(["wholly unrelated words", "Beatriz repairs boilers"])
    with database.tenant(TENANT) as connection:
        space = vectors.active_space(connection)
        assert space is not None
        for kind, owner in (("session", "session_id"), ("memory", "memory_id")):
            table = vectors.OWNERS[kind].table
            found = connection.execute(text(f"SELECT {owner}, content_hash FROM {table} ORDER BY 1")).all()
            row = [(str(found[0][0]), bytes(found[0][1]), about)]
            vectors.put(connection, TENANT, kind, space.id or 0, row)
        scope = Scope(chat_id=CHAT.chat_id, language="simple", messages=6, mean_size=3.0)
        asked = client.embed_query("Beatriz repairs boilers")
        which = SessionsAsked(most=5, looked_into=1, messages=1)
        fitting = narrowed_search.search(connection, scope, [], (space, asked), which)
        assert [session.cosine for session in fitting.sessions] == [pytest.approx(1, abs=0.001)]
    query = ContextQuery(chat_id=CHAT.chat_id, query="Beatriz repairs boilers", explain=True)
    context = build_context(database, TENANT, query, embedder=client, settings=settings)
    hits = [(hit.preview, hit.components) for hit in context.explain.memories]
    assert len({preview for preview, _ in hits}) == len(hits)
    assert any(value == pytest.approx(1, abs=0.001) for _, parts in hits for value in parts.values())
    with database.tenant(TENANT) as connection:
        per_space = {row.space: (row.sessions, row.memories) for row in stats.vectors_by_space(connection)}
    assert per_space[space.name] == (1, 2)
