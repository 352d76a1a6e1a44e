"""Events that cannot be: each gets its status and a sentence, and nothing of it is half stored."""

import json
import random
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.api.conftest import problem_of
from tests.events.conftest import PAYLOADS, cases, telegram

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


def mutated(value: Any, chance: random.Random) -> Any:
    """The value with something in it gone, doubled, or of another kind."""
    odd = [None, True, -1, 2**70, 1.5, "", "\x00", "\ud800", "x" * 300, [[[]]], {"a": {"b": {}}}, "2026"]
    if chance.random() < 0.08:
        return chance.choice(odd)
    if isinstance(value, dict):
        kept = {key: mutated(held, chance) for key, held in value.items() if chance.random() > 0.03}
        return kept | (
            {chance.choice(list(value)): chance.choice(odd)} if value and chance.random() < 0.05 else {}
        )
    if isinstance(value, list):
        return [mutated(held, chance) for held in value for _ in range(chance.choice([1, 1, 1, 1, 0, 2]))]
    return value


SENT = [(platform, payload) for platform in PLATFORMS for case in cases(platform) for payload in case["send"]]


@examples(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_no_event_changed_at_random_makes_a_defect(standing_client: httpx.Client, seed: int) -> None:
    chance = random.Random(seed)
    platform, payload = chance.choice(SENT)
    body = json.dumps(mutated(payload, chance))
    if chance.random() < 0.1:
        body = body[: chance.randrange(len(body) + 1)]
    answer = standing_client.post(f"/v1/events/{platform}", content=body)
    # 409: a chat is being moved
    assert answer.status_code in (200, 409, 422), answer.text
