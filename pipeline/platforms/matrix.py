"""Parse Matrix: transactions of its application service API, single events of rooms, and a room exported by Element.

A bot's messages are those of the type `m.notice`, which Matrix has for them. An export holds edits and names beside its
events.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import IO, Any

from pydantic import ValidationError

from pipeline.platforms import contents, fields, json_stream, kinds
from pipeline.platforms.fields import dict_of
from pipeline.platforms.platform import ExportFormat, Shape
from pipeline.platforms.records import (
    Broken,
    Event,
    ImportOptions,
    Moderators,
    NewChatId,
    Parsed,
    ReadMessage,
    Record,
    Skipped,
    Unread,
)
from schemas.errors import InvalidInput
from schemas.messages import ChatIn

KINDS = kinds.load("matrix")
_MESSAGES = ("m.room.message", "m.sticker")
_POLL, _UNSTABLE_POLL = "m.poll", "org.matrix.msc3381.poll"
_PROFILES = ("m.per_message_profile", "com.beeper.per_message_profile")
# blocks of extensible content: those of a file, and what tells its kind
_FILES = ("m.file", "org.matrix.msc1767.file")
_BLOCKS = {
    f"{prefix}{block}": f"m.{block.removesuffix('_details').replace('voice', 'audio')}"
    for prefix in ("m.", "org.matrix.msc1767.")
    for block in ("image_details", "video_details", "audio_details", "voice", "image", "video", "audio")
}


def parse(value: Any) -> Iterator[Event]:
    """Parse a transaction, or an event. Raises `InvalidInput` for anything else."""
    if isinstance(value, dict) and "room_id" in value:
        value = {"events": [value]}
    events = value.get("events") if isinstance(value, dict) else None
    if not isinstance(events, list):
        raise InvalidInput(
            "the body is no transaction of Matrix: events is missing or no list", field="events"
        )
    names = dict(_named(event) for event in fields.dicts_of(events))
    yield from fields.each_of(events, "events", partial(_event, names=names))


def _named(raw: dict[str, Any]) -> tuple[tuple[str, str], str]:
    """Return the name that a room's member goes by there, under the room and the person; empty if none is told."""
    told = (
        fields.dict_of(raw, *path).get("displayname") for path in (("content",), ("unsigned", "prev_content"))
    )
    name = fields.name_of(*told) if raw.get("type") == "m.room.member" else ""
    return (str(raw.get("room_id")), str(raw.get("state_key"))), name


def _event(raw: dict[str, Any], where: str, names: Mapping[tuple[str, str], str]) -> Iterator[Event]:
    kind = fields.id_of(raw.get("type"), "type")
    chat_id = f"matrix:{fields.id_of(raw.get('room_id'), 'room_id')}"
    content = fields.dict_of(raw.get("content"))
    chat = ChatIn(chat_id=chat_id, platform="matrix")
    match kind:
        case _ if "m.new_content" in content:
            yield _edit(raw, content, where, chat_id)
        case "m.room.message" | "m.sticker" if not content:
            # it was deleted before it was delivered
            yield fields.not_kept(where, "redacted")
        case "m.room.message" if fields.dict_of(content, "m.relates_to").get("rel_type") == "m.replace":
            # an edit says what is new
            yield fields.not_kept(where, "m.replace")
        case "m.room.redaction":
            redacts = raw.get("redacts") or content.get("redacts")
            yield fields.deletion(where, chat_id, redacts, "redacts", by=_sender(raw))
        case "m.room.power_levels":
            yield Moderators(
                where=where, chat_id=chat_id, people=_moderators(content, _sender(raw)), former=None
            )
        case "m.room.member":
            person = (f"matrix:{fields.id_of(raw.get('state_key'), 'state_key')}",)
            at = fields.time_of(raw.get("origin_server_ts"), "origin_server_ts")
            if (membership := content.get("membership")) in ("join", "leave", "ban"):
                yield fields.moved_in_or_out(where, chat_id, person, came=membership == "join", at=at)
            else:
                yield fields.not_kept(where, kind)
        case "m.room.name":
            yield fields.chat_of("matrix", chat_id, title=fields.text_of(content.get("name")))
        case "m.room.tombstone":
            new = fields.id_of(content.get("replacement_room"), "content.replacement_room")
            yield NewChatId(where=where, chat_id=chat_id, to=f"matrix:{new}", is_claimed=True)
        case _ if "state_key" in raw:
            yield fields.not_kept(where, kind)
        case _:
            named, said = kind, content
            if kind in _MESSAGES:
                named = str(content.get("msgtype", kind))
            elif _is_poll(content):
                named = f"{_POLL}.start"
            else:
                said = _classic(content)
            yield from KINDS.events(where, named, chat, lambda: [_record(raw, said, where, chat, names)])


