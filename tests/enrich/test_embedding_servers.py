"""Memory that is embedded by a server: what its outages cost, and what its failures at one text do to the others."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from ops.local import migrate
from pipeline.clients import http_embedder
from pipeline.clients.factory import make_embedder
from pipeline.clients.http_embedder import HttpEmbedder
from pipeline.enrich.vectors import embed
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.dead_letters import JobFilter, listing
from pipeline.jobs.runner import Outcome, Policy
from pipeline.llm.prices import Price, Prices
from pipeline.recall import search
from pipeline.store.connections.database import Database
from schemas.search import SearchQuery
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace
from tests.clients.embedding_server import CLOSES, POISON, EmbeddingServer, embedding_server
from tests.conftest import TENANT, message
from tests.ingest.test_quarantine import as_owner
from tests.test_pipeline import CHAT, place, rows


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


@pytest.fixture(params=["ollama", "openai"])
def client(
    request: pytest.FixtureRequest, server: EmbeddingServer, settings: Settings
) -> Iterator[HttpEmbedder]:
    """The embedder of a server's model, whose space is the one that is searched."""
    where = {"ollama_url": server.url, "openai_base_url": f"{server.url}/v1", "embedding_batch_size": 8}
    made = make_embedder(
        settings.model_copy(update={"embedding_provider": request.param, "embedding_model": "mine", **where})
    )
    assert isinstance(made, HttpEmbedder)
    as_owner(settings, "UPDATE embedding_spaces SET status = 'retired'")
    assert settings.owner_database_url is not None
    migrate.upgrade(settings.owner_database_url.get_secret_value(), made.space)
    server.asked.clear()
    yield made
    made.close()


def owe(database: Database, rules: SessionPolicy, policy: Policy, *contents: str) -> None:
    """Messages of these contents that are placed and owed their vectors."""
    said = [message(n / 10, content, id=f"m{n}") for n, content in enumerate(contents)]
    accept.accept(database, TENANT, CHAT, said)
    place(database, rules, policy)


def embed_once(database: Database, client: HttpEmbedder, policy: Policy) -> Outcome:
    return runner.run(database, "embed", embed.embedder(database, client), policy)


def due_now(database: Database) -> None:
    """The pause after an outage is over."""
    with database.maintenance() as connection:
        connection.execute(text("UPDATE jobs SET due_at = now() WHERE due_at IS NOT NULL"))


def embedded(database: Database) -> int:
    return int(str(rows(database, "SELECT count(DISTINCT message_id) FROM message_vectors")[0][0]))


