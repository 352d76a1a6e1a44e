"""What is too large is refused before it is looked into, and times that no clock can show by their name."""

import json
import tracemalloc
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pkgutil import walk_packages
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

import schemas
from ops.console import command
from ops.dev.bench import served
from schemas.errors import InvalidInput
from schemas.memories import MemoryIn, MemoryPromotion
from schemas.messages import MessageIn
from schemas.payloads import ContextQuery, EditPayload, IngestPayload, QueuedIngest, parse_payload
from schemas.people import Subject
from workers.api import bodies


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


MIB = 2**20
MODULES = [
    import_module(found.name) for found in walk_packages(schemas.__path__, "schemas.") if not found.ispkg
]


def limited_lists() -> Iterator[tuple[type[BaseModel], str, int]]:
    """Every list of a request that has a limit, with its model."""
    for module in MODULES:
        for model in vars(module).values():
            if (
                isinstance(model, type)
                and issubclass(model, BaseModel)
                and model.__module__ == module.__name__
            ):
                for name, told in model.model_json_schema().get("properties", {}).items():
                    for form in (told, *told.get("anyOf", [])):
                        if "maxItems" in form:
                            yield model, name, form["maxItems"]


@pytest.mark.parametrize(("model", "name", "limit"), list(limited_lists()))
def test_a_list_that_is_too_long_is_one_error_whatever_is_in_it(
    model: type[BaseModel], name: str, limit: int
) -> None:
    with pytest.raises(ValidationError) as refused:
        model.model_validate({name: [{}] * (limit + 1)})
    (error,) = [error for error in refused.value.errors() if error["loc"][0] == name]
    assert error["loc"] == (name,)
    assert str(limit) in error["msg"]


def test_nine_hundred_thousand_empty_items_take_little_memory_to_refuse() -> None:
    # Given a body of 2.6 MB whose items are all wrong
    body = served.bodies("a:b")["/v1/messages"]
    # When it is read
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="has 900000 items; at most 1000 are taken") as refused:
            bodies.parse(IngestPayload, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Then one error is told, and no more is held than the items themselves: it was gigabytes
    assert refused.value.field == "messages"
    assert ";" not in str(refused.value).replace("items;", "")
    assert peak < 200 * MIB


@pytest.mark.parametrize("model", [ContextQuery, MemoryIn, MessageIn])
def test_a_flood_of_unknown_fields_is_one_error(model: type[BaseModel]) -> None:
    flood = {f"k{number}": number for number in range(100_000)}
    with pytest.raises(ValidationError) as refused:
        model.model_validate(flood)
    assert refused.value.error_count() == 1


TIMES = [
    # in UTC before the year 1 or after the year 9999, or in no calendar at all
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", 10**400, 1e300, "9" * 400, -(10**14)),
    # in the calendar, but not on every clock
    *("0001-01-01T00:00:00Z", 253_402_300_799_000),
]


@pytest.mark.parametrize("at", TIMES)
@pytest.mark.parametrize(
    ("model", "given", "field"),
    [
        (MessageIn, said(), "sent_at"),
        (EditPayload, {"content": "x"}, "edited_at"),
    ],
)
def test_a_time_that_not_every_clock_can_show_is_refused_by_the_name_of_its_field(
    model: type[BaseModel], given: dict[str, Any], field: str, at: Any
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_payload(model, given | {field: at})
    assert refused.value.field == field


@pytest.mark.parametrize("given", ["9999-12-31T23:59-10:00", "10000-01-01"])
def test_a_time_beyond_the_calendar_is_refused_on_the_command_line(given: str) -> None:
    with pytest.raises(InvalidInput, match="--since") as refused:
        command.read_time(given, "since")
    assert refused.value.field == "since"


def test_a_body_without_escapes_is_read_as_one_with_them() -> None:
    plain = json.dumps(payload(content="olá 👋"), ensure_ascii=False).encode()
    escaped = json.dumps(payload(content="olá\x00 👋\ud800")).encode()
    read = bodies.parse(IngestPayload, plain)
    assert isinstance(read, IngestPayload)
    assert read == bodies.parse(IngestPayload, escaped)


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
        (payload(sent_at="2026-03-02T18:00:00"), "time zone"),
        (payload(sendername="Ann"), "did you mean sender_name?"),
    ],
)
def test_what_is_wrong_is_refused_by_its_field_with_what_is_allowed(
    given: dict[str, Any], limit: str
) -> None:
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
