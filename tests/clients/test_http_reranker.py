"""A reranker behind a server: asked in its protocol, and left out when it is slow, away or answers something else."""

import json
import time
from collections.abc import Sequence
from email.message import Message
from typing import Any

import pytest

from pipeline.clients.factory import make_reranker, sent_elsewhere
from pipeline.clients.rerankers import SECONDS, HttpReranker
from schemas.errors import ProviderRejected, ProviderUnavailable
from schemas.settings import Settings
from tests.providers.http_server import Answer, Answered, serving

TEXTS = ["the boiler shows E41", "чай в пять", "船は木です"]


def settings(**given: Any) -> Settings:
    return Settings(_env_file=None, embedding_provider="deterministic", **given)


def scores(reranker: HttpReranker, texts: Sequence[str] = TEXTS) -> list[float]:
    try:
        return reranker.scores("?", texts)
    finally:
        reranker.close()


def answering(status: int, found: object, seen: list[Any] | None = None) -> Answer:
    def answer(_method: str, path: str, headers: Message, body: bytes) -> Answered:
        if seen is not None:
            seen.append((path, headers["Authorization"], json.loads(body)))
        return status, {"Content-Type": "application/json"}, json.dumps(found).encode()

    return answer


def test_with_a_models_name_it_is_asked_as_cohere_jina_and_vllm_are() -> None:
    seen: list[Any] = []
    found = {
        "results": [{"index": n, "relevance_score": score} for n, score in ((2, 0.1), (0, 0.9), (1, 0.4))]
    }
    with serving(answering(200, found, seen)) as url:
        given = settings(reranker_url=f"{url}/v1/rerank", reranker_model="jina-v2", reranker_api_key="secret")
        reranker = make_reranker(given)
        assert isinstance(reranker, HttpReranker)
        assert reranker.scores("?", []) == []
        assert scores(reranker) == [0.9, 0.4, 0.1]
    ((path, key, body),) = seen
    assert (path, key, body["documents"], body["model"]) == ("/v1/rerank", "Bearer secret", TEXTS, "jina-v2")


def test_without_one_it_is_asked_as_text_embeddings_inference_is_and_odds_become_shares() -> None:
    seen: list[Any] = []
    found = [{"index": 1, "score": -5.0}, {"index": 0, "score": 5.0}]
    with serving(answering(200, found, seen)) as url:
        best, worst = scores(HttpReranker(url, None, None), TEXTS[:2])
    assert 0 < worst < 0.01 < 0.99 < best < 1
    assert seen[0][1:] == (None, {"query": "?", "texts": TEXTS[:2]})


@pytest.mark.parametrize(
    ("status", "found", "error"),
    [
        (503, {}, ProviderUnavailable),
        (429, {}, ProviderUnavailable),
        (401, {}, ProviderRejected),
        (302, {}, ProviderRejected),
        (200, {"results": [{"index": 0, "relevance_score": 1}]}, ProviderRejected),
        (200, [{"index": 0}, {"index": 1}, {"index": 2}], ProviderRejected),
        (200, [{"index": n, "score": float("nan")} for n in range(3)], ProviderRejected),
        (200, "hello", ProviderRejected),
    ],
)
def test_what_is_no_answer_is_an_error_that_names_the_server_and_no_secret(
    status: int, found: object, error: type[Exception]
) -> None:
    with serving(answering(status, found)) as url, pytest.raises(error, match=r"127\.0\.0\.1") as raised:
        scores(HttpReranker(url.replace("//", "//me:hidden@"), None, "secret"))
    assert "hidden" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_one_that_is_slow_or_away_costs_no_more_than_its_limit() -> None:
    def slow(*_: object) -> Answered:
        time.sleep(4 * SECONDS)
        return 200, {}, b"[]"

    with serving(slow) as url, pytest.raises(ProviderUnavailable, match=r"within 0\.3 s"):
        scores(HttpReranker(url, None, None))
    with pytest.raises(ProviderUnavailable, match="does not answer"):
        scores(HttpReranker("http://127.0.0.1:9/rerank", None, None))


def test_a_server_elsewhere_is_named_as_one_that_texts_are_sent_to() -> None:
    (said,) = sent_elsewhere(settings(reranker_url="https://me:hidden@rerank.example.org/v2/rerank"))
    assert "sent to rerank.example.org, which reranks them" in said
    assert "hidden" not in said
    assert sent_elsewhere(settings(reranker_url="http://127.0.0.1:8080/rerank")) == []