@pytest.mark.parametrize("fault", ["broken", "busy", CLOSES])
def test_an_outage_loses_nothing_and_costs_no_attempts(
    database: Database,
    rules: SessionPolicy,
    policy: Policy,
    server: EmbeddingServer,
    client: HttpEmbedder,
    fault: str,
) -> None:
    owe(database, rules, policy, *(f"message number {n}" for n in range(20)))
    # Given a server that answers once and then fails, for longer than there are attempts
    server.fault, server.after = fault, 1
    embed_once(database, client, policy)
    for _ in range(policy.max_attempts + 2):
        due_now(database)
        embed_once(database, client, policy)
    # Then what it had answered is kept, and the rest is pending, untried
    kept = embedded(database)
    assert kept == 8
    found = rows(
        database,
        """SELECT max(attempts), count(due_at), count(dead_at), bool_and(due_at > now() + interval '5 s')
        FROM jobs WHERE kind = 'embed' AND due_at IS NOT NULL""",
    )
    assert found == [(0, 20 - kept, 0, True)]
    # and when it is back, all of it is embedded, and nothing twice
    server.fault = None
    due_now(database)
    embed_once(database, client, policy)
    assert embedded(database) == 20
    assert rows(database, "SELECT count(*) FROM jobs WHERE kind = 'embed' AND due_at IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("fault", ["broken", "not a number"])
def test_a_text_that_breaks_the_server_takes_no_other_with_it(
    database: Database,
    rules: SessionPolicy,
    policy: Policy,
    server: EmbeddingServer,
    client: HttpEmbedder,
    fault: str,
) -> None:
    server.fault, server.word = fault, POISON
    owe(database, rules, policy, *(f"message number {n}" for n in range(19)), f"some {POISON}")
    embed_once(database, client, policy)
    assert embedded(database) == 19
    [letter], _ = listing(database, TENANT, JobFilter(state="dead"))
    assert (letter.error or "").startswith("ProviderRejected: ")


def test_the_server_says_when_it_may_be_asked_again(
    database: Database, rules: SessionPolicy, policy: Policy, server: EmbeddingServer, client: HttpEmbedder
) -> None:
    owe(database, rules, policy, "hello")
    server.fault = "busy"
    embed_once(database, client, policy)
    due = "SELECT due_at BETWEEN now() + interval '5 s' AND now() + interval '8 s' FROM jobs WHERE kind = 'embed'"
    assert rows(database, due) == [(True,)]


def test_a_question_during_an_outage_is_answered_by_keywords_and_says_so(
    database: Database,
    rules: SessionPolicy,
    policy: Policy,
    settings: Settings,
    server: EmbeddingServer,
    client: HttpEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owe(database, rules, policy, "the plumber is called Beatriz", "see you tomorrow")
    embed_once(database, client, policy)
    query = SearchQuery(chat_id=CHAT.chat_id, query="who is the plumber?")
    well = search(database, TENANT, query, embedder=client, settings=settings)
    assert not well.degraded
    # When the server is away, then the answer comes from keywords
    server.fault = "overloaded"
    degraded = search(database, TENANT, query, embedder=client, settings=settings)
    assert [hit.external_id for hit in degraded.hits][:1] == ["m0"]
    assert "503" in degraded.degraded[0]
    assert "only keywords are searched" in degraded.degraded[0]
    # and the next ones do not wait for it
    asked = len(server.asked)
    assert search(database, TENANT, query, embedder=client, settings=settings).degraded
    assert len(server.asked) == asked
    # Once it is back, vectors are compared again
    server.fault = None
    monkeypatch.setattr(http_embedder, "monotonic", lambda: 1e12)
    assert not search(database, TENANT, query, embedder=client, settings=settings).degraded


def test_a_question_is_never_compared_with_vectors_of_another_space(
    database: Database,
    rules: SessionPolicy,
    policy: Policy,
    settings: Settings,
    server: EmbeddingServer,
    client: HttpEmbedder,
) -> None:
    owe(database, rules, policy, "the plumber is called Beatriz")
    embed_once(database, client, policy)
    query = SearchQuery(chat_id=CHAT.chat_id, query="who is the plumber?")
    # Given the same model with another prefix, with as many dimensions
    for change in (
        {"query_prefix": "Q: "},
        {"document_prefix": "D: "},
        {"model": "other"},
        {"provider": "openai2"},
    ):
        space = client.space
        columns = ", ".join(f"{name} = '{value}'" for name, value in change.items())
        as_owner(settings, f"UPDATE embedding_spaces SET {columns} WHERE status = 'active'")
        server.asked.clear()
        # Then the question is not even embedded, and the answer says why
        found = search(database, TENANT, query, embedder=client, settings=settings)
        assert [hit.external_id for hit in found.hits] == ["m0"]
        assert "nothing here embeds into the active space" in found.degraded[0]
        assert server.asked == []
        as_owner(settings, _as(space))
    assert not search(database, TENANT, query, embedder=client, settings=settings).degraded


def _as(space: EmbeddingSpace) -> str:
    given = {name: getattr(space, name) for name in ("provider", "model", "query_prefix", "document_prefix")}
    columns = ", ".join(f"{name} = '{value}'" for name, value in given.items())
    return f"UPDATE embedding_spaces SET {columns} WHERE status = 'active'"


def test_a_model_whose_dimensions_nobody_knows_yet_leaves_questions_to_keywords_while_it_is_away(
    database: Database,
    rules: SessionPolicy,
    policy: Policy,
    settings: Settings,
    server: EmbeddingServer,
    client: HttpEmbedder,
) -> None:
    owe(database, rules, policy, "the plumber is called Beatriz")
    server.fault = "overloaded"
    changes = {"embedding_provider": "ollama", "embedding_model": "mine", "ollama_url": server.url}
    new = make_embedder(settings.model_copy(update=changes))
    assert isinstance(new, HttpEmbedder)
    query = SearchQuery(chat_id=CHAT.chat_id, query="who is the plumber?")
    found = search(database, TENANT, query, embedder=new, settings=settings)
    new.close()
    assert [hit.external_id for hit in found.hits] == ["m0"]
    assert "503" in found.degraded[0]


def test_what_a_server_embeds_is_noted_with_its_price_and_so_is_what_it_does_not(
    database: Database,
    rules: SessionPolicy,
    policy: Policy,
    server: EmbeddingServer,
    client: HttpEmbedder,
) -> None:
    prices = Prices(by_model={"mine": Price(input=100.0)})
    owe(database, rules, policy, "the plumber is called Beatriz", "the boiler is new")
    server.fault = "overloaded"
    runner.run(database, "embed", embed.embedder(database, client, prices=prices), policy)
    server.fault = None
    due_now(database)
    runner.run(database, "embed", embed.embedder(database, client, prices=prices), policy)
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