def _edit(raw: dict[str, Any], content: dict[str, Any], where: str, chat_id: str) -> Event:
    """Return the edit of a message, or of a poll."""
    new, relation = fields.dict_of(content, "m.new_content"), fields.dict_of(content, "m.relates_to")
    new = new if "msgtype" in new or _is_poll(new) else _classic(new)
    return fields.edit_alone(
        where,
        chat_id,
        fields.id_of(relation.get("event_id"), "m.relates_to.event_id"),
        fields.with_media(_text(new, answers=False), _media(new)),
        raw.get("origin_server_ts"),
        sender_id=_sender(raw),
    )


def _sender(raw: dict[str, Any]) -> str:
    return f"matrix:{fields.id_of(raw.get('sender'), 'sender')}"


def _is_poll(content: dict[str, Any]) -> bool:
    return _POLL in content or f"{_UNSTABLE_POLL}.start" in content


def _moderators(content: dict[str, Any], sender: str) -> tuple[str, ...]:
    """Return the users who may redact what others sent, which takes a power of 50 unless the room says another.

    A room's creators have all power without being listed (since v12): so whoever sets powers and is given none is one.
    """

    def power(value: object, default: int) -> int:
        return value if isinstance(value, int) else default

    users, events = fields.dict_of(content, "users"), fields.dict_of(content, "events")
    needed = power(events.get("m.room.power_levels"), power(content.get("state_default"), 50))
    given = {f"matrix:{user}": power(level, 0) for user, level in users.items()}
    able = [user for user, level in given.items() if level >= power(content.get("redact"), 50)]
    is_creator = given.get(sender, power(content.get("users_default"), 0)) < needed
    return (*able, sender) if is_creator and sender not in able else tuple(able)


def _classic(content: dict[str, Any]) -> dict[str, Any]:
    """Return extensible content in the fields of a plain message: its text, or its file with a caption."""
    file = next((fields.dict_of(content, name) for name in _FILES if name in content), {})
    kind = next((msgtype for block, msgtype in _BLOCKS.items() if block in content), "m.file")
    name, caption = fields.name_of(file.get("name")), _words(content.get("m.caption") or content)
    plain = {"msgtype": kind, "body": caption or name, "filename": name} if file else {}
    return {"msgtype": "m.text", "body": caption or contents.words(content), **plain, **content}


def _record(
    raw: dict[str, Any],
    content: dict[str, Any],
    where: str,
    chat: ChatIn,
    names: Mapping[tuple[str, str], str],
) -> ReadMessage:
    sender, relation = _sender(raw), fields.dict_of(content, "m.relates_to")
    user = sender.removeprefix("matrix:")
    profile = next(filter(None, (fields.dict_of(content, field) for field in _PROFILES)), {})
    told = (profile.get("displayname"), fields.dict_of(raw, "unsigned").get("displayname"))
    known = names.get((str(raw.get("room_id")), user))
    # for clients without threads, a message of a thread looks like an answer to the one before
    answered = None if relation.get("is_falling_back") else fields.dict_of(relation, "m.in_reply_to")
    return fields.read_message(
        where,
        chat.chat_id,
        text=_text(content, answers=bool(answered)),
        media=_media(content, sticker=raw.get("type") == "m.sticker"),
        metadata={},
        kind=str(raw["type"]),
        external_id=fields.id_of(raw.get("event_id"), "event_id"),
        sender_id=sender,
        sender_name=fields.name_of(*told, known, user.lstrip("@").partition(":")[0]),
        role="assistant" if content.get("msgtype") == "m.notice" else "user",
        sent_at=raw.get("origin_server_ts"),
        reply_to=answered.get("event_id") if answered else None,
        thread=relation.get("event_id") if relation.get("rel_type") == "m.thread" else None,
    )


def _words(content: object) -> str:
    """Return the text of extensible content, which is plain or a list of forms of it."""
    parts = fields.dict_of(content)
    texts = (parts.get(name) for name in ("m.text", "org.matrix.msc1767.text"))
    forms = (text if isinstance(text, list) else [{"body": text}] for text in texts)
    bodies = (fields.text_of(form.get("body")) for listed in forms for form in fields.dicts_of(listed))
    return next(filter(None, bodies), "")


def _media(content: dict[str, Any], *, sticker: bool = False) -> list[dict[str, str]]:
    if items := fields.dicts_of(content.get("itemtypes")):
        return [part for item in items for part in _media({**item, "msgtype": item.get("itemtype")})]
    kind = "sticker" if sticker else KINDS.media.get(str(content.get("msgtype")))
    file = fields.name_of(content.get("filename"), content.get("body"))
    return [fields.attachment(kind, file)] if kind else []


