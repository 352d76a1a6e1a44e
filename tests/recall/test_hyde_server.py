"""Hypothetical answers of a language model behind a real server on this machine."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.factory import make_chat_model
from pipeline.llm.gateway import Gateway
from pipeline.recall import build_context, hyde
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import TENANT, Templates
from tests.providers.chat_server import ChatServer, Reply, refused
from tests.recall.test_context import CHAT, fill
from tests.recall.test_hyde import ANSWER, QUESTION


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("filled", fill)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as server:
        yield server


def ask(database: Database, settings: Settings, server: ChatServer) -> Context:
    named = settings.model_copy(update={"hyde_model": "test", "openai_base_url": server.url})
    query = ContextQuery(chat_id=CHAT.chat_id, query=QUESTION, hyde=True, explain=True, include_history=False)
    with closing(make_chat_model(named, "test", setting="HYDE_MODEL")) as model:  # type: ignore[type-var]
        gateway = Gateway(database, model)
        return build_context(
            database, TENANT, query, embedder=DeterministicEmbedder(), settings=named, gateway=gateway
        )


def test_the_answer_of_a_real_server_finds_what_the_question_does_not(
    database: Database, settings: Settings, server: ChatServer
) -> None:
    server.replies(Reply(text=ANSWER))
    found = ask(database, settings, server)
    assert found.explain is not None
    (day,) = (hit for hit in found.explain.messages[:2] if hit.external_id == "h6")
    assert (day.queries, found.degraded) == ({"keywords": 1, "vectors": 1}, [])
    (request,) = server.requests
    # the question, and nothing that was said in the chat
    assert QUESTION in str(request["messages"])
    assert "plumber" not in str(request["messages"])


@pytest.mark.parametrize(
    "reply",
    [Reply(text=ANSWER, delay=3), Reply(text=ANSWER, drip=0.05), Reply(text=ANSWER, delay=60)],
    ids=["slow", "drip", "hangs"],
)
def test_a_server_that_takes_long_delays_the_answer_by_no_more_than_the_bound(
    database: Database,
    settings: Settings,
    server: ChatServer,
    reply: Reply,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # what is imported or connected only once counts for nobody
    ask(database, settings, server)
    server.answer = lambda _: reply
    monkeypatch.setattr(hyde, "TIMEOUT_SECONDS", 1.0)
    started = time.monotonic()
    found = ask(database, settings, server)
    assert time.monotonic() - started < 4
    assert found.degraded[0].startswith("hyde: ")


@pytest.mark.parametrize(
    "reply",
    [refused("too many", 429), refused("broken", 500), refused("no such model", 404), Reply(hang_up=True)],
    ids=["429", "500", "404", "hangs up"],
)
def test_a_server_that_fails_leaves_the_context_as_it_is(
    database: Database, settings: Settings, server: ChatServer, reply: Reply
) -> None:
    server.answer = lambda _: reply
    found = ask(database, settings, server)
    assert len(found.degraded) == 1
    assert found.degraded[0].startswith("hyde: ")
    assert found.blocks
