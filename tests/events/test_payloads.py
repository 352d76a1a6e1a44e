"""What each platform sends is stored as exactly what it is, once, however often and in whatever order it comes."""

import random
from collections import Counter
from typing import Any

import httpx
import pytest

from pipeline.store.connections.database import Database
from tests.events.conftest import COUNTS, PAYLOADS, cases, require

PLATFORMS = sorted(path.stem for path in PAYLOADS.glob("*.json"))


def post(client: httpx.Client, platform: str, payload: Any) -> dict[str, Any]:
    answer = client.post(f"/v1/events/{platform}", json=payload)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def totals(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of answers together, without those that are 0."""
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for answer in answers:
        counts.update({name: answer[name] for name in COUNTS})
        kinds.update(answer["not_kept"])
        assert not answer["broken"]
    found: dict[str, Any] = {name: count for name, count in counts.items() if count}
    return found | ({"not_kept": dict(kinds)} if kinds else {})


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_a_platform_sends_is_stored_as_what_it_is(
    client: httpx.Client, database: Database, platform: str
) -> None:
    for case in cases(platform):
        answers = [post(client, platform, payload) for payload in case["send"]]
        assert totals(answers) == case["answer"], case["name"]
        require(database, case)
    # and sending again what the next story does not send in any order changes nothing
    for case in (case for case in cases(platform) if case.get("in_order")):
        again = [post(client, platform, payload) for payload in case["send"]]
        assert totals(again).get("accepted", 0) == 0, case["name"]
        require(database, case)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_shuffled_and_repeated_payloads_are_stored_once(
    client: httpx.Client, database: Database, platform: str
) -> None:
    some = [case for case in cases(platform) if not case.get("in_order")]
    payloads = [payload for case in some for payload in case["send"]] * 2
    random.Random(36).shuffle(payloads)
    for payload in payloads:
        post(client, platform, payload)
    for case in some:
        require(database, case)
