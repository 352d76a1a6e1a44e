"""Events that cannot be: each gets its status and a sentence, and nothing of it is half stored."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import problem_of
from tests.events.conftest import PAYLOADS, telegram

PLATFORMS = sorted(path.stem for path in PAYLOADS.glob("*.json"))


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b'{"messages":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (b'"hello"', ""),
        (b"{}", ""),
        (b'{"a": 1e999}', "not finite"),
    ],
    ids=["bytes", "nested", "text", "nothing", "infinite"],
)
def test_a_body_that_is_no_payload_is_refused(
    standing_client: httpx.Client, body: bytes, detail: str
) -> None:
    for platform in PLATFORMS:
        problem = problem_of(standing_client.post(f"/v1/events/{platform}", content=body), 422)
        assert detail in problem["detail"]
        assert problem["field"]


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"message_id": None}, "message_id is missing"),
        ({"message_id": "x" * 256}, "255"),
        ({"chat": {"id": [1], "type": "group"}}, "chat.id"),
        ({"date": 10**18}, "not a time that a calendar knows"),
    ],
)
def test_a_wrong_message_is_named(standing_client: httpx.Client, change: dict[str, Any], detail: str) -> None:
    problem = problem_of(standing_client.post("/v1/events/telegram", json=telegram(**change)), 422)
    assert detail in problem["detail"]
    assert problem["field"] == "message"
