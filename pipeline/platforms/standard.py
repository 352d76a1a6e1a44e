"""Parse Standard Webhooks that hold our own payloads: `{"type": "message.created", "timestamp": …, "data": {…}}`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from pipeline.platforms import fields
from pipeline.platforms.records import Deletion, Edit, Event, Record
from schemas.base import FROM_PLATFORM
from schemas.errors import InvalidInput
from schemas.payloads import EditEvent, MessageAddress, QueuedIngest, parse_payload


def parse(value: Any) -> Iterator[Event]:
    """Parse a webhook: `message.created` with the body of `POST /v1/messages`, `message.edited`, `message.deleted`.

    Raises `InvalidInput` for data that is none of these, and for anything else.
    """
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind:
        raise InvalidInput("the body is no standard webhook: type is missing", field="type")
    data = value.get("data")
    match kind:
        case "message.created":
            listed = fields.dict_of(data).get("messages") or None
            messages = listed if isinstance(listed, list) else [listed]
            yield from fields.each_of(messages, "data.messages", partial(_message, data))
        case "message.edited":
            edit = parse_payload(EditEvent, data, FROM_PLATFORM)
            yield Edit(where="data", **edit.model_dump(exclude={"v"}))
        case "message.deleted":
            yield Deletion(where="data", **parse_payload(MessageAddress, data).model_dump())
        case _:
            # what else their sender tells others is no message
            new = kind.startswith("message.")
            yield fields.no_message("type", "standard", kind, () if new else ("",))


def _message(data: dict[str, Any], raw: dict[str, Any], where: str) -> Iterator[Event]:
    payload = QueuedIngest.model_validate(data | {"messages": raw}, context=FROM_PLATFORM)
    if payload.tenant is not None:
        raise InvalidInput(
            "data.tenant: whose the messages are is decided otherwise; leave it out", field="tenant"
        )
    yield payload.chat
    yield Record(chat_id=payload.chat.chat_id, message=payload.messages[0], where=where)
