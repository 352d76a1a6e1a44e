"""What is too large is refused before it is looked into, and times that no clock can show by their name."""

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import schemas.backfills
import schemas.context
import schemas.memory.documents
import schemas.memory.memories
import schemas.memory.memory_changes
import schemas.messages
import schemas.payloads
import schemas.people.forgetting
import schemas.people.user_pages
import schemas.people.users
import schemas.search
from ops.console import options
from ops.dev.bench import worst
from schemas.backfills import BackfillRequest
from schemas.errors import InvalidInput
from schemas.memory.memories import MemoryIn
from schemas.messages import MessageIn
from schemas.payloads import ContextQuery, EditPayload, IngestPayload, parse_payload
from schemas.search import MoreQuery, SearchQuery
from tests.schemas.test_payloads import payload, said
from workers.api import bodies

MIB = 2**20
MODULES = (
    schemas.backfills,
    schemas.memory.documents,
    schemas.people.forgetting,
    schemas.memory.memories,
    schemas.memory.memory_changes,
    schemas.messages,
    schemas.payloads,
    schemas.context,
    schemas.search,
    schemas.people.user_pages,
    schemas.people.users,
)


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


@pytest.mark.parametrize(
    ("model", "path", "limit"), [(IngestPayload, "/v1/messages", "1000"), (MoreQuery, "/v1/more", "10000")]
)
def test_nine_hundred_thousand_empty_items_take_little_memory_to_refuse(
    model: type[BaseModel], path: str, limit: str
) -> None:
    # Given a body of 2.6 MB whose items are all wrong
    body = worst.bodies("a:b")[path]
    # When it is read
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=f"has 900000 items; at most {limit} are taken") as refused:
            bodies.parse(model, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Then one error is told, and no more is held than the items themselves: it was gigabytes
    assert refused.value.field in {"messages", "shown"}
    assert ";" not in str(refused.value).replace("items;", "")
    assert peak < 200 * MIB


@pytest.mark.parametrize("model", [ContextQuery, SearchQuery, MoreQuery, MemoryIn, MessageIn])
def test_a_flood_of_unknown_fields_is_one_error(model: type[BaseModel]) -> None:
    flood = {f"k{number}": number for number in range(100_000)}
    with pytest.raises(ValidationError) as refused:
        model.model_validate(flood)
    assert refused.value.error_count() == 1


# In UTC they lie before the year 1 or after the year 9999, or in no calendar at all.
BEYOND = [
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    10**400,
    -(10**400),
    1e300,
    "9" * 400,
    -(10**14),
]
# There is such a time, but not on every clock.
AT_THE_EDGE = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", 253_402_300_799_000]
ASKED = {"chat_id": "test:1", "query": "x"}
REMEMBERED = {"scope": "organization", "content": "x"}


@pytest.mark.parametrize("at", BEYOND)
@pytest.mark.parametrize(
    ("model", "given", "field"),
    [
        (MessageIn, said(), "sent_at"),
        (SearchQuery, ASKED, "since"),
        (MemoryIn, REMEMBERED, "expires_at"),
        (EditPayload, {"content": "x"}, "edited_at"),
        (BackfillRequest, {"kind": "embed"}, "since"),
    ],
)
def test_a_time_beyond_the_calendar_is_refused_by_the_name_of_its_field(
    model: type[BaseModel], given: dict[str, Any], field: str, at: Any
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_payload(model, given | {field: at})
    assert refused.value.field == field


@pytest.mark.parametrize("at", AT_THE_EDGE)
@pytest.mark.parametrize(
    ("model", "given", "field"),
    [
        (MessageIn, said(), "sent_at"),
        (MemoryIn, REMEMBERED, "said_at"),
        (EditPayload, {"content": "x"}, "edited_at"),
    ],
)
def test_what_was_said_at_the_calendars_edge_is_refused_as_other_clocks_could_not_show_it(
    model: type[BaseModel], given: dict[str, Any], field: str, at: Any
) -> None:
    with pytest.raises(InvalidInput, match="2 to 9998") as refused:
        parse_payload(model, given | {field: at})
    assert refused.value.field == field


@pytest.mark.parametrize("given", ["0001-01-01T00:00+10:00", "9999-12-31T23:59-10:00", "10000-01-01"])
def test_a_time_beyond_the_calendar_is_refused_on_the_command_line(given: str) -> None:
    with pytest.raises(InvalidInput, match="--since") as refused:
        options.read_time(given, "since")
    assert refused.value.field == "since"


def test_a_body_without_escapes_is_read_as_one_with_them() -> None:
    plain = json.dumps(payload(content="olá 👋"), ensure_ascii=False).encode()
    escaped = json.dumps(payload(content="olá\x00 👋\ud800")).encode()
    read = bodies.parse(IngestPayload, plain)
    assert isinstance(read, IngestPayload)
    assert read == bodies.parse(IngestPayload, escaped)
