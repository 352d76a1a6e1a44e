"""The context: what a bot gets for a question, within its budget, and why each line is there."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept, session_ranges
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.memories.statements import remember
from pipeline.store.connections.database import Database
from pipeline.text import fencing
from schemas.errors import InvalidInput
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.contexts import CHAT, DAY, do_all, house
from tests.harness.pipeline import rows
from tests.recall import asking

ask = partial(asking.ask, chat_id=CHAT.chat_id, explain=True)


def test_blocks_come_in_order_and_the_question_last(filled: Database, settings: Settings) -> None:
    # of a chat whose recent messages do not show all of it
    found = ask(filled, settings, "Which  boat?", parameters={"history_tokens": 60, "messages": 3})
    kinds = [block.kind for block in found.blocks]
    order = ["guardrails", "documents", "memories", "rollups", "exchanges", "related", "history", "question"]
    assert kinds == [kind for kind in order if kind in kinds]
    assert {"guardrails", "exchanges", "history", "question"} <= set(kinds)
    assert found.text.endswith("Question: Which  boat?")
    assert found.messages[0].role == "system"
    assert found.messages[-1].content == "Which  boat?"


def test_a_question_that_leans_on_the_talk_is_searched_with_it(filled: Database, settings: Settings) -> None:
    now = datetime.now(UTC)
    said = message(0, "I have to call the plumber again", id="now", sent_at=now - timedelta(minutes=2))
    accept.accept(filled, TENANT, CHAT, [said])
    found = ask(filled, settings, "And how much was that?")
    assert found.explain.brief == ["call", "plumber"]
    hit = next(hit for hit in found.explain.messages if hit.external_id == "h2")
    assert hit.components["words"] > 0
    assert "we take the plumber from Almada for 240 euros" in found.text
    # what stands on its own feet does not lean
    whole = ask(filled, settings, "How much does the boat cost?")
    assert whole.explain.brief == []


def test_without_pgvector_keywords_find_and_vectors_stay_owed(
    filled: Database, settings: Settings, postgres: object, database_name: str
) -> None:
    import psycopg

    with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as connection:  # type: ignore[attr-defined]
        connection.execute("DROP TABLE message_vectors, session_vectors, memory_vectors")
        connection.execute("DROP EXTENSION vector")
    assert not filled.has_vectors()
    found = ask(filled, settings, "who is the plumber?", include_history=False)
    assert "Almada" in found.text
    assert found.degraded[0].startswith("vectors: ")


def test_without_session_memory_there_are_messages_and_documents(
    filled: Database, settings: Settings
) -> None:
    """Golden: what a bot got before sessions were remembered."""
    document = {"type": "document", "document_id": "d", "chunk_index": 0, "content": "Сантехник plumber: 210"}
    for known in (document, {"content": "The plumber is called Rui."}):
        remember(filled, TENANT, MemoryIn.model_validate({"scope": "organization"} | known))
    off = settings.model_copy(update={"session_memory_enabled": False})
    found = ask(filled, off, "who is the plumber?", parameters={"history_tokens": 64, "neighbours": 0})
    kinds = [block.kind for block in found.blocks]
    assert kinds == ["guardrails", "documents", "exchanges", "history", "question"]
    assert found.blocks[2].text.splitlines() == [
        "What was said earlier:",
        fencing.OPEN,
        "2 March 2026, 18:00",
        *(f"{each.sender_name}: {each.content}" for each in house()[:4]),
        fencing.CLOSE,
    ]
    # nor is anything summarized
    later = CHAT.model_copy(update={"chat_id": "test:later"})
    accept.accept(filled, TENANT, later, house())
    do_all(filled, SessionPolicy.of(off))
    of_later = "FROM conversation_sessions WHERE chat_id = 'test:later'"
    assert rows(filled, f"SELECT count(*), count(summary_text) {of_later}") == [(3, 0)]


def test_one_chat_can_have_its_memory_off_and_on_again(filled: Database, settings: Settings) -> None:
    off = ChatIn(chat_id=CHAT.chat_id, memory=False)
    accept.accept(filled, TENANT, off, [message(9 * DAY, "the parrot is called Vasco", id="off")])
    do_all(filled)
    found = ask(filled, settings, "what is the parrot called?")
    assert [block.kind for block in found.blocks] == ["guardrails", "history", "question"]
    assert rows(filled, "SELECT count(*) FROM conversation_sessions") == [(3,)]
    accept.accept(
        filled, TENANT, ChatIn(chat_id=CHAT.chat_id, memory=True), [message(9 * DAY + 1, "hi", id="on")]
    )
    do_all(filled)
    with filled.tenant(TENANT) as connection:
        session_ranges.sessionize_anew(connection, TENANT, CHAT.chat_id, SESSION_POLICY)
    counts = rows(filled, "SELECT message_count FROM conversation_sessions ORDER BY started_at")
    assert counts == [(4,), (4,), (4,), (2,)]


def test_memories_and_documents_are_shown_with_their_citation(filled: Database, settings: Settings) -> None:
    document = {"type": "document", "document_id": "house", "chunk_index": 3, "content": "plumber rules"}
    for known in (
        {"scope": "user", "user_id": "u1", "content": "Ann is allergic to plumber jokes"},
        {"scope": "user", "user_id": "u2", "content": "a plumber secret of somebody else"},
        {"scope": "organization"} | document,
    ):
        remember(filled, TENANT, MemoryIn.model_validate(known))
    do_all(filled)
    found = ask(filled, settings, "plumber", user_id="u1", profile="ask")
    assert re.search(r"\[u1, since \d+ \w+ 20\d\d\] Ann is allergic to plumber jokes", found.text)
    assert "Doc house/Chunk 3: plumber rules" in found.text
    assert "somebody else" not in found.text
    assert rows(filled, "SELECT access_count FROM memories ORDER BY content") == [(1,), (0,), (1,)]


def test_a_question_above_its_budget_is_refused_unembedded(filled: Database, settings: Settings) -> None:
    class Unasked(DeterministicEmbedder):
        def embed_query(self, text: str) -> Vector:
            raise AssertionError(text)

    with pytest.raises(InvalidInput, match="the question itself takes") as refused:
        ask(filled, settings, "in May " * 1140, budget_tokens=200, embedder=Unasked())
    assert refused.value.field == "budget_tokens"


def test_an_explanation_accounts_for_every_hit(filled: Database, settings: Settings) -> None:
    for fields in (
        {"budget_tokens": 90},
        {"parameters": {"messages": 2, "sessions": 1}},
        {"profile": "contextual", "budget_tokens": 200},
        {},
    ):
        found = ask(filled, settings, "the plumber and the boat", **fields)
        why = found.explain
        shown = {(item.kind, item.id): block.kind for block in found.blocks for item in block.items}
        dropped = {(each.kind, each.id) for each in why.dropped}
        for hit in (*why.messages, *why.sessions):
            assert hit.shown_in == shown.get((hit.kind, hit.id))
            assert (hit.shown_in is None) == ((hit.kind, hit.id) in dropped)
            assert hit.components
        assert {place for hit in why.messages for place in hit.arms} <= {"keywords", "vectors", "sessions"}
        assert sum(why.tokens_by_block.values()) == found.used_tokens
        # nothing else is shown than without it
        assert (
            ask(filled, settings, "the plumber and the boat", **fields | {"explain": False}).blocks[:-1]
            == (found.blocks[:-1])
        )
        assert {"embed", "retrieve", "sessions", "assemble", "note"} <= why.timings_ms.keys()


def test_a_time_counted_from_an_event_is_found_and_told(filled: Database, settings: Settings) -> None:
    found = ask(filled, settings, "What did we say after the boat trip?", include_history=False)
    why = found.explain
    (told,) = why.times
    assert told.startswith("after the boat trip: 3 March 2026, said by ")
    fits = {hit.external_id: hit.components["date"] for hit in why.messages}
    assert fits["h8"] > fits["h0"]
    assert "event" in why.timings_ms
    # a preference, not a filter
    assert len(fits) == len(house())


def test_a_budget_is_kept_by_the_tokenizer_of_the_model(filled: Database, settings: Settings) -> None:
    pytest.importorskip("bpe_openai", reason="the extra `tokens` is not installed")
    from pipeline.clients.known_models import tokenizer_for

    found = ask(filled, settings, "the plumber and the boat", model="gpt-4.1-mini", budget_tokens=100)
    assert found.counted_by == "o200k_base"
    count = tokenizer_for("gpt-4.1-mini").count
    assert count(found.text) - 1 <= found.used_tokens <= 100
    assert sum(count(one.content) for one in found.messages) <= 100


GERMAN = "Was kostet ein halber Tag mit acht Leuten?"
ENGLISH = "what is the price of half a day for up to 8 people?"


def test_a_german_question_with_its_translation_finds_the_english_message_and_says_by_which_query(
    filled: Database, settings: Settings
) -> None:
    alone = ask(filled, settings, GERMAN, include_history=False)
    assert alone.explain.messages[0].external_id != "h6"
    wordings = ["price of an excursion", ENGLISH]
    found = ask(filled, settings, GERMAN, queries=wordings, include_history=False)
    best = found.explain.messages[0]
    assert (best.external_id, best.queries["keywords"]) == ("h6", 2)
    assert abs(sum(best.components.values()) - best.score) < 1e-4
    items = [item for block in found.blocks if block.kind == "exchanges" for item in block.items]
    assert any(item.id == best.id and "by query 2" in item.reason for item in items)
    assert found.text.endswith(f"Question: {GERMAN}")
    # times and names are read off the question only
    found = ask(filled, settings, "which boat?", queries=["what did Bob say on 2 March 2026?"])
    assert found.explain.times == []
    assert not any(hit.components.get("named") for hit in found.explain.messages)
