"""A query on its way: parsed in one transaction, embedded outside any."""

from dataclasses import replace

import pytest

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.recall.refine import prepare_query
from pipeline.recall.request import ParsedQuestion, Stopwatch, for_context, parse_question
from pipeline.store.connections.database import Database
from schemas.errors import ProviderUnavailable
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import TENANT
from tests.recall.test_context import CHAT

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


def parsed(database: Database, settings: Settings, text: str) -> ParsedQuestion:
    query = ContextQuery(chat_id=CHAT.chat_id, query=text)
    with database.tenant(TENANT) as connection:
        return parse_question(connection, for_context(connection, query, settings))


def test_a_provider_that_failed_is_asked_once_for_a_query(filled: Database, settings: Settings) -> None:
    # Given a question that needs three vectors: of two events and of itself
    question = parsed(filled, settings, EVENT)
    assert len(question.event.described) == 2
    provider = FailsOnce()
    query = prepare_query(filled, TENANT, question, provider, Stopwatch())
    # Then no other is made, keywords are searched, and the reason is given once
    assert provider.requests == 1
    assert query.terms.embedded is None
    assert query.terms.lexemes
    assert query.degraded == ["vectors: down: only keywords are searched"]


@pytest.mark.parametrize(
    ("language", "compared"),
    [("chinese", False), ("chinese+english", True)],
)
def test_where_the_model_knows_none_of_the_letters_only_words_are_searched(
    filled: Database, settings: Settings, language: str, compared: bool
) -> None:
    question = parsed(filled, settings, "我们什么时候去?")
    request, space = question.ask.request, question.ask.request.prelude.space
    assert space is not None
    chat = replace(request.chat, language=language)
    request = replace(
        request, prelude=replace(request.prelude, chat=chat, space=replace(space, model="all-MiniLM-L6-v2"))
    )
    question = replace(question, ask=replace(question.ask, request=request))
    embedders = SpaceEmbedders(lambda _: DeterministicEmbedder())
    query = prepare_query(filled, TENANT, question, embedders, Stopwatch())
    assert (query.terms.embedded is not None) is compared
    told = f"vectors: all-MiniLM-L6-v2 does not know {language}: only keywords are searched"
    assert query.degraded == ([] if compared else [told])
