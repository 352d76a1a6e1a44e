"""Whatever a model or a program sends, the answer is a sentence or a protocol error, and nothing of it is a defect."""

import json
from typing import Any

import httpx
import pytest

from tests.mcp.conftest import HOUSE

ODD: list[Any] = [
    None,
    True,
    1e400,
    2**70,
    "",
    "../keys",
    "\x00",
    "\ud800",
    "x" * 100_000,
    [[]],
    {"a": {"a": [1]}},
]
TAKES = {
    "recall": ["chat_id", "query", "user_id", "as_of", "budget_tokens"],
    "search": ["chat_id", "query", "mode", "since", "until", "limit"],
    "read": ["chat_id", "session_id", "shown", "limit"],
    "about": ["user_id", "chat_id"],
    "chats": ["after"],
    "remember": ["content", "scope", "user_id", "learned_in"],
    "correct": ["memory_id", "content"],
    "forget": ["memory_id"],
    "нет такого": ["猫"],
}
RIGHT = {"chat_id": HOUSE, "query": "котёл", "session_id": 1, "scope": "organization", "user_id": "test:ann"}


def sent(client: httpx.Client, body: bytes, **headers: str) -> httpx.Response:
    return client.post("/mcp", content=body, headers={"Content-Type": "application/json"} | headers)


def test_odd_arguments_are_answered_in_words(house: httpx.Client) -> None:
    for name, argument in [(name, each) for name, arguments in TAKES.items() for each in arguments]:
        for odd in ODD:
            given = {each: RIGHT[each] for each in TAKES[name] if each in RIGHT} | {argument: odd}
            call = {"name": name, "arguments": given}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
            answer = sent(house, body.encode())
            # a lone surrogate is no JSON for the protocol
            assert answer.status_code == (400 if odd == "\ud800" else 200), (given, answer.text)
            if answer.status_code == 200:
                result = answer.json()["result"]
                text = result["content"][0]["text"]
                assert text, given
                assert not any(word in text for word in ("Traceback", "defect", "Internal")), (given, text)


BODIES = (b"", b"{", b"null", b"\xff", b"[" * 5000, b'{"jsonrpc":"2.0"}', b'"' + b"x" * 10**6)


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28", "1999-01-01"])
def test_what_is_no_message_is_refused(house: httpx.Client, version: str) -> None:
    for body in BODIES:
        answer = sent(house, body, **{"MCP-Protocol-Version": version})
        assert answer.status_code in {400, 202}, body[:10]
        assert "Traceback" not in answer.text


def test_a_body_that_is_too_large_and_another_method_are_problems(house: httpx.Client) -> None:
    assert sent(house, b"x" * (8 * 1024 * 1024 + 1)).json()["status"] == 413
    for method in ("GET", "DELETE"):
        assert house.request(method, "/mcp").json()["status"] == 405
