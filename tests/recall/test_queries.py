"""Other wordings that are searched together with a question."""

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.memories.statements import remember
from pipeline.recall import build_context, search
from pipeline.recall.ask.weights import OTHER_QUERY_WEIGHT
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.errors import InvalidInput
from schemas.memories import MemoryIn
from schemas.messages import MAX_QUERIES
from schemas.payloads import ContextQuery, parse_payload
from schemas.search import SearchQuery, SearchResult
from schemas.settings import Settings
from tests.conftest import TENANT, Templates
from tests.recall.test_context import CHAT, fill

GERMAN = "Was kostet ein halber Tag mit acht Leuten?"
ENGLISH = "what is the price of half a day for up to 8 people?"


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("filled", fill)


def ask(database: Database, settings: Settings, question: str, **fields: object) -> Context:
    asked = {"chat_id": CHAT.chat_id, "query": question, "explain": True, "include_history": False} | fields
    query = parse_payload(ContextQuery, asked)
    return build_context(database, TENANT, query, embedder=DeterministicEmbedder(), settings=settings)


def find(database: Database, settings: Settings, query: str, **fields: object) -> SearchResult:
    asked = parse_payload(SearchQuery, {"chat_id": CHAT.chat_id, "query": query} | fields)
    return search(database, TENANT, asked, embedder=DeterministicEmbedder(), settings=settings)


def ids(found: Context) -> list[str | None]:
    assert found.explain is not None
    return [hit.external_id for hit in found.explain.messages]


def test_a_german_question_with_its_translation_finds_the_english_message_and_says_by_which_query(
    database: Database, settings: Settings
) -> None:
    assert ids(ask(database, settings, GERMAN))[0] != "h6"
    found = ask(database, settings, GERMAN, queries=["price of an excursion", ENGLISH])
    assert found.explain is not None
    best = found.explain.messages[0]
    assert (best.external_id, best.queries["keywords"]) == ("h6", 2)
    assert abs(sum(best.components.values()) - best.score) < 1e-4
    items = [item for block in found.blocks if block.kind == "exchanges" for item in block.items]
    assert any(item.id == best.id and "by query 2" in item.reason for item in items)
    assert found.text.endswith(f"Question: {GERMAN}")


@pytest.mark.parametrize("mode", ["hybrid", "similar", "contextual", "topic"])
def test_every_search_but_the_exact_one_takes_other_wordings(
    database: Database, settings: Settings, mode: str
) -> None:
    found = find(database, settings, GERMAN, mode=mode, limit=1, queries=[ENGLISH])
    if mode in {"hybrid", "similar"}:
        assert [hit.external_id for hit in found.hits] == ["h6"]
    else:
        day = find(database, settings, "half a day", limit=1).hits[0].session_id
        assert found.sessions[0].session_id == day
        assert not found.fell_back


def test_what_the_question_finds_itself_stays_among_the_best(database: Database, settings: Settings) -> None:
    question = "what did we decide about the plumber?"
    alone = ids(ask(database, settings, question))
    widened = ids(ask(database, settings, question, queries=["coffee is ready", "an old wooden boat"]))
    assert widened[0] == alone[0] == "h2"
    assert {"h9", "h5"} <= set(widened)


def test_the_question_said_twice_or_no_other_wording_changes_nothing(
    database: Database, settings: Settings
) -> None:
    question = "what did we decide about the plumber?"

    def told(**fields: object) -> object:
        found = ask(database, settings, question, **fields)
        assert found.explain is not None
        return found.blocks, found.explain.messages, found.explain.sessions

    assert told() == told(queries=[]) == told(queries=[question])
    for mode in ("hybrid", "similar", "contextual", "topic"):
        alone = find(database, settings, question, mode=mode)
        assert alone == find(database, settings, question, mode=mode, queries=[question])


def test_a_filter_holds_for_other_wordings_too(database: Database, settings: Settings) -> None:
    for mode in ("hybrid", "similar"):
        found = find(database, settings, GERMAN, mode=mode, queries=[ENGLISH], sender_ids=["test:Bob"])
        assert found.hits
        assert {hit.speaker for hit in found.hits} == {"Bob"}


def test_times_and_names_are_read_off_the_question_only(database: Database, settings: Settings) -> None:
    found = ask(database, settings, "which boat?", queries=["what did Bob say on 2 March 2026?"])
    assert found.explain is not None
    assert found.explain.times == []
    assert not any(
        hit.components.get("named") or hit.components.get("date") for hit in found.explain.messages
    )


def test_a_memory_is_found_by_another_wording(database: Database, settings: Settings) -> None:
    statement = MemoryIn(scope="organization", content="The harbour master is called Vasco", type="fact")
    remember(database, TENANT, statement)
    question = "Wie heisst der Hafenmeister?"
    assert "Vasco" not in ask(database, settings, question).text
    found = ask(database, settings, question, queries=["the name of the harbour master"])
    assert "Vasco" in found.text


def test_a_match_with_another_wording_counts_less(database: Database, settings: Settings) -> None:
    alone = find(database, settings, "coffee is ready", mode="similar", limit=1).hits[0]
    other = find(database, settings, "xyzzy", mode="similar", limit=1, queries=["coffee is ready"]).hits[0]
    assert other.external_id == alone.external_id == "h9"
    assert other.score == pytest.approx(OTHER_QUERY_WEIGHT * alone.score, abs=1e-5)


@pytest.mark.parametrize(
    ("queries", "reason"),
    [
        (["?"] * (MAX_QUERIES + 1), "queries: has 6 items; at most 5 are taken"),
        (["fine", "x" * 8001], "queries.1: must have at most 8000 characters, not 8001"),
        ([""], "queries.0: must have at least 1 character, not 0"),
        ("boat", "queries: Input should be a valid list"),
    ],
)
def test_wrong_wordings_are_refused_by_name_and_limit(queries: object, reason: str) -> None:
    for kind in (ContextQuery, SearchQuery):
        with pytest.raises(InvalidInput, match=reason.replace("?", r"\?")):
            parse_payload(kind, {"chat_id": CHAT.chat_id, "query": "boat?", "queries": queries})
