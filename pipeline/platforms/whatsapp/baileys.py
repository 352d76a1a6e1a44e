"""Parse events of Baileys as `sock.ev.process` gives them, by their names, or what `messages.upsert` gives alone."""

from collections.abc import Iterator
from typing import Any

from pipeline.platforms import attachments, fields, kinds
from pipeline.platforms.records import (
    Broken,
    Deletion,
    Edit,
    Event,
    ImportOptions,
    MemberChange,
    Record,
    Skipped,
)
from schemas.errors import InvalidInput
from schemas.messages import FORWARDED, ChatIn

_PHONE = "@s.whatsapp.net"
_INSIDE = (
    "ephemeralMessage",
    "viewOnceMessage",
    "viewOnceMessageV2",
    "viewOnceMessageV2Extension",
    "documentWithCaptionMessage",
    "deviceSentMessage",
)
_MEDIA = {
    "imageMessage": "image",
    "videoMessage": "video",
    "ptvMessage": "video",
    "audioMessage": "audio",
    "stickerMessage": "sticker",
    "documentMessage": "document",
    "contactMessage": "contact",
}
# what stands beside a message's content
_ABOUT = ("messageContextInfo", "senderKeyDistributionMessage")
_NOT_KEPT = (
    "reactionMessage",
    "encReactionMessage",
    "protocolMessage",
    "pollUpdateMessage",
    "pinInChatMessage",
    "keepInChatMessage",
)
# numbers where protobuf's JSON is Baileys' own, names where it is `toJSON`'s
_REVOKE, _EDIT, _REVOKED = (0, "REVOKE", None), (14, "MESSAGE_EDIT"), (1, "REVOKE")


def parse(value: Any) -> Iterator[Event]:
    """Parse a map of events, or `{"messages": […]}`. Raises `InvalidInput` for anything else."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = {"messages.upsert": value}
    if not isinstance(value, dict) or not value or not all("." in name for name in value):
        raise InvalidInput(
            'the body holds no events of Baileys by their names, such as {"messages.upsert": {"messages": […]}}',
            field="body",
        )
    for name, data in value.items():
        items = _items(name, data)
        if items is None:
            yield Skipped(where=name, reason=name[: kinds.MAX_KIND_CHARS])
            continue
        for number, item in enumerate(items):
            where = f"{name}[{number}]"
            if isinstance(item, dict):
                yield from fields.guarded(where, _item(name, item, where))
            else:
                yield Broken(where=where, reason="is no JSON object")


def _items(name: str, data: Any) -> list[Any] | None:
    """Return the items of an event that says something to keep."""
    match name:
        case "messages.upsert":
            held = fields.dict_of(data).get("messages")
            return held if isinstance(held, list) else [held]
        case "messages.delete" if isinstance(fields.dict_of(data).get("keys"), list):
            keys: list[Any] = data["keys"]
            return keys
        case "messages.update" | "groups.update" | "groups.upsert" | "group-participants.update":
            return data if isinstance(data, list) else [data]
    return None


def _item(name: str, raw: dict[str, Any], where: str) -> Iterator[Event]:
    match name:
        case "messages.upsert":
            yield from _message(raw, where)
        case "messages.update":
            yield from _update(raw, where)
        case "messages.delete":
            yield _deletion(raw, where)
        case "group-participants.update":
            people = tuple(_person(each) for each in fields.list_of(raw.get("participants"), "participants"))
            action = raw.get("action")
            chat_id = _chat_id(raw, "id")
            if action in ("add", "remove"):
                joined, left = (people, ()) if action == "add" else ((), people)
                yield MemberChange(where=where, chat_id=chat_id, joined=joined, left=left)
            else:
                yield Skipped(where=where, reason=f"participants: {action}"[: kinds.MAX_KIND_CHARS])
        case _:
            if title := fields.name_of(raw.get("subject")):
                yield fields.chat_of(
                    "whatsapp", _chat_id(raw, "id"), ImportOptions(), kind="group", title=title
                )
            else:
                yield Skipped(where=where, reason=name)


def _person(jid: object, other: object = None) -> str:
    """Return who has this id, by their number where it is told."""
    told = fields.dict_of(jid)
    known = [*(told.get(each) for each in ("phoneNumber", "id", "lid")), other, None if told else jid]
    ids = [each for each in known if isinstance(each, str) and each]
    if not ids:
        raise ValueError("a participant has no id")
    chosen = next((each for each in ids if each.endswith(_PHONE)), ids[0])
    user, _, server = chosen.partition("@")
    # a device of theirs stands after a colon
    number = user.partition(":")[0]
    return f"whatsapp:{number}" if f"@{server}" == _PHONE else f"whatsapp:{number}@{server}"


def _chat_id(key: dict[str, Any], field: str = "remoteJid") -> str:
    jid = fields.id_of(key.get(field), f"key.{field}" if field == "remoteJid" else field)
    return f"whatsapp:{jid}" if jid.endswith("@g.us") else _person(jid, key.get("remoteJidAlt"))


def _deletion(key: dict[str, Any], where: str) -> Deletion:
    external_id = fields.id_of(key.get("id"), "key.id")
    return Deletion(where=where, chat_id=_chat_id(key), external_id=external_id)


def _edit(key: dict[str, Any], where: str, content: Any, at: object) -> Edit:
    external_id = fields.id_of(key.get("id"), "key.id")
    kind, held = _content(content)
    content = attachments.with_media(_text(kind, held), _media(kind, held))
    return fields.edit_alone(where, _chat_id(key), external_id, content, _seconds(at))


def _update(raw: dict[str, Any], where: str) -> Iterator[Event]:
    key, update = fields.dict_of(raw.get("key")), fields.dict_of(raw.get("update"))
    edited = fields.dict_of(fields.dict_of(update.get("message")).get("editedMessage"))
    if edited:
        yield _edit(key, where, edited.get("message"), update.get("messageTimestamp"))
    elif update.get("messageStubType") in _REVOKED and not update.get("message"):
        yield _deletion(key, where)
    else:
        yield Skipped(where=where, reason="messages.update")


def _message(raw: dict[str, Any], where: str) -> Iterator[Event]:
    key = fields.dict_of(raw.get("key"))
    if str(key.get("remoteJid")).endswith("@broadcast"):
        yield Skipped(where=where, reason="broadcast")
        return
    kind, held = _content(raw.get("message"))
    if kind == "protocolMessage" and held.get("type") in (*_REVOKE, *_EDIT):
        of = {**key, **fields.dict_of(held.get("key")), "remoteJid": key.get("remoteJid")}
        if held.get("type") in _EDIT:
            at = held.get("timestampMs") or raw.get("messageTimestamp")
            yield _edit(of, where, held.get("editedMessage"), at)
        else:
            yield _deletion(of, where)
        return
    if not kind or kind in _NOT_KEPT:
        yield Skipped(where=where, reason=kind or "message without content")
        return
    group = str(key.get("remoteJid")).endswith("@g.us")
    own, name = key.get("fromMe") is True, fields.name_of(raw.get("pushName"))
    title = "" if group or own else name
    chat = fields.chat_of(
        "whatsapp", _chat_id(key), ImportOptions(), kind="group" if group else "direct", title=title
    )
    yield chat
    yield _record(raw, key, kind, held, where, chat, own=own)


def _record(
    raw: dict[str, Any],
    key: dict[str, Any],
    kind: str,
    held: dict[str, Any],
    where: str,
    chat: ChatIn,
    *,
    own: bool,
) -> Record | Skipped | Broken:
    participant = key.get("participant")
    if participant:
        sender = _person(participant, key.get("participantAlt") or key.get("participantPn"))
    else:
        # in a direct chat the payload does not say who the bot is
        sender = "whatsapp:me" if own else chat.chat_id
    context = fields.dict_of(held.get("contextInfo"))
    return fields.read_message(
        where,
        chat.chat_id,
        text=_text(kind, held),
        media=_media(kind, held),
        metadata={FORWARDED: ""} if context.get("isForwarded") else {},
        external_id=fields.id_of(key.get("id"), "key.id"),
        sender_id=sender,
        sender_name=fields.name_of(raw.get("pushName")),
        role="assistant" if own else "user",
        sent_at=_seconds(raw.get("messageTimestamp")),
        reply_to=context.get("stanzaId"),
    )


def _seconds(value: object) -> object:
    """Return a time of protobuf's, which JSON may hold as the two halves of a number."""
    return value.get("low") if isinstance(value, dict) else value


