"""Parse transactions of Matrix' application service API, or single events of rooms.

A bot's messages are those of the type `m.notice`, which Matrix has for them.
"""

from collections.abc import Iterator
from typing import Any

from pipeline.platforms import attachments, fields, kinds
from pipeline.platforms.records import (
    Broken,
    Deletion,
    Event,
    ImportOptions,
    MemberChange,
    NewChatId,
    Record,
    Skipped,
)
from schemas.errors import InvalidInput
from schemas.messages import ChatIn

_MEDIA = {"m.image": "image", "m.video": "video", "m.audio": "audio", "m.file": "document"}


def parse(value: Any) -> Iterator[Event]:
    """Parse a transaction, or an event. Raises `InvalidInput` for anything else."""
    if isinstance(value, dict) and "room_id" in value:
        value = {"events": [value]}
    events = value.get("events") if isinstance(value, dict) else None
    if not isinstance(events, list):
        raise InvalidInput(
            "the body is no transaction of Matrix: events is missing or no list", field="events"
        )
    for number, raw in enumerate(events):
        where = f"events[{number}]"
        if isinstance(raw, dict):
            yield from fields.guarded(where, _event(raw, where))
        else:
            yield Broken(where=where, reason="is no JSON object")


def _event(raw: dict[str, Any], where: str) -> Iterator[Event]:
    kind = fields.id_of(raw.get("type"), "type")
    chat_id = f"matrix:{fields.id_of(raw.get('room_id'), 'room_id')}"
    content = fields.dict_of(raw.get("content"))
    chat = ChatIn(chat_id=chat_id, platform="matrix")
    match kind:
        case "m.room.message" | "m.sticker":
            yield from _message(raw, content, where, chat)
        case "m.room.redaction":
            redacted = raw.get("redacts") or content.get("redacts")
            external_id = fields.id_of(redacted, "redacts")
            yield Deletion(where=where, chat_id=chat_id, external_id=external_id)
        case "m.room.member":
            person = (f"matrix:{fields.id_of(raw.get('state_key'), 'state_key')}",)
            at = fields.time_of(raw.get("origin_server_ts"), "origin_server_ts")
            if content.get("membership") == "join":
                yield MemberChange(where=where, chat_id=chat_id, joined=person, at=at)
            elif content.get("membership") in ("leave", "ban"):
                yield MemberChange(where=where, chat_id=chat_id, left=person, at=at)
            else:
                yield Skipped(where=where, reason=kind)
        case "m.room.name":
            name = fields.name_of(content.get("name"))
            yield fields.chat_of("matrix", chat_id, ImportOptions(), title=name)
        case "m.room.tombstone":
            new = fields.id_of(content.get("replacement_room"), "content.replacement_room")
            yield NewChatId(where=where, chat_id=chat_id, to=f"matrix:{new}")
        case _:
            yield Skipped(where=where, reason=kind[: kinds.MAX_KIND_CHARS])


def _message(raw: dict[str, Any], content: dict[str, Any], where: str, chat: ChatIn) -> Iterator[Event]:
    if not content:
        # what was deleted before it was delivered
        yield Skipped(where=where, reason="redacted")
        return
    relation = fields.dict_of(content.get("m.relates_to"))
    at = raw.get("origin_server_ts")
    if relation.get("rel_type") == "m.replace":
        new = fields.dict_of(content.get("m.new_content"))
        external_id = fields.id_of(relation.get("event_id"), "m.relates_to.event_id")
        text = attachments.with_media(_text(new, answers=False), _media(new))
        yield fields.edit_alone(where, chat.chat_id, external_id, text, at)
        return
    yield chat
    yield _record(raw, content, relation, where, chat)


def _record(
    raw: dict[str, Any], content: dict[str, Any], relation: dict[str, Any], where: str, chat: ChatIn
) -> Record | Skipped | Broken:
    thread = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
    # in a thread a client that knows none is shown an answer to the message before
    answered = None if relation.get("is_falling_back") else fields.dict_of(relation.get("m.in_reply_to"))
    sender = fields.id_of(raw.get("sender"), "sender")
    return fields.read_message(
        where,
        chat.chat_id,
        text=_text(content, answers=bool(answered)),
        media=_media(content, sticker=raw.get("type") == "m.sticker"),
        metadata={},
        external_id=fields.id_of(raw.get("event_id"), "event_id"),
        sender_id=f"matrix:{sender}",
        sender_name=sender.lstrip("@").partition(":")[0],
        role="assistant" if content.get("msgtype") == "m.notice" else "user",
        sent_at=raw.get("origin_server_ts"),
        reply_to=answered.get("event_id") if answered else None,
        thread=thread,
    )


def _media(content: dict[str, Any], *, sticker: bool = False) -> list[dict[str, str]]:
    kind = "sticker" if sticker else _MEDIA.get(str(content.get("msgtype")))
    file = fields.name_of(content.get("filename"), content.get("body"))
    return [attachments.attachment(kind, file)] if kind else []


def _text(content: dict[str, Any], *, answers: bool) -> str:
    body = fields.text_of(content.get("body"))
    if str(content.get("msgtype")) in _MEDIA:
        # a body beside the file's name is a caption
        file = fields.text_of(content.get("filename"))
        return body if file and body != file else ""
    if content.get("msgtype") is None:
        return ""
    if content.get("msgtype") == "m.location":
        return f"[location {body}]"
    if answers and body.startswith("> "):
        # older clients quote what they answer
        lines = body.split("\n")
        quoted = next((number for number, line in enumerate(lines) if not line.startswith(">")), len(lines))
        return "\n".join(lines[quoted:]).strip()
    return body
