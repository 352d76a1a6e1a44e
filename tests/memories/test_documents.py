"""Documents of the organization: cut so that a model reads every chunk whole, cited, replaced and removed."""

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.vectors import embed
from pipeline.ingest import accept
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.memories import documents, statements
from pipeline.memories.documents import CHUNK_TOKENS, OVERLAP_TOKENS, Kept
from pipeline.people import identities, suppression
from pipeline.recall import build_context
from pipeline.store.chats import chats as store_chats
from pipeline.store.connections.database import Database
from pipeline.text.tokens import estimate
from schemas.errors import NotFound
from schemas.memory.documents import DocumentFilter, DocumentIn
from schemas.memory.memories import MemoryFilter
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.recall import asking
from tests.recall.found import lines as shown

EMBEDDER = DeterministicEmbedder()
SUBJECTS = ("the boiler", "the ferry", "the garden", "the mooring", "the chimney", "the cellar")


class Narrow(DeterministicEmbedder):
    """A model that reads 20 pieces, of which every character is one."""

    @property
    def max_tokens(self) -> int:
        return 20


def handbook(chapters: int = 12) -> str:
    """Chapters of some 200 words, each on one subject with a number of its own."""
    return "\n\n".join(
        f"Chapter {n}. "
        + f"Of {SUBJECTS[n % len(SUBJECTS)]}, rule {n} says what is done in such a case. " * 14
        for n in range(chapters)
    )


def keep(database: Database, content: str, document_id: str = "handbook", **fields: str) -> Kept:
    given = DocumentIn.model_validate({"document_id": document_id, "content": content, **fields})
    return documents.keep(database, TENANT, given, documents.cut(content, EMBEDDER))


ask = partial(asking.ask, chat_id="test:house", explain=True)


def contents(database: Database, document_id: str = "handbook") -> Sequence[str]:
    return [passage.content for passage in documents.passages(database, TENANT, document_id)]


@pytest.fixture
def asked_in(database: Database) -> Database:
    accept.accept(database, TENANT, ChatIn(chat_id="test:house"), [message(0)])
    return database


def embed_all(database: Database, policy: Policy) -> int:
    return runner.run(database, "embed", embed.embedder(database, EMBEDDER), policy).claimed


def test_chunks_are_of_512_tokens_with_an_overlap_of_50() -> None:
    cuts = documents.cut(handbook(), EMBEDDER)
    assert len(cuts) > 5
    for before, after in itertools.pairwise(cuts):
        assert CHUNK_TOKENS / 2 < estimate(before) <= CHUNK_TOKENS
        begun = after[:40]
        assert begun in before
        assert estimate(before[before.rindex(begun) :]) <= OVERLAP_TOKENS


@pytest.mark.parametrize("content", ["one two three four five six seven", "x" * 45, "家" * 45])
def test_no_chunk_is_longer_than_what_the_model_reads(content: str) -> None:
    cuts = documents.cut(content, Narrow())
    assert max(map(len, cuts)) <= 20
    joined = "".join(cuts)
    assert all(word in joined for word in content.split()) or len(joined) >= len(content)


def test_a_document_is_found_by_words_at_once_and_by_meaning_when_it_is_embedded(
    asked_in: Database, settings: Settings, policy: Policy
) -> None:
    kept = keep(asked_in, handbook())
    assert (kept.outcome, kept.written) == ("new", kept.chunks)
    for _ in ("by words", "and with vectors"):
        best = shown(ask(asked_in, settings, "what is the rule of the chimney?"), "documents")[0]
        assert best.startswith("- Doc handbook/Chunk ")
        assert "chimney" in best
        embed_all(asked_in, policy)
    with asked_in.tenant(TENANT) as connection:
        vectors = connection.scalar(text("SELECT count(*) FROM memory_vectors"))
    assert vectors == kept.chunks


def test_a_new_version_takes_the_place_of_the_old_and_what_stayed_keeps_its_vectors(
    asked_in: Database, policy: Policy
) -> None:
    first = keep(asked_in, handbook())
    embed_all(asked_in, policy)
    assert keep(asked_in, handbook()) == Kept(outcome="unchanged", chunks=first.chunks, written=0)
    changed = keep(asked_in, handbook()[:-200] + "And the very end is about parrots.")
    assert changed.outcome == "replaced"
    assert 0 < changed.written < changed.chunks
    assert "parrots" in contents(asked_in)[-1]
    assert embed_all(asked_in, policy) == changed.written
    # or nearly all of it is gone
    assert keep(asked_in, "Nothing is known any more.").outcome == "replaced"
    assert contents(asked_in) == ["Nothing is known any more."]
    with asked_in.tenant(TENANT) as connection:
        owed = connection.scalar(
            text("SELECT count(*) FROM jobs WHERE kind = 'embed' AND key LIKE 'memory:%'")
        )
    assert owed == 1


