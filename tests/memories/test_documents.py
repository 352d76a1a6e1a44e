"""Documents of the organization: cut so that a model reads every chunk whole, cited, replaced and removed."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.memories import documents, statements
from pipeline.people import identities, suppression
from pipeline.recall import build_context
from pipeline.store.chats import chats as store_chats
from pipeline.store.connections.database import Database
from schemas.memories import DocumentFilter, DocumentIn, DocumentKept, MemoryFilter
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.harness.pipeline import embed_all, rows

EMBEDDER = DeterministicEmbedder()


def handbook(chapters: int = 12) -> str:
    """Chapters of some 200 words, each with a number of its own."""
    rules = (f"Of the boiler, rule {n} says what is done in such a case. " * 14 for n in range(chapters))
    return "\n\n".join(f"Chapter {n}. {rule}" for n, rule in enumerate(rules))


def keep(database: Database, content: str, document_id: str = "handbook", **fields: str) -> DocumentKept:
    given = DocumentIn.model_validate({"document_id": document_id, "content": content, **fields})
    return documents.keep(database, TENANT, given, documents.cut(content, EMBEDDER))


def contents(database: Database, document_id: str = "handbook") -> Sequence[str]:
    return [passage.content for passage in documents.passages(database, TENANT, document_id)]


def test_a_new_version_keeps_the_vectors_of_what_stayed(database: Database) -> None:
    first = keep(database, handbook())
    embed_all(database)
    assert keep(database, handbook()) == DocumentKept(outcome="unchanged", chunks=first.chunks, written=0)
    changed = keep(database, handbook()[:-200] + "And the very end is about parrots.")
    assert changed.outcome == "replaced"
    assert 0 < changed.written < changed.chunks
    assert "parrots" in contents(database)[-1]
    assert embed_all(database) == changed.written
    # or nearly all of it is gone
    assert keep(database, "Nothing is known any more.").outcome == "replaced"
    assert contents(database) == ["Nothing is known any more."]
    owed = "SELECT count(*) FROM jobs WHERE kind = 'embed' AND key LIKE 'memory:%'"
    assert rows(database, owed) == [(1,)]


def test_two_versions_sent_at_once_are_not_mixed(database: Database) -> None:
    versions = [[f"{name} {n}" for n in range(30)] for name in ("red", "blue", "green", "white")]
    given = DocumentIn(document_id="handbook", content="…")
    with ThreadPoolExecutor(len(versions)) as pool:
        for _ in range(3):
            list(pool.map(lambda chunks: documents.keep(database, TENANT, given, chunks), versions))
            assert contents(database) in versions


def test_a_users_document_is_shown_where_they_are_alone(database: Database, settings: Settings) -> None:
    # Given a lease of Ann's, and direct chats, a thread and groups with her and others
    chats = {
        "test:direct": ("direct", ["test:ann"]),
        "test:thread": ("thread", ["test:ann"]),
        "test:three": ("direct", ["test:ann", "test:bob"]),
        "test:group": ("group", ["test:ann"]),
        "test:house": ("group", ["test:ann", "test:bob"]),
    }
    for chat_id, (kind, people) in chats.items():
        chat = ChatIn.model_validate({"chat_id": chat_id, "kind": kind})
        said = [message(n, id=f"{n}", sender_id=who) for n, who in enumerate(people)]
        accept.accept(database, TENANT, chat, said)
    identities.link(database, TENANT, "slack:U1", "test:ann")
    assert keep(database, "The rent is due on the third.", "lease", user_id="slack:U1").outcome == "new"
    embed_all(database)

    def sees(chat_id: str, user_id: str | None) -> bool:
        query = ContextQuery(chat_id=chat_id, user_id=user_id, query="when is the rent due?")
        context = build_context(database, TENANT, query, embedder=EMBEDDER, settings=settings)
        wanted = MemoryFilter(chat_id=chat_id, user_id=user_id, scope="user" if user_id else None)
        listed = statements.listing(database, TENANT, wanted)
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
    assert contents(database) == ["Ours."]
    suppression.remember_user(database, TENANT, "test:ann", remembered=False)
    assert keep(database, "Ann's.", "handbook", user_id="slack:U1").outcome == "kept_out"
