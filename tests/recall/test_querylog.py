"""What was asked and shown is recorded, as far as it may be, and answers are kept with it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.erasure import forget
from pipeline.ingest import accept
from pipeline.memories.statements import remember
from pipeline.people import suppression
from pipeline.recall import query_log
from pipeline.store.connections.database import Database
from pipeline.store.erasure import suppression as suppression_list
from pipeline.store.search import query_log as store
from schemas.context import AnswerIn, Context, LoggedContext
from schemas.errors import InvalidInput, NotFound
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import TENANT, Templates, message
from tests.harness.pipeline import embed_all, forget_all, place, rows, run, summarizer
from tests.harness.refusals import as_owner
from tests.recall import asking
from tests.waiting import SECONDS, until

CHAT = ChatIn(chat_id="test:house")
ANN = "test:ann"
SAID = ("the boiler shows E41", "call the plumber from Almada", "she comes on Monday", "at nine")


def fill(database: Database) -> None:
    """Two sessions with summaries and vectors, and a memory."""
    for day in (0, 1):
        talk = [message(day * 1440 + n, said, id=f"{day}-{n}") for n, said in enumerate(SAID)]
        accept.accept(database, TENANT, CHAT, talk)
    remember(
        database, TENANT, MemoryIn(scope="organization", content="What a boiler shows, the manual explains.")
    )
    place(database)
    run(database, "summarize", summarizer(database))
    embed_all(database)


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("logged", fill)


@pytest.fixture
def talked(database: Database) -> Database:
    return database


def ask(
    database: Database, settings: Settings, query: str = "what does the boiler show?", **fields: Any
) -> Context:
    return asking.ask(database, settings, query, **{"chat_id": CHAT.chat_id, "user_id": ANN} | fields)


def logged(database: Database, context: Context) -> LoggedContext | None:
    with database.tenant(TENANT) as connection:
        row = store.get(connection, context.context_id)
    return None if row is None else LoggedContext.model_validate(row._mapping)


def test_a_context_is_recorded_with_what_it_showed_and_cost(talked: Database, settings: Settings) -> None:
    context = ask(talked, settings)
    row = logged(talked, context)
    assert (row.chat_id, row.user_id, row.query) == (CHAT.chat_id, ANN, "what does the boiler show?")
    shown = {(f"{item.kind}:{item.id}", block.kind) for block in context.blocks for item in block.items}
    assert set(row.shown.items()) == shown
    assert {"history", "memories"} <= set(row.shown.values())
    tokens = {block.kind: block.tokens for block in context.blocks}
    assert (row.tokens["recent"], row.tokens["memory"]) == (tokens["history"], tokens["memories"])
    assert row.chars["memory"] > 0
    assert row.used_tokens == context.used_tokens
    assert 0 < row.latency_ms < 60_000
    assert row.evidence is not None
    assert row.evidence == context.evidence
    assert row.degraded == []


def test_where_memory_is_off_the_figures_alone_are_recorded(talked: Database, settings: Settings) -> None:
    suppression.remember_user(talked, TENANT, "test:bob", remembered=False)
    of_bob = ask(talked, settings, user_id="test:bob")
    accept.accept(talked, TENANT, CHAT.model_copy(update={"memory": False}), [message(9999)])
    for context in (ask(talked, settings), of_bob):
        row = logged(talked, context)
        assert (row.query, row.user_id, row.shown) == (None, None, {})
        assert row.used_tokens == context.used_tokens
    # and nothing where the log is off
    assert logged(talked, ask(talked, settings.model_copy(update={"query_log_enabled": False}))) is None


def test_a_context_that_cannot_be_recorded_is_served(talked: Database, settings: Settings) -> None:
    as_owner(settings, "REVOKE INSERT ON query_log FROM backscroll_app")
    context = ask(talked, settings)
    assert "E41" in context.text
    assert [reason.partition(":")[0] for reason in context.degraded] == ["query_log"]


def test_who_is_forgotten_meanwhile_is_not_recorded(talked: Database, settings: Settings) -> None:
    class Forgetful(DeterministicEmbedder):
        subject: Subject

        def embed_query(self, text: str) -> list[float]:
            forget.start(talked, TENANT, self.subject)
            return super().embed_query(text)

    client = Forgetful()
    client.subject = Subject(kind="user", sender_id=ANN)
    row = logged(talked, ask(talked, settings, embedder=client))
    assert (row.query, row.user_id, row.shown) == (None, None, {})
    client.subject = Subject(kind="chat", chat_id=CHAT.chat_id)
    assert logged(talked, ask(talked, settings, embedder=client)) is None


def report(database: Database, settings: Settings, context: Context, **given: object) -> tuple[str, bool]:
    """What became of an answer, and whether it is remembered."""
    answer = AnswerIn.model_validate({"answer": "It shows E41."} | given)
    answered = query_log.report(database, TENANT, context.context_id, answer, settings)
    return answered.outcome, answered.memory_id is not None


def test_question_and_answer_become_a_memory_of_who_asked(talked: Database, settings: Settings) -> None:
    context = ask(talked, settings)
    assert report(talked, settings, context) == ("stored", False)
    assert rows(talked, "SELECT count(*) FROM memories WHERE type = 'qa_turn'") == [(0,)]
    # wanted later, and asked for twice; the first answer stands
    for answer in ("It shows E41.", "something else"):
        assert report(talked, settings, context, answer=answer, remember=True) == ("known", True)
    assert logged(talked, context).answer == "It shows E41."
    assert rows(
        talked, "SELECT scope, user_id, learned_in, importance, content FROM memories WHERE type = 'qa_turn'"
    ) == [("user", ANN, CHAT.chat_id, 1.0, "what does the boiler show?\nIt shows E41.")]
    embed_all(talked)
    again = ask(talked, settings)
    assert any("E41" in item.text for b in again.blocks if b.kind == "memories" for item in b.items)


def test_answers_are_remembered_by_a_setting_or_the_bots_wish(talked: Database, settings: Settings) -> None:
    keen = settings.model_copy(update={"remember_answers": True})
    assert report(talked, keen, ask(talked, settings), remember=False) == ("stored", False)
    assert report(talked, keen, ask(talked, settings)) == ("stored", True)
    assert report(talked, keen, ask(talked, settings, user_id=None)) == ("stored", False)
    with pytest.raises(NotFound):
        query_log.report(talked, TENANT, "ctx_none", AnswerIn(answer="E41."), settings)
    with pytest.raises(InvalidInput, match="user_id"):
        report(talked, settings, ask(talked, settings, user_id=None), remember=True)


@pytest.mark.parametrize("is_reported", [False, True])
def test_no_answer_is_remembered_while_its_chat_is_being_forgotten(
    talked: Database, settings: Settings, is_reported: bool
) -> None:
    context = ask(talked, settings)
    if is_reported:
        report(talked, settings, context)

    def is_remembered() -> bool:
        if not is_reported:
            return report(talked, settings, context, remember=True)[1]
        with talked.tenant(TENANT) as connection:
            return query_log.remember_reported(connection, TENANT, context.context_id) is not None

    with ThreadPoolExecutor(1) as pool:
        with talked.tenant(TENANT) as connection:
            suppression_list.lock(connection, TENANT, CHAT.chat_id, exclusive=True)
            remembering = pool.submit(is_remembered)
            waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'")
            until(lambda: remembering.done() or connection.scalar(waiting), "it waits")
            assert not remembering.done()
        assert remembering.result(SECONDS)


def test_what_was_recalled_is_cut_out_of_an_answer(talked: Database, settings: Settings) -> None:
    context = ask(talked, settings)
    told = f"Here is what I know. {context.text} It shows E41."
    report(talked, settings, context, answer=told, remember=True)
    row = logged(talked, context)
    assert row.answer is not None
    assert "plumber" not in row.answer
    assert rows(talked, "SELECT count(*) FROM memories WHERE content LIKE '%plumber%'") == [(0,)]


def test_an_answer_that_rests_on_what_was_forgotten_is_kept_out(talked: Database, settings: Settings) -> None:
    context = ask(talked, settings, user_id="test:bob")
    forget.start(talked, TENANT, Subject(kind="message", chat_id=CHAT.chat_id, external_id="1-0"))
    forget_all(talked)
    assert report(talked, settings, context, remember=True) == ("kept_out", False)
