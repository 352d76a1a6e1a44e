"""Long texts: cut into chunks that the model reads whole, each with a vector, and found by the best of them."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.embed_texts import MAX_CHUNKS, OwnedText
from pipeline.erasure import edits
from pipeline.recall import search
from pipeline.store.connections.database import Database
from schemas.search import SearchQuery
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.pipeline import CHAT, embed_all, rows, say

CHUNKS = """
    SELECT external_id, chunk_index FROM messages JOIN message_vectors ON message_id = id ORDER BY id, chunk_index
"""
WINDOW = 200


class ShortSighted(DeterministicEmbedder):
    """Reads no more than `WINDOW` characters of a text."""

    def __init__(self) -> None:
        super().__init__(max_chars=WINDOW)
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.texts.extend(texts)
        return super().embed_documents(texts)


def long(ending: str, words: int = 100) -> str:
    """A text about nothing but for its end."""
    return f"{'lorem ipsum ' * words}{ending}"


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
def test_chunks_are_read_whole_and_leave_nothing_out(body: str, header: str, limit: int) -> None:
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


def test_a_long_message_is_found_by_its_end(database: Database, settings: Settings) -> None:
    others = [f"somebody mentions topic number {n}" for n in range(30)]
    say(database, *others, long("the plumber is called Beatriz"), long("see you tomorrow"))
    client = ShortSighted()
    embed_all(database, client)
    assert len(chunks(database)["m30"]) > 4
    assert chunks(database)["m0"] == [0]
    # no text was cut by the model
    assert max(map(len, client.texts)) <= WINDOW
    query = SearchQuery(chat_id=CHAT.chat_id, query="plumber Beatriz", mode="similar", limit=3)
    hits = search(database, TENANT, query, embedder=client, settings=settings).hits
    assert hits[0].external_id == "m30"
    # it is there once, whichever of its chunks are near
    assert len({hit.external_id for hit in hits}) == len(hits)


def test_an_edit_to_a_shorter_text_leaves_nothing_of_the_longer_one(database: Database) -> None:
    say(database, long("the plumber"), "another")
    client = ShortSighted()
    embed_all(database, client)
    edits.edit(
        database, TENANT, edits.NewText(CHAT.chat_id, "m0", "short", message(30).sent_at), SESSION_POLICY
    )
    embed_all(database, client)
    assert chunks(database) == {"m0": [0], "m1": [0]}
