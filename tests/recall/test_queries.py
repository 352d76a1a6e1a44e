"""Other wordings that are searched together with a question."""

from functools import partial

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.memories.statements import remember
from pipeline.recall import search
from pipeline.recall.ask.weights import OTHER_QUERY_WEIGHT
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.memory.memories import MemoryIn
from schemas.payloads import parse_payload
from schemas.search import SearchQuery, SearchResult
from schemas.settings import Settings
from tests.conftest import TENANT
from tests.recall import asking
from tests.recall.test_context import CHAT

GERMAN = "Was kostet ein halber Tag mit acht Leuten?"
ENGLISH = "what is the price of half a day for up to 8 people?"


ask = partial(asking.ask, chat_id=CHAT.chat_id, explain=True, include_history=False)


def find(filled: Database, settings: Settings, query: str, **fields: object) -> SearchResult:
    asked = parse_payload(SearchQuery, {"chat_id": CHAT.chat_id, "query": query} | fields)
    return search(filled, TENANT, asked, embedder=DeterministicEmbedder(), settings=settings)


def ids(found: Context) -> list[str | None]:
    return [hit.external_id for hit in found.explain.messages]


def test_a_german_question_with_its_translation_finds_the_english_message_and_says_by_which_query(
    filled: Database, settings: Settings
) -> None:
    assert ids(ask(filled, settings, GERMAN))[0] != "h6"
    found = ask(filled, settings, GERMAN, queries=["price of an excursion", ENGLISH])
    best = found.explain.messages[0]
    assert (best.external_id, best.queries["keywords"]) == ("h6", 2)
    assert abs(sum(best.components.values()) - best.score) < 1e-4
    items = [item for block in found.blocks if block.kind == "exchanges" for item in block.items]
    assert any(item.id == best.id and "by query 2" in item.reason for item in items)
    assert found.text.endswith(f"Question: {GERMAN}")


@pytest.mark.parametrize("mode", ["hybrid", "similar", "contextual", "topic"])
def test_every_search_but_the_exact_one_takes_other_wordings(
    filled: Database, settings: Settings, mode: str
) -> None:
    found = find(filled, settings, GERMAN, mode=mode, limit=1, queries=[ENGLISH])
    if mode in {"hybrid", "similar"}:
        assert [hit.external_id for hit in found.hits] == ["h6"]
    else:
        day = find(filled, settings, "half a day", limit=1).hits[0].session_id
        assert found.sessions[0].session_id == day
        assert not found.fell_back


def test_what_the_question_finds_itself_stays_among_the_best(filled: Database, settings: Settings) -> None:
    question = "what did we decide about the plumber?"
    alone = ids(ask(filled, settings, question))
    widened = ids(ask(filled, settings, question, queries=["coffee is ready", "an old wooden boat"]))
    assert widened[0] == alone[0] == "h2"
    assert {"h9", "h5"} <= set(widened)


def test_times_and_names_are_read_off_the_question_only(filled: Database, settings: Settings) -> None:
    found = ask(filled, settings, "which boat?", queries=["what did Bob say on 2 March 2026?"])
    assert found.explain.times == []
    assert not any(
        hit.components.get("named") or hit.components.get("date") for hit in found.explain.messages
    )


def test_a_memory_is_found_by_another_wording(filled: Database, settings: Settings) -> None:
    statement = MemoryIn(scope="organization", content="The harbour master is called Vasco", type="fact")
    remember(filled, TENANT, statement)
    question = "Wie heisst der Hafenmeister?"
    assert "Vasco" not in ask(filled, settings, question).text
    found = ask(filled, settings, question, queries=["the name of the harbour master"])
    assert "Vasco" in found.text


def test_a_match_with_another_wording_counts_less(filled: Database, settings: Settings) -> None:
    alone = find(filled, settings, "coffee is ready", mode="similar", limit=1).hits[0]
    other = find(filled, settings, "xyzzy", mode="similar", limit=1, queries=["coffee is ready"]).hits[0]
    assert other.external_id == alone.external_id == "h9"
    assert other.score == pytest.approx(OTHER_QUERY_WEIGHT * alone.score, abs=1e-5)
