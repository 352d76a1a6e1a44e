"""What a payload may hold: what is too large is refused by the name of its limit; newer senders are understood."""

from itertools import product
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from schemas.errors import InvalidInput
from schemas.memory.memories import MemoryIn, MemoryPayload
from schemas.memory.memory_changes import MemoryPromotion
from schemas.payloads import IngestPayload, QueuedIngest, parse_payload
from schemas.people.forgetting import Subject


def payload(**fields: Any) -> dict[str, Any]:
    """One message, with these fields, as a bot sends it."""
    return {"v": 1, "chat": "test:1", "messages": [said() | fields]}


def said(number: int = 1) -> dict[str, Any]:
    return {
        "external_id": f"m{number}",
        "sender_id": "test:ann",
        "content": "hello",
        "sent_at": "2026-03-02T18:00:00Z",
    }


def nested(depth: int) -> dict[str, Any]:
    return {"deeper": nested(depth - 1)} if depth > 1 else {"end": 1}


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        (payload(content="x" * 65_537), "65536"),
        (payload(metadata={"note": "x" * 16_385}), "16384"),
        (payload(metadata=nested(9)), "8"),
        (payload(external_id="x" * 256), "255"),
        ({"chat": "test:1", "messages": [said(n) for n in range(1001)]}, "1000"),
        (
            {"chat": "test:1", "messages": [said(n) | {"content": "x" * 65_000} for n in range(130)]},
            "8388608",
        ),
        ({"chat": "test:1", "messages": []}, "at least 1"),
    ],
)
def test_what_is_too_large_is_refused_by_the_name_of_its_limit(given: dict[str, Any], limit: str) -> None:
    with pytest.raises(InvalidInput, match=limit) as refused:
        parse_payload(IngestPayload, given)
    assert refused.value.field.startswith("messages")


def test_fields_of_a_newer_minor_version_are_ignored_and_a_newer_major_is_refused() -> None:
    newer = payload(mood="glad") | {"shape": "round", "chat": {"chat_id": "test:1", "mood": "glad"}}
    assert parse_payload(QueuedIngest, newer) == parse_payload(QueuedIngest, payload())
    with pytest.raises(InvalidInput, match="v: "):
        parse_payload(QueuedIngest, payload() | {"v": 2})
    for unreadable in ({}, {"messages": 1}, {"messages": [1], "chat": 2}, []):
        with pytest.raises(InvalidInput):
            parse_payload(QueuedIngest, unreadable)


SCOPES = ("session", "user", "agent", "organization")
TOLD = {"content": "Олена живе у Львові."}


@pytest.mark.parametrize(
    ("model", "field", "values", "names", "more"),
    [
        (
            Subject,
            "kind",
            ("message", "user", "chat", "tenant"),
            ("chat_id", "external_id", "sender_id", "confirm"),
            {},
        ),
        (MemoryIn, "scope", SCOPES, ("user_id", "agent_id", "session_id"), TOLD),
        (MemoryPayload, "scope", SCOPES, ("user_id", "agent_id", "session_id"), TOLD),
        (MemoryPromotion, "scope", SCOPES, ("user_id", "agent_id"), {}),
    ],
)
def test_the_schema_refuses_which_fields_do_not_go_together_as_the_model_does(
    model: type[BaseModel], field: str, values: tuple[str, ...], names: tuple[str, ...], more: dict[str, Any]
) -> None:
    schema = Draft202012Validator(model.model_json_schema())
    verdicts = set()
    # each of them left out, null or given, for each value
    for value, *given in product(
        values, *[("absent", None, 7 if n == "session_id" else "дім") for n in names]
    ):
        body = {
            field: value,
            **more,
            **{n: g for n, g in zip(names, given, strict=True) if g != "absent"},
        }
        try:
            model.model_validate(body)
            taken = True
        except ValidationError:
            taken = False
        assert schema.is_valid(body) == taken, body
        verdicts.add(taken)
    assert verdicts == {True, False}