def _content(message: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a message's content and what it holds; empty without any."""
    message = fields.dict_of(message)
    while inner := next((message[each] for each in _INSIDE if message.get(each)), None):
        message = fields.dict_of(fields.dict_of(inner).get("message"))
    kind = next((each for each, held in message.items() if held and each not in _ABOUT), "")
    held = message.get(kind)
    return kind, {"text": held} if isinstance(held, str) else fields.dict_of(held)


def _media(kind: str, held: dict[str, Any]) -> list[dict[str, str]]:
    if kind == "contactsArrayMessage":
        names = [fields.name_of(each.get("displayName")) for each in fields.dicts_of(held.get("contacts"))]
        return [attachments.attachment("contact", name) for name in names]
    if kind not in _MEDIA:
        return []
    return [
        attachments.attachment(_MEDIA[kind], fields.name_of(held.get("fileName"), held.get("displayName")))
    ]


def _text(kind: str, held: dict[str, Any]) -> str:
    if kind in _MEDIA:
        return fields.text_of(held.get("caption"))
    if kind.startswith("pollCreationMessage"):
        answers = [fields.name_of(each.get("optionName")) for each in fields.dicts_of(held.get("options"))]
        return f"[poll] {fields.text_of(held.get('name'))}: {' / '.join(answers)}"
    if kind in ("locationMessage", "liveLocationMessage"):
        point = f"{held.get('degreesLatitude', '')}, {held.get('degreesLongitude', '')}"
        return f"[location {fields.name_of(held.get('name'), held.get('address'), point)}]"
    said = [held.get(each) for each in ("text", "selectedDisplayText", "title")]
    return next(filter(None, map(fields.text_of, said)), "")
