"""A chat model behind HTTP: whatever an endpoint answers has a meaning, and no answer takes longer than allowed."""

import json
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from pipeline.clients.openai_chat import OpenAIChatModel
from pipeline.clients.protocols import Prompt
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable
from tests.providers.chat_server import ChatServer, Reply, refused

PLAIN = Prompt(system="Be brief.", turns=("Say hello.",))
WITH_SCHEMA = Prompt(
    system="Be brief.",
    turns=("Say hello as JSON.",),
    schema={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    max_tokens=50,
)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """An endpoint that says hello."""
    server = ChatServer()
    server.replies(then=lambda _request: Reply(text="hello"))
    with server.running():
        yield server


@pytest.fixture
def model(server: ChatServer) -> Iterator[OpenAIChatModel]:
    """A model behind it."""
    with closing(OpenAIChatModel("small-1", base_url=server.url, api_key="secret")) as model:
        yield model


def test_an_answer_comes_with_what_it_cost(server: ChatServer, model: OpenAIChatModel) -> None:
    found = model.complete(PLAIN, timeout_seconds=5)
    assert (found.text, found.truncated, found.input_tokens, found.output_tokens) == ("hello", False, 100, 20)
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == ["Bearer secret"]
    assert server.requests[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say hello."},
    ]
    assert f"{model.provider}/v1" in server.url
    # and is estimated where the endpoint does not count
    server.replies(Reply(text="hello there", usage=False))
    found = model.complete(PLAIN, timeout_seconds=5)
    assert found.input_tokens > 4
    assert found.output_tokens == 2


@pytest.mark.parametrize(
    "reply",
    [Reply(text="hello", delay=3), Reply(body=b" " * 2000, drip=0.02)],
    ids=["slow", "drips blanks"],
)
def test_a_timeout_is_for_the_whole_answer(server: ChatServer, model: OpenAIChatModel, reply: Reply) -> None:
    model.complete(PLAIN, timeout_seconds=5)
    server.replies(reply, then=lambda _request: Reply(text="hello"))
    began = time.monotonic()
    with pytest.raises(ProviderUnavailable, match="did not answer within 1 s"):
        model.complete(PLAIN, timeout_seconds=1)
    assert time.monotonic() - began < 1.5
    assert model.complete(PLAIN, timeout_seconds=5).text == "hello"


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (Reply(status=429, text="slow down", headers={"Retry-After": "7"}), 7),
        (Reply(status=429, text="You exceeded your quota: insufficient_quota"), 600),
        (Reply(status=503, text="later", headers={"Retry-After": "99999999"}), 3600),
        (Reply(status=500, text="oops"), None),
        (Reply(hang_up=True), None),
    ],
)
def test_an_endpoint_that_cannot_answer_now_is_asked_again_later(
    server: ChatServer, model: OpenAIChatModel, reply: Reply, seconds: float | None
) -> None:
    server.replies(reply)
    with pytest.raises(ProviderUnavailable) as caught:
        model.complete(PLAIN, timeout_seconds=5)
    assert caught.value.retry_after == seconds
    # once: whether to ask again is not the client's decision
    assert len(server.requests) == 1


def test_a_text_that_is_refused_is_refused_for_good(server: ChatServer, model: OpenAIChatModel) -> None:
    model.complete(WITH_SCHEMA, timeout_seconds=5)
    refusal = {"choices": [{"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"}]}
    server.replies(
        refused("This model's maximum context length is 128 tokens"),
        Reply(body=json.dumps(refusal).encode()),
        Reply(text="hel", finish_reason="content_filter"),
    )
    for _ in range(3):
        with pytest.raises(ProviderRejected):
            model.complete(WITH_SCHEMA, timeout_seconds=5)
    assert len(server.requests) == 4


@pytest.mark.parametrize("body", [b"<html>busy</html>", b'{"choices": []}', b"\xff\xfe"])
def test_an_answer_that_is_none_is_a_failure(server: ChatServer, model: OpenAIChatModel, body: bytes) -> None:
    server.replies(Reply(body=body))
    with pytest.raises(ProviderFailed, match="cannot be read"):
        model.complete(PLAIN, timeout_seconds=5)


def test_a_redirect_is_not_followed_and_what_the_operator_must_mend_is_named(
    server: ChatServer, model: OpenAIChatModel
) -> None:
    server.replies(refused("Incorrect API key", 401))
    with pytest.raises(ProviderUnavailable, match="BACKSCROLL_OPENAI_API_KEY") as caught:
        model.complete(PLAIN, timeout_seconds=5)
    assert caught.value.retry_after == 600
    other = ChatServer()
    with other.running():
        server.replies(Reply(status=307, headers={"Location": f"{other.url}/chat/completions"}, text="there"))
        with pytest.raises(ProviderUnavailable, match="BACKSCROLL_OPENAI_BASE_URL"):
            model.complete(PLAIN, timeout_seconds=5)
    assert other.requests == []