def _text(content: dict[str, Any], *, answers: bool) -> str:
    body = fields.text_of(content.get("body"))
    if str(content.get("msgtype")) in KINDS.media:
        # a body beside the file's name is a caption
        file = fields.text_of(content.get("filename"))
        return body if file and body != file else ""
    if content.get("msgtype") is None:
        poll = fields.dict_of(content.get(_POLL)) or fields.dict_of(content.get(f"{_UNSTABLE_POLL}.start"))
        question, *options = map(_words, (poll.get("question"), *fields.dicts_of(poll.get("answers"))))
        return f"[poll] {question}: {' / '.join(options)}" if poll else ""
    if content.get("msgtype") == "m.location":
        return contents.location("", "", body, fields.text_of(content.get("geo_uri")).removeprefix("geo:"))
    if answers and body.startswith("> "):
        # older clients quote what they answer
        lines = body.split("\n")
        quoted = next((number for number, line in enumerate(lines) if not line.startswith(">")), len(lines))
        return "\n".join(lines[quoted:]).strip()
    return body


def parse_room(stream: IO[bytes], options: ImportOptions) -> Iterator[Parsed]:
    """Parse the room and its messages; `command.chat_id` replaces the room's own id."""
    events: list[tuple[str, dict[str, Any]]] = []
    header: Any = {}
    for item in json_stream.walk(stream, {"messages.item": ""}):
        if isinstance(item, Broken):
            yield item
        elif isinstance(item.value, dict):
            header = item.header
            events.append((f"messages[{item.index}]", item.value))
        else:
            yield Broken(where=f"messages[{item.index}]", reason="is no JSON object")
    room = next((event["room_id"] for _, event in events if isinstance(event.get("room_id"), str)), "")
    try:
        title = fields.name_of(header.get("room_name"))
        chat = fields.chat_of("matrix", options.chat_id or (room and f"matrix:{room}"), options, title=title)
    except ValidationError as error:
        yield Broken(where="the room", reason=f"has no usable id: {fields.sentence(error)}")
        return
    yield chat
    yield fields.exact_times("from the homeserver", chat.time_zone)
    names, edits = dict(_names(events)), _edits(events)
    for where, event in events:
        new = edits.get((str(event.get("event_id")), str(event.get("sender"))))
        if new is None:
            new = _own_edit(dict_of(event, "unsigned", "m.relations", "m.replace"), by=event.get("sender"))
        content = dict_of(event.get("content"))
        if new:
            content = {**new[1], "m.relates_to": dict_of(content.get("m.relates_to"))}
        if dict_of(content.get("m.relates_to")).get("rel_type") == "m.replace":
            yield Skipped(where=where, reason="edit of another message")
            continue
        for read in parse({"room_id": room, **event, "content": content}):
            if isinstance(read, Record):
                metadata = read.message.metadata | ({"edited_at": str(new[0])} if new else {})
                known = names.get(str(event.get("sender"))) or read.message.sender_name
                message = read.message.model_copy(update={"sender_name": known, "metadata": metadata})
                yield replace(read, chat_id=chat.chat_id, where=where, message=message)
            elif isinstance(read, Unread | Broken | Skipped):
                yield replace(read, where=where)
            elif not hasattr(read, "time_zone"):
                # somebody came or left, or a message was deleted
                yield Skipped(where=where, reason="service message")


_Edit = tuple[object, dict[str, Any]]


def _own_edit(event: dict[str, Any], by: object) -> _Edit | None:
    """Return the time and content of an edit, if whoever wrote the message made it."""
    new = dict_of(event, "content", "m.new_content")
    return (event.get("origin_server_ts"), new) if new and event.get("sender") == by else None


def _edits(events: list[tuple[str, dict[str, Any]]]) -> dict[tuple[str, str], _Edit]:
    """Return the latest edit of messages, by their id and who made it."""
    found = {}
    for _, event in events:
        relation = dict_of(event, "content", "m.relates_to")
        if relation.get("rel_type") == "m.replace" and (edit := _own_edit(event, by=event.get("sender"))):
            found[str(relation.get("event_id")), str(event.get("sender"))] = edit
    return found


def _names(events: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, str]]:
    for _, event in events:
        content = dict_of(event.get("content"))
        if event.get("type") == "m.room.member" and (name := fields.name_of(content.get("displayname"))):
            yield str(event.get("state_key")), name


FORMAT = ExportFormat(
    name="element",
    of_bytes=parse_room,
    looks=(
        Shape(keys={"": "messages", "messages.item": "event_id origin_server_ts type"}),
        Shape(keys={"": "room_name messages exported_by|export_date"}),
    ),
)