def test_two_versions_sent_at_once_are_not_mixed(database: Database) -> None:
    versions = [[f"{name} {n}" for n in range(30)] for name in ("red", "blue", "green", "white")]
    given = DocumentIn(document_id="handbook", content="…")
    with ThreadPoolExecutor(len(versions)) as pool:
        for _ in range(3):
            list(pool.map(lambda chunks: documents.keep(database, TENANT, given, chunks), versions))
            assert contents(database) in versions


def test_a_document_that_is_removed_is_gone_with_its_vectors_and_work(
    asked_in: Database, settings: Settings, policy: Policy
) -> None:
    chunks = keep(asked_in, handbook()).chunks
    keep(asked_in, "Another one.", "other", source="https://example.org")
    embed_all(asked_in, policy)
    assert documents.remove(asked_in, TENANT, "handbook") == chunks
    assert "handbook" not in ask(asked_in, settings, "the chimney").text
    with asked_in.tenant(TENANT) as connection:
        assert connection.scalar(text("SELECT count(*) FROM memory_vectors")) == 1
    (left,) = documents.listing(asked_in, TENANT, DocumentFilter())
    assert (left.document_id, left.source, left.chunks) == ("other", "https://example.org", 1)
    for act in (documents.remove, documents.passages):
        with pytest.raises(NotFound, match="backscroll documents list"):
            act(asked_in, TENANT, "handbook")


def test_a_users_own_document_is_shown_to_them_alone_and_only_where_nobody_else_is(
    database: Database, settings: Settings, policy: Policy
) -> None:
    # Given a lease of Ann's, and direct chats, a thread and groups with her and others
    chats = {
        "test:direct": ("direct", ["test:ann"]),
        "test:thread": ("thread", ["test:ann"]),
        "test:three": ("direct", ["test:ann", "test:bob"]),
        "test:bobs": ("direct", ["test:bob"]),
        "test:group": ("group", ["test:ann"]),
        "test:house": ("group", ["test:ann", "test:bob"]),
    }
    for chat_id, (kind, people) in chats.items():
        chat = ChatIn.model_validate({"chat_id": chat_id, "kind": kind})
        said = [message(n, id=f"{n}", sender_id=who) for n, who in enumerate(people)]
        accept.accept(database, TENANT, chat, said)
    identities.link(database, TENANT, "slack:U1", "test:ann")
    assert keep(database, "The rent is due on the third.", "lease", user_id="slack:U1").outcome == "new"
    embed_all(database, policy)
    given = {"query": "when is the rent due?", "explain": True}

    def sees(chat_id: str, user_id: str | None) -> bool:
        query = ContextQuery.model_validate(given | {"chat_id": chat_id, "user_id": user_id})
        context = build_context(database, TENANT, query, embedder=EMBEDDER, settings=settings)
        listed = statements.listing(
            database,
            TENANT,
            MemoryFilter(chat_id=chat_id, user_id=user_id, scope="user" if user_id else None),
        )
        assert bool(listed) == ("The rent" in context.text)
        return bool(listed)

    def seen() -> set[tuple[str, str | None]]:
        return {(chat, who) for chat in chats for who in ("test:ann", "test:bob", None) if sees(chat, who)}

    assert seen() == {("test:direct", "test:ann"), ("test:thread", "test:ann")}
    # whatever else a tenant shows everywhere
    with database.tenant(TENANT) as connection:
        store_chats.set_tenant_setting(connection, TENANT, "audience", "tenant")
    assert seen() == {("test:direct", "test:ann"), ("test:thread", "test:ann")}


def test_the_same_id_of_the_organization_and_of_a_user_are_two_documents(database: Database) -> None:
    keep(database, "Ours.", "handbook")
    keep(database, "Ann's.", "handbook", user_id="test:ann")
    identities.link(database, TENANT, "slack:U1", "test:ann")
    # a new version replaces the person's, under whichever of their ids it comes
    assert keep(database, "Ann's, revised.", "handbook", user_id="slack:U1").outcome == "replaced"
    assert contents(database) == ["Ours."]
    (mine,) = documents.passages(database, TENANT, "handbook", "slack:U1")
    assert mine.content == "Ann's, revised."
    for user, owner in ((None, None), ("slack:U1", "test:ann")):
        (listed,) = documents.listing(database, TENANT, DocumentFilter(user_id=user))
        assert (listed.document_id, listed.user_id, listed.chunks) == ("handbook", owner, 1)
    assert documents.remove(database, TENANT, "handbook", "test:ann") == 1
    with pytest.raises(NotFound, match="of test:ann: see `backscroll documents list --user test:ann`"):
        documents.remove(database, TENANT, "handbook", "test:ann")
    assert contents(database) == ["Ours."]
    suppression.remember_user(database, TENANT, "test:ann", remembered=False)
    assert keep(database, "Ann's.", "handbook", user_id="slack:U1").outcome == "kept_out"
