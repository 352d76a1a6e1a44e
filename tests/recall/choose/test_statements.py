"""How often a context asks Postgres: each statement is a trip, and together they are most of what it costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.memories import documents
from pipeline.memories.statements import remember
from pipeline.recall import build_context
from pipeline.store.connections import trips
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.documents import DocumentIn
from schemas.memories import MemoryIn
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import EPOCH, POLICY, TENANT, Templates, message
from tests.recall.test_context import DAY, do_all

MOST_STATEMENTS = 9
CHAT = ChatIn(chat_id="test:port", title="The port", time_zone="UTC", language="english")
OTHER = ChatIn(chat_id="test:boat", title="The boat", time_zone="UTC", language="english")


def talk() -> list[MessageIn]:
    """Twelve days about ferries, and some talk about a pier; what was decided about it does not name it."""
    said = [
        message(day * DAY + minute, f"the ferry number {10 * day + minute} is late", id=f"f{day}-{minute}")
        for day in range(12)
        for minute in range(10)
    ]
    pier = [
        ("Ann", "the pier needs new planks, ticket PORT-12"),
        ("Bob", "oak planks or pine planks for the pier?"),
        ("Ann", "ok decided: we take oak planks"),
        ("Bob", "I live in Porto now"),
    ]
    said += [
        message(6 * DAY + 20 + n, content, id=f"p{n}", sender_name=name, sender_id=f"test:{name.lower()}")
        for n, (name, content) in enumerate(pier)
    ]
    return said


def fill(database: Database) -> None:
    accept.accept(database, TENANT, CHAT, talk())
    accept.accept(database, TENANT, OTHER, [each for each in talk() if each.external_id.startswith("p")])
    for memory in (
        {"scope": "organization", "content": "The pier belongs to the town."},
        {"scope": "user", "user_id": "test:ann", "content": "Ann paints piers.", "learned_in": CHAT.chat_id},
        {
            "scope": "user",
            "user_id": "test:bob",
            "content": "Bob owns the boat.",
            "learned_in": OTHER.chat_id,
        },
    ):
        remember(database, TENANT, MemoryIn.model_validate({"importance": 5, **memory}))
    handbook = DocumentIn(document_id="handbook", content="The pier is closed in winter. " * 5)
    documents.keep(database, TENANT, handbook, documents.cut(handbook.content, DeterministicEmbedder()))
    do_all(database, SessionPolicy.of(Settings(_env_file=None, summarize_debounce_seconds=0)), POLICY)


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("statements", fill)


@contextmanager
def statements() -> Iterator[list[str]]:
    """The statements that are executed meanwhile, beside BEGIN and COMMIT, also those that go past SQLAlchemy."""
    executed: list[str] = []
    begin, send = trips.begin, trips.send

    def note(*given: Any) -> None:
        executed.append(given[2])

    def begun(driver: Any, command: str, *values: Any) -> None:
        executed.append(command)
        begin(driver, command, *values)

    def sent(driver: Any, prepared: Any, together: Any) -> Any:
        executed.extend(sql for sql, _ in together)
        return send(driver, prepared, together)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trips, "begin", begun)
            patch.setattr(trips, "send", sent)
            yield executed
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def ask(database: Database, settings: Settings, question: str, **fields: Any) -> Context:
    given = {"chat_id": CHAT.chat_id, "query": question, "user_id": "test:ann"} | fields
    query = ContextQuery.model_validate(given)
    return build_context(database, TENANT, query, embedder=DeterministicEmbedder(), settings=settings)


THEN = f"{EPOCH + timedelta(days=6):%d %B %Y}"
# what is asked, how, and what the answer rests on
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "nothing in particular": ("which planks does the pier need?", {}, "new planks"),
    "somebody who is named": ("what did Bob say about the pier?", {}, "pine planks"),
    "a time": (f"what did we say about the pier on {THEN}?", {}, "new planks"),
    "the newest": ("where does Bob live now, near the pier?", {}, "in Porto now"),
    "a decision": ("what did we decide about the pier?", {}, "we take oak planks"),
    "all of it": (f"what has Ann decided by now about the pier on {THEN}?", {}, "we take oak planks"),
    "an identifier": ('did we decide about PORT-12 of the pier, "new planks"?', {}, "PORT-12"),
    "several wordings": ("which planks?", {"queries": ["oak for the pier"]}, "pine planks"),
    "an explanation": ("what did Bob decide about the pier?", {"explain": True}, "we take oak planks"),
    "a thread": (
        "what did we decide about the pier now?",
        {"session_key": "", "profile": "agent"},
        "oak planks",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_context_asks_postgres_nine_times_at_most_whatever_is_asked(
    database: Database, settings: Settings, case: str
) -> None:
    # Given a chat with summaries and vectors, in a tenant with memories and a document, and a process that is ready
    question, fields, answer = CASES[case]
    database.check()
    # When a bot asks there
    with statements() as executed:
        found = ask(database, settings, question, **fields)
    # Then it gets its answer, and what is remembered, by few statements
    assert len(executed) <= MOST_STATEMENTS, "\n".join(executed)
    assert not found.degraded
    assert answer in found.text
    assert {"memories", "documents"} & {block.kind for block in found.blocks if block.items}


def test_the_statements_of_a_question_are_planned_once_and_not_for_each(
    database: Database, settings: Settings
) -> None:
    for wood in ("oak", "pine", "teak", "larch"):
        ask(database, settings, f"which {wood} planks did we decide on for the pier?")
    with database.tenant(TENANT) as connection:
        planned = connection.execute(
            text("""
                SELECT generic_plans, custom_plans FROM pg_prepared_statements
                WHERE strpos(statement, 'near_messages') > 0
            """)
        ).all()
    # the first question has prepared nothing, as a statement may be the only one of its kind
    assert [tuple(row) for row in planned] == [(3, 0)]
