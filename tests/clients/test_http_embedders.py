"""Embedding by a server: what is sent, what is believed, and what a failure of the server means."""

from collections.abc import Iterator
from math import hypot
from time import monotonic, sleep

import pytest

from pipeline.clients import http_embedder
from pipeline.clients.factory import make_embedder, sent_elsewhere, space_by_name
from pipeline.clients.http_embedder import HttpEmbedder
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable, SettingsError
from schemas.settings import Settings
from tests.clients.embedding_server import (
    CLOSES,
    DIMENSIONS,
    HANGS,
    RUBBISH,
    SPOILT,
    EmbeddingServer,
    elapsed,
    embedding_server,
)

PROVIDERS = ["ollama", "openai"]
_made: list[HttpEmbedder] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _made:
        _made.pop().close()


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def settings_of(provider: str, url: str, model: str = "mine", **changes: object) -> Settings:
    where = {"ollama_url": url} if provider == "ollama" else {"openai_base_url": f"{url}/v1"}
    return Settings(
        _env_file=None,
        embedding_provider=provider,
        embedding_model=model,
        **where,
        **changes,  # type: ignore[arg-type]
    )


def embedder(provider: str, server: EmbeddingServer, model: str = "mine", **changes: object) -> HttpEmbedder:
    made = make_embedder(settings_of(provider, server.url, model, **changes))
    assert isinstance(made, HttpEmbedder)
    _made.append(made)
    return made


def test_texts_come_back_as_unit_vectors_in_their_order(server: EmbeddingServer, provider: str) -> None:
    client = embedder(provider, server, embedding_batch_size=3)
    texts = [f"message number {n}" for n in range(8)]
    made = client.embed_documents(texts)
    assert [len(each.texts) for each in server.asked] == [3, 3, 2]
    assert server.texts == texts
    assert all(abs(hypot(*vector) - 1) < 1e-6 for vector in made)
    for text, vector in zip(texts, made, strict=True):
        assert sum(a * b for a, b in zip(vector, client.embed_query(text), strict=True)) > 0.999
    assert client.embed_documents([]) == []


def test_an_unknown_model_says_its_dimensions_by_one_call(server: EmbeddingServer, provider: str) -> None:
    unknown = embedder(provider, server)
    assert (unknown.space.dimensions, unknown.space.dimensions) == (DIMENSIONS, DIMENSIONS)
    assert len(server.asked) == 1
    known = embedder(provider, server, "nomic-embed-text:latest").space
    assert (known.dimensions, known.query_prefix, known.document_prefix) == (
        768,
        "search_query: ",
        "search_document: ",
    )
    # and the doctor asks nobody
    assert space_by_name(settings_of(provider, server.url), []).dimensions == 0
    assert space_by_name(settings_of(provider, server.url), [unknown.space]) == unknown.space
    assert len(server.asked) == 1


def test_prefixes_are_the_models_own_or_a_settings(server: EmbeddingServer, provider: str) -> None:
    server.dimensions = 768
    client = embedder(provider, server, "nomic-embed-text")
    client.embed_documents(["the boiler"])
    client.embed_query("what broke?")
    assert server.texts == ["search_document: the boiler", "search_query: what broke?"]
    changed = {"embedding_query_prefix": "Q: ", "embedding_document_prefix": ""}
    client = embedder(provider, server, "nomic-embed-text", **changed)
    client.embed_documents(["the boiler"])
    client.embed_query("what broke?")
    assert server.texts[2:] == ["the boiler", "Q: what broke?"]
    assert (client.space.query_prefix, client.space.document_prefix) == ("Q: ", "")


