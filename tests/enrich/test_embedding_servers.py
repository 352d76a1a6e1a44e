"""Memory that is embedded by a server: what is not known while it is away, and what it costs."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import text

from ops.local import migrate
from pipeline.clients.factory import make_embedder
from pipeline.clients.http_embedder import HttpEmbedder
from pipeline.enrich.vectors import embed
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.llm.prices import Price, Prices
from pipeline.recall import search
from pipeline.store.connections.database import Database
from schemas.search import SearchQuery
from schemas.settings import Settings
from tests.clients.embedding_server import EmbeddingServer, embedding_server
from tests.conftest import TENANT
from tests.enrich.test_embed import owe
from tests.ingest.test_quarantine import as_owner
from tests.test_pipeline import CHAT


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


def client_of(server: EmbeddingServer, settings: Settings) -> HttpEmbedder:
    named = {"embedding_provider": "ollama", "embedding_model": "mine", "ollama_url": server.url}
    made = make_embedder(settings.model_copy(update=named))
    assert isinstance(made, HttpEmbedder)
    return made


def test_a_model_whose_dimensions_nobody_knows_yet_leaves_questions_to_keywords_while_it_is_away(
    database: Database, rules: SessionPolicy, policy: Policy, settings: Settings, server: EmbeddingServer
) -> None:
    owe(database, rules, policy, "the plumber is called Beatriz")
    server.fault = "overloaded"
    query = SearchQuery(chat_id=CHAT.chat_id, query="who is the plumber?")
    with closing(client_of(server, settings)) as client:
        found = search(database, TENANT, query, embedder=client, settings=settings)
    assert [hit.external_id for hit in found.hits] == ["m0"]
    assert "503" in found.degraded[0]


def test_what_a_server_embeds_is_noted_with_its_price_and_so_is_what_it_does_not(
    database: Database, rules: SessionPolicy, policy: Policy, settings: Settings, server: EmbeddingServer
) -> None:
    owe(database, rules, policy, "the plumber is called Beatriz", "the boiler is new")
    prices = Prices(by_model={"mine": Price(input=100.0)})
    with closing(client_of(server, settings)) as client:
        as_owner(settings, "UPDATE embedding_spaces SET status = 'retired'")
        migrate.upgrade(settings.owner_database_url.get_secret_value(), client.space)
        for server.fault in ("overloaded", None):
            runner.run(database, "embed", embed.embedder(database, client, prices=prices), policy)
            with database.maintenance() as connection:
                connection.execute(text("UPDATE jobs SET due_at = now() WHERE due_at IS NOT NULL"))
    with database.tenant(TENANT) as connection:
        calls = connection.execute(
            text("SELECT purpose, model, outcome, input_tokens, cost FROM llm_calls ORDER BY id")
        ).all()
    assert [tuple(call)[:3] for call in calls] == [
        ("embedding", "mine", "unavailable"),
        ("embedding", "mine", "answered"),
    ]
    assert (calls[0].input_tokens, calls[0].cost) == (0, 0)
    assert 10 < calls[1].input_tokens < 40
    assert calls[1].cost == pytest.approx(calls[1].input_tokens * 100 / 1_000_000)
