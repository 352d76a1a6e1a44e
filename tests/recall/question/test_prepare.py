"""A query on its way: parsed in one transaction, embedded outside any."""

from dataclasses import replace

import pytest

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.recall import refine
from pipeline.recall.request import Request, Stopwatch, for_context
from pipeline.store.connections.database import Database
from schemas.errors import ProviderUnavailable
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import TENANT
from tests.harness.contexts import CHAT

EVENT = "What did Ann say between the boiler and the boat trip?"


class FailsOnce(DeterministicEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.requests = 0

    def embed_query(self, text: str) -> Vector:
        self.requests += 1
        if self.requests == 1:
            raise ProviderUnavailable("down")
        return super().embed_query(text)


def parsed(database: Database, settings: Settings, text: str) -> Request:
    query = ContextQuery(chat_id=CHAT.chat_id, query=text)
    with database.tenant(TENANT) as connection:
        return for_context(connection, query, settings)


def test_what_is_asked_of_an_event_is_compared_without_the_event(
    filled: Database, settings: Settings
) -> None:
    request = parsed(filled, settings, "Who paid for the plumber before the boat trip?")
    request = refine.embed(filled, TENANT, request, DeterministicEmbedder(), Stopwatch())
    assert request.embedded is not None
    assert request.embedded[1] == DeterministicEmbedder().embed_query("Who paid for the plumber?")


def test_the_times_that_a_stage_takes_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((1.0, 1.25, 2.0, 2.5))
    monkeypatch.setattr("pipeline.recall.request.monotonic", lambda: next(seconds))
    stopwatch = Stopwatch()
    for _ in range(2):
        with stopwatch.timed("embed"):
            pass
    assert stopwatch.timings_ms == {"embed": 750.0}


def test_a_provider_that_failed_is_asked_once_for_a_query(filled: Database, settings: Settings) -> None:
    # Given a question that needs vectors: of two events and of itself
    request = parsed(filled, settings, EVENT)
    assert request.event is not None
    assert len(request.event.described) == 2
    provider = FailsOnce()
    request = refine.embed(filled, TENANT, request, provider, Stopwatch())
    # Then no other is made, keywords are searched, and the reason is given once
    assert provider.requests == 1
    assert request.embedded is None
    assert request.lexemes
    assert request.degraded == ["vectors: down: only keywords are searched"]


@pytest.mark.parametrize(
    ("language", "compared"),
    [("chinese", False), ("chinese+english", True)],
)
def test_where_the_model_knows_none_of_the_letters_only_words_are_searched(
    filled: Database, settings: Settings, language: str, compared: bool
) -> None:
    request = parsed(filled, settings, "我们什么时候去?")
    space = request.snapshot.space
    assert space is not None
    chat = replace(request.chat, language=language)
    request = replace(
        request, snapshot=replace(request.snapshot, chat=chat, space=replace(space, model="all-MiniLM-L6-v2"))
    )
    embedders = SpaceEmbedders(lambda _: DeterministicEmbedder())
    request = refine.embed(filled, TENANT, request, embedders, Stopwatch())
    assert (request.embedded is not None) is compared
    told = f"vectors: all-MiniLM-L6-v2 does not know {language}: only keywords are searched"
    assert request.degraded == ([] if compared else [told])
