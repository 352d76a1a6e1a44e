"""Parse Standard Webhooks that hold our own payloads: `{"type": "message.created", "timestamp": …, "data": {…}}`."""

from collections.abc import Iterator
from typing import Any

from pipeline.platforms import fields
from pipeline.platforms.records import Deletion, Edit, Event, Record
from schemas.errors import InvalidInput
from schemas.payloads import EditEvent, IngestPayload, MessageAddress, parse_payload


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
            payload = parse_payload(IngestPayload, data)
            if payload.tenant is not None:
                raise InvalidInput(
                    "data.tenant: whose the messages are is decided otherwise; leave it out", field="tenant"
                )
            yield payload.chat
            for number, message in enumerate(payload.messages):
                yield Record(chat_id=payload.chat.chat_id, message=message, where=f"data.messages[{number}]")
        case "message.edited":
            yield Edit(where="data", **parse_payload(EditEvent, data).model_dump(exclude={"v"}))
        case "message.deleted":
            yield Deletion(where="data", **parse_payload(MessageAddress, data).model_dump())
        case _:
            yield fields.not_kept("type", kind)