def test_an_answer_that_is_no_vectors_is_a_failure(server: EmbeddingServer, provider: str) -> None:
    client = embedder(provider, server)
    assert client.space.dimensions == DIMENSIONS
    for fault in (*SPOILT, *RUBBISH):
        server.fault = fault
        with pytest.raises(ProviderFailed):
            client.embed_documents(["one", "two"])
        # and once it answers well it is believed again
        server.fault = None
        assert len(client.embed_documents(["one", "two"])) == 2


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("busy", ProviderUnavailable, "429: .*rate limit"),
        ("broken", ProviderFailed, "500: .*internal error"),
        ("who are you", ProviderUnavailable, "401: .*BACKSCROLL_O"),
        ("no such model", ProviderUnavailable, "no model mine.*BACKSCROLL_EMBEDDING_MODEL"),
        ("too long", ProviderRejected, "too long"),
        ("wrong", ProviderFailed, "400"),
        ("moved", ProviderFailed, "307"),
        (CLOSES, ProviderUnavailable, "cannot be reached"),
    ],
)
def test_a_refusal_says_whether_it_is_worth_another_try_and_what_to_set(
    server: EmbeddingServer, provider: str, fault: str, error: type[Exception], said: str
) -> None:
    server.fault = fault
    with pytest.raises(error, match=said) as raised:
        embedder(provider, server, embedding_dimensions=DIMENSIONS).embed_documents(["hello"])
    assert "sk-secret" not in str(raised.value)
    assert getattr(raised.value, "retry_after", None) == (7.0 if fault == "busy" else None)
    # whose refusal says nothing is asked once without options, too
    assert len(server.asked) == 1 + ((provider, fault) == ("openai", "wrong"))


def test_a_server_too_slow_for_a_batch_is_asked_for_fewer(server: EmbeddingServer) -> None:
    # Given a server that is slow only for what is in a large batch
    client = embedder("ollama", server, embedding_dimensions=DIMENSIONS, embedding_timeout_seconds=1)
    server.fault, server.word = HANGS, "number 5"
    texts = [f"message number {n}" for n in range(4)]
    assert len(client.embed_documents([*texts])) == 4
    # When a batch is too slow, then one text alone is tried, and with what that took the rest
    with pytest.raises(ProviderUnavailable):
        client.embed_documents([*texts, "message number 5"])
    sizes = [len(each.texts) for each in server.asked]
    assert sizes[:3] == [4, 5, 1]
    assert len(sizes) > 3


def test_a_question_does_not_wait_as_long_as_a_batch_and_the_next_ones_not_at_all(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_embedder, "QUESTION_SECONDS", 0.3)
    monkeypatch.setattr(http_embedder, "AWAY_SECONDS", 2.0)
    client = embedder("openai", server, embedding_dimensions=DIMENSIONS)
    server.fault = HANGS
    assert 0.25 < elapsed(lambda: client.embed_query("one")) < 6
    assert elapsed(lambda: client.embed_query("two")) < 0.25
    with pytest.raises(ProviderUnavailable, match="did not answer within"):
        client.embed_query("three")
    assert len(server.asked) == 1
    # Once it answers, one of the next questions notices
    server.fault = None
    deadline = monotonic() + 20
    while elapsed(lambda: client.embed_query("four")) and len(server.asked) == 1:
        assert monotonic() < deadline
        sleep(0.05)
    assert len(client.embed_query("five")) == DIMENSIONS


def test_a_key_is_sent_to_openai_only_and_a_key_alone_chooses_nothing(server: EmbeddingServer) -> None:
    embedder("openai", server, openai_api_key="sk-mine").embed_query("hello")
    embedder("ollama", server, openai_api_key="sk-mine").embed_query("hello")
    assert [each.authorization for each in server.asked] == ["Bearer sk-mine", None]
    alone = Settings(_env_file=None, openai_api_key="sk-mine")
    assert not isinstance(make_embedder(alone), HttpEmbedder)
    assert sent_elsewhere(alone) == []
    with pytest.raises(SettingsError, match="BACKSCROLL_OPENAI_API_KEY"):
        make_embedder(Settings(_env_file=None, embedding_provider="openai"))
    elsewhere = Settings(_env_file=None, embedding_provider="openai", openai_api_key="sk-mine")
    assert "https://api.openai.com/v1" in sent_elsewhere(elsewhere)[0]
    assert sent_elsewhere(settings_of("ollama", server.url)) == []
