"""Payloads that are damaged at random are answered as the sender's fault, and leave nothing half stored."""

import copy
import json
import os
import random
from collections import Counter
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from pipeline.store.connections.database import Database
from tests.conftest import TENANT
from tests.events.conftest import PAYLOADS, cases
from tests.harness.pipeline import forget_all, place

EVENTS = int(os.environ.get("FUZZED_EVENTS", "240"))
"""Sent in all; `FUZZED_EVENTS=10000` takes some minutes."""
SENT = {
    file.stem: [sent for case in cases(file.stem) for sent in case["send"]]
    for file in PAYLOADS.glob("*.json")
}
# what a field may hold instead
VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 2**63, -(2**70), 1e308, "", " ", "\x00", "x" * 300, "é\u202e\ufeff", "٣", "a/b@c:d",
    "{", "0", "-100", "1795000000", "9" * 40, "2026-13-45", [], {}, [[]], [None], {"": None}, {"type": {}}, [{}] * 3,
    {"low": 1, "high": 2**40},
]  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a payload: what holds it, and its key or index there."""
    found: list[tuple[Any, Any]] = []
    inside = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    for key, held in inside:
        found += [(value, key), *places(held)]
    return found


def damaged(payload: Any, chance: random.Random) -> Any:
    payload = copy.deepcopy(payload)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 6))):
        if not (known := places(payload)):
            return chance.choice(VALUES)
        holder, key = chance.choice(known)
        match chance.randrange(5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[chance.choice([str(k) for _, k in known])] = copy.deepcopy(holder[key])
            case 2:
                other, where = chance.choice(known)
                holder[key] = copy.deepcopy(other[where])
            case 3 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case _:
                holder[key] = copy.deepcopy(chance.choice(VALUES))
    return payload


def stored(database: Database) -> tuple[int, ...]:
    tables = ("messages", "arrivals", "chats", "pending_changes", "user_senders", "changed_numbers")
    counted = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    with database.tenant(TENANT) as connection:
        return tuple(connection.execute(text(f"SELECT {counted}")).one())


@pytest.mark.timeout(30 + EVENTS)
def test_whatever_comes_is_answered_and_stored_whole_or_not_at_all(
    client: httpx.Client, database: Database
) -> None:
    chance, answers = random.Random(52), Counter[int]()
    before = stored(database)
    for number in range(EVENTS):
        platform = chance.choice(list(SENT))
        payload = damaged(chance.choice(SENT[platform]), chance)
        body = json.dumps(payload)
        if chance.random() < 0.02:
            body = body[: chance.randrange(len(body) + 1)]
        answer = client.post(
            f"/v1/events/{platform}", content=body, headers={"content-type": "application/json"}
        )
        answers[answer.status_code] += 1
        assert answer.status_code in (200, 404, 409, 422), (platform, body, answer.text)
        now = stored(database)
        if answer.status_code != 200:
            assert now == before, (platform, body, answer.text)
        else:
            told = answer.json()
            gone = told["accepted"] - (now[0] - before[0])
            assert 0 <= gone <= told["deletions"], (platform, body, answer.text)
        before = now
        if number % 40 == 39:
            # what is owed is done without a failure, too
            forget_all(database)
            place(database)
            before = stored(database)
    assert answers[200] > EVENTS / 3
    assert answers[422] > EVENTS / 20
