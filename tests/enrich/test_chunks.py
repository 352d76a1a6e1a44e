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
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.memories.statements import remember
from pipeline.recall import build_context, search
from pipeline.store.connections.database import Database
from pipeline.store.operations import stats
from pipeline.store.search import candidate_rows, narrowed_search, vector_search
from pipeline.store.search.filters import Scope
from pipeline.store.search.narrowed_search import SessionsAsked
from pipeline.store.vectors import vectors
from schemas.errors import ProviderRejected
from schemas.memories import MemoryIn
from schemas.payloads import ContextQuery
from schemas.search import SearchQuery
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import TENANT, message
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


def say(database: Database, rules: SessionPolicy, policy: Policy, *contents: str) -> None:
    said = [message(n / 10, content, id=f"m{n}") for n, content in enumerate(contents)]
    accept.accept(database, TENANT, CHAT, said)
    place(database, rules, policy)


def embed_all(database: Database, client: DeterministicEmbedder, policy: Policy, **options: int) -> None:
    handler = embed.embedder(database, client, **options)
    while runner.run(database, "embed", handler, policy).claimed:
        pass


def chunks(database: Database) -> dict[str, list[int]]:
    """The chunks that have a vector, by the message's external id."""
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


def test_a_text_has_a_bounded_number_of_chunks_and_of_characters() -> None:
    whole = OwnedText(owner="message", id="1", text="word " * 20_000)
    assert len(whole.chunks(max_tokens=100, count=len, max_chars=100_000)) == MAX_CHUNKS
    assert sum(map(len, whole.chunks(max_tokens=100, count=len, max_chars=500))) < 700
    # a header that takes most of what is read stands only at the beginning
    headed = OwnedText(owner="session", id="1", text="header " * 10 + "body " * 100, header="header " * 10)
    assert [each.count("header") for each in headed.chunks(max_tokens=100, count=len, max_chars=10_000)][
        1:
    ] == [0] * (len(headed.chunks(max_tokens=100, count=len, max_chars=10_000)) - 1)


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


def test_each_way_of_comparing_counts_a_message_by_its_best_chunk(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    say(database, rules, policy, long("the plumber is called Beatriz"), "plumber", *["hello there"] * 3)
    client = ShortSighted()
    embed_all(database, client, policy)
    asked = client.embed_query("the plumber is called Beatriz")
    with database.tenant(TENANT) as connection:
        space = vectors.active_space(connection)
        assert space is not None
        scope = Scope(chat_id=CHAT.chat_id, language="simple")
        nearest = vector_search.nearest(connection, scope, space, asked, messages=5, limit=5)
        best = dict(
            tuple(row)
            for row in connection.execute(
                text("""
                SELECT message_id, max(1 - (embedding::vector <=> CAST(:query AS vector)))
                FROM message_vectors GROUP BY 1
                """),
                {"query": str(asked)},
            )
        )
        assert nearest.cosines == pytest.approx(best, abs=0.001)
        assert nearest.compared == 5
        assert list(nearest.cosines.values()) == sorted(nearest.cosines.values(), reverse=True)
        # as many as are asked for, however many chunks the nearest has
        two = vector_search.nearest(connection, scope, space, asked, messages=5, limit=2)
        assert list(two.cosines) == list(nearest.cosines)[:2]
        queries = [None, (space, asked)]
        listed = candidate_rows.with_neighbours(connection, scope, list(best)[:1], 5, [], queries)
        assert {row.id: row.cosines[1] for row in listed} == pytest.approx(best, abs=0.001)
        assert {row.cosines[0] for row in listed} == {None}


def test_an_equal_text_has_copies_of_all_chunks(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    say(database, rules, policy, long("the plumber"), long("the plumber"))
    client = ShortSighted()
    embed_all(database, client, policy)
    made = len(client.texts)
    accept.accept(database, TENANT, CHAT, [message(9, long("the plumber"), id="again")])
    place(database, rules, policy)
    embed_all(database, client, policy)
    assert len(client.texts) == made == len(chunks(database)["m0"])
    assert chunks(database)["m0"] == chunks(database)["m1"] == chunks(database)["again"]
    equal = "SELECT chunk_index, count(DISTINCT embedding::text) FROM message_vectors GROUP BY 1"
    assert {count for _, count in rows(database, equal)} == {1}


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


def test_a_text_that_is_embedded_anew_has_only_its_new_chunks(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    say(database, rules, policy, long("the plumber"))
    embed_all(database, ShortSighted(), policy)
    before = chunks(database)["m0"]
    with database.tenant(TENANT) as connection:
        space = vectors.active_space(connection)
        assert space is not None
        (row,) = connection.execute(
            text("SELECT message_id, content_hash FROM message_vectors WHERE chunk_index = 0")
        ).all()
        made = DeterministicEmbedder().embed_documents(["one", "two"])
        vectors.put(connection, TENANT, "message", space.id or 0, [(str(row[0]), bytes(row[1]), made)])
    assert len(before) > 2
    assert chunks(database)["m0"] == [0, 1]


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


def test_a_deleted_message_takes_all_its_chunks_with_it(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    say(database, rules, policy, long("the plumber"), "hello")
    embed_all(database, ShortSighted(), policy)
    edits.delete(database, TENANT, CHAT.chat_id, "m0", rules)
    assert chunks(database) == {"m1": [0]}


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
    assert context.explain is not None
    hits = [(hit.preview, hit.components) for hit in context.explain.memories]
    assert len({preview for preview, _ in hits}) == len(hits)
    assert any(value == pytest.approx(1, abs=0.001) for _, parts in hits for value in parts.values())
    with database.tenant(TENANT) as connection:
        per_space = {row.space: (row.sessions, row.memories) for row in stats.vectors_by_space(connection)}
    assert per_space[space.name] == (1, 2)
