"""Parse events of Baileys as `sock.ev.process` gives them, by their names, or what `messages.upsert` gives alone."""

from collections.abc import Callable, Iterator
from typing import Any

from pipeline.platforms import fields
from pipeline.platforms.records import Edit, Event, Moderators, ReadMessage, Skipped
from schemas.errors import InvalidInput
from schemas.messages import FORWARDED, ChatIn, ChatKind

_PLATFORM = "WhatsApp"
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
# fields beside a message's content
_ABOUT = ("messageContextInfo", "senderKeyDistributionMessage")
_NOT_KEPT = (
    "reactionMessage",
    "encReactionMessage",
    "protocolMessage",
    "pollUpdateMessage",
    "pinInChatMessage",
    "keepInChatMessage",
    "encEventResponseMessage",
)
# what people wrote and Baileys could not read, or tells the phone alone
_ENCRYPTED, _UNREAD = (
    (2, "CIPHERTEXT"),
    ("ciphertext", "encCommentMessage", "placeholderMessage", "secretEncrypted"),
)
_READ = (
    *_MEDIA,
    *(
        "conversation",
        "extendedTextMessage",
        "contactsArrayMessage",
        "pollCreationMessage",
        "locationMessage",
    ),
    *("liveLocationMessage", "buttonsResponseMessage", "listResponseMessage", "templateButtonReplyMessage"),
)
# events in which nobody writes anything
_SIGNALS = (
    *(
        "blocklist.",
        "call",
        "chats.",
        "connection.",
        "contacts.",
        "creds.",
        "group",
        "labels.",
        "lid-mapping.",
    ),
    *("message-receipt.", "messages.", "newsletter", "presence.", "settings."),
)
_HISTORY = ("messaging-history.",)
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
        held, read = _READERS.get(name, ("", None))
        items = fields.dict_of(data).get(held) if held else data
        # of `messages.delete` there are other forms, for all of a chat
        if read is None or (name == "messages.delete" and not isinstance(items, list)):
            yield fields.no_message(name, _PLATFORM, name, _SIGNALS, _HISTORY)
        else:
            yield from fields.each_of(items if isinstance(items, list) else [items], name, read)


def _participants(raw: dict[str, Any], where: str) -> Iterator[Event]:
    people = tuple(_person(jid) for jid in fields.list_of(raw.get("participants"), "participants"))
    if (action := raw.get("action")) in ("add", "remove"):
        yield fields.moved_in_or_out(where, _chat_id(raw, "id"), people, came=action == "add")
    elif action in ("promote", "demote"):
        named, former = (people, ()) if action == "promote" else ((), people)
        yield Moderators(where=where, chat_id=_chat_id(raw, "id"), people=named, former=former)
    else:
        yield fields.not_kept(where, f"participants: {action}")


def _group(raw: dict[str, Any], where: str) -> Iterator[Event]:
    title, people = fields.text_of(raw.get("subject")), fields.dicts_of(raw.get("participants"))
    if title:
        yield fields.chat_of("whatsapp", _chat_id(raw, "id"), kind="group", title=title)
    if people:
        admins = tuple(_person(person) for person in people if person.get("admin"))
        yield Moderators(where=where, chat_id=_chat_id(raw, "id"), people=admins, former=None)
    if not title and not people:
        yield fields.not_kept(where, "groups.update")


def _person(jid: object, other: object = None) -> str:
    """Return the sender of this id, by their number where it is known."""
    person = fields.dict_of(jid)
    known = [*(person.get(field) for field in ("phoneNumber", "id", "lid")), other, None if person else jid]
    ids = [i for i in known if isinstance(i, str) and i]
    if not ids:
        raise ValueError("a participant has no id")
    chosen = next((i for i in ids if i.endswith(_PHONE)), ids[0])
    user, _, server = chosen.partition("@")
    # a device of theirs stands after a colon
    number = user.partition(":")[0]
    return f"whatsapp:{number}" if f"@{server}" == _PHONE else f"whatsapp:{number}@{server}"


def _chat_id(key: dict[str, Any], field: str = "remoteJid") -> str:
    jid = fields.id_of(key.get(field), f"key.{field}" if field == "remoteJid" else field)
    return f"whatsapp:{jid}" if jid.endswith("@g.us") else _person(jid, key.get("remoteJidAlt"))


def _author(key: dict[str, Any]) -> str:
    """Return the author of a message."""
    if participant := key.get("participant"):
        return _person(participant, key.get("participantAlt") or key.get("participantPn"))
    # in a direct chat the payload does not say who the bot is
    return "whatsapp:me" if key.get("fromMe") is True else _chat_id(key)


def _by(key: dict[str, Any]) -> str | None:
    """Return who changes the message of this key; None if it is the account itself, which sees to what it may."""
    return None if key.get("fromMe") is True else _author(key)


def _deleted(key: dict[str, Any], where: str) -> Iterator[Event]:
    # by the account, on one of its devices
    yield fields.deletion(where, _chat_id(key), key.get("id"), "key.id")


def _deletion(key: dict[str, Any], where: str) -> Iterator[Event]:
    yield fields.deletion(where, _chat_id(key), key.get("id"), "key.id", by=_by(key))


def _edit(key: dict[str, Any], where: str, content: Any, at: object) -> Edit:
    kind, held = _content(content)
    text = fields.with_media(_text(kind, held), _media(kind, held))
    external_id = fields.id_of(key.get("id"), "key.id")
    return fields.edit_alone(where, _chat_id(key), external_id, text, _seconds(at), sender_id=_by(key))


def _update(raw: dict[str, Any], where: str) -> Iterator[Event]:
    key, update = fields.dict_of(raw.get("key")), fields.dict_of(raw.get("update"))
    if edited := fields.dict_of(update, "message", "editedMessage"):
        yield _edit(key, where, edited.get("message"), update.get("messageTimestamp"))
    elif update.get("messageStubType") in _REVOKED and not update.get("message"):
        yield from _deletion(key, where)
    else:
        yield fields.not_kept(where, "messages.update")


def _message(raw: dict[str, Any], where: str) -> Iterator[Event]:
    # the key of a message sent by the bot does not name the bot
    key = {"participant": raw.get("participant"), **fields.dict_of(raw.get("key"))}
    jid = str(key.get("remoteJid"))
    kind, held = _content(raw.get("message"))
    if jid.endswith("@broadcast"):
        yield fields.not_kept(where, "broadcast")
    elif kind == "protocolMessage" and held.get("type") in (*_REVOKE, *_EDIT):
        # the key in it is from the author's point of view: who changes the message is who sends this
        target = {**key, "id": fields.dict_of(held.get("key")).get("id")}
        if held.get("type") in _EDIT:
            at = held.get("timestampMs") or raw.get("messageTimestamp")
            yield _edit(target, where, held.get("editedMessage"), at)
        else:
            yield from _deletion(target, where)
    elif not kind and raw.get("messageStubType") not in _ENCRYPTED:
        yield fields.not_kept(where, "message without content")
    else:
        noted = None
        if not kind.startswith(_READ):
            noted = fields.no_message(where, _PLATFORM, kind or "ciphertext", _NOT_KEPT, _UNREAD)
            yield noted
            if isinstance(noted, Skipped):
                return
        kind_of_chat: ChatKind = "group" if jid.endswith("@g.us") else "direct"
        chat = fields.chat_of("whatsapp", _chat_id(key), kind=kind_of_chat)
        record = _record(raw, key, where, chat)
        if noted is None or not isinstance(record, Skipped):
            yield from (chat, record)


def _record(raw: dict[str, Any], key: dict[str, Any], where: str, chat: ChatIn) -> ReadMessage:
    kind, held = _content(raw.get("message"))
    context = fields.dict_of(held.get("contextInfo"))
    return fields.read_message(
        where,
        chat.chat_id,
        text=_text(kind, held),
        media=_media(kind, held),
        metadata={FORWARDED: ""} if context.get("isForwarded") else {},
        external_id=fields.id_of(key.get("id"), "key.id"),
        sender_id=_author(key),
        sender_name=fields.name_of(raw.get("pushName")),
        role="assistant" if key.get("fromMe") is True else "user",
        sent_at=_seconds(raw.get("messageTimestamp")),
        reply_to=context.get("stanzaId"),
    )


def _seconds(value: object) -> object:
    """Return a time of protobuf's, which JSON may hold as the two halves of a number."""
    match value:
        case {"low": int() as low, "high": int() as high}:
            return high * 2**32 + low % 2**32
    return value


def _content(message: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a message's content and what it holds; empty without any."""
    message = fields.dict_of(message)
    while inner := next((message[field] for field in _INSIDE if message.get(field)), None):
        message = fields.dict_of(inner, "message")
    kind = next((field for field, held in message.items() if held and field not in _ABOUT), "")
    held = message.get(kind)
    return kind, {"text": held} if isinstance(held, str) else fields.dict_of(held)


def _media(kind: str, held: dict[str, Any]) -> list[dict[str, str]]:
    if kind == "contactsArrayMessage":
        names = [fields.name_of(card.get("displayName")) for card in fields.dicts_of(held.get("contacts"))]
        return [fields.attachment("contact", name) for name in names]
    if kind not in _MEDIA:
        return []
    return [fields.attachment(_MEDIA[kind], fields.name_of(held.get("fileName"), held.get("displayName")))]


def _text(kind: str, held: dict[str, Any]) -> str:
    if kind in _MEDIA:
        return fields.text_of(held.get("caption"))
    if kind.startswith("pollCreationMessage"):
        answers = [fields.name_of(item.get("optionName")) for item in fields.dicts_of(held.get("options"))]
        return f"[poll] {fields.text_of(held.get('name'))}: {' / '.join(answers)}"
    if kind in ("locationMessage", "liveLocationMessage"):
        point = (held.get("degreesLatitude", ""), held.get("degreesLongitude", ""))
        return fields.location(*point, held.get("name"), held.get("address"))
    texts = [held.get(field) for field in ("text", "selectedDisplayText", "title")]
    text = next(filter(None, map(fields.text_of, texts)), "")
    return text if kind.startswith(_READ) else fields.labelled(kind, held)


# where each event holds its items, and what reads one of them
_READERS: dict[str, tuple[str, Callable[[dict[str, Any], str], Iterator[Event]]]] = {
    "messages.upsert": ("messages", _message),
    "messages.update": ("", _update),
    "messages.delete": ("keys", _deleted),
    "group-participants.update": ("", _participants),
    "groups.update": ("", _group),
    "groups.upsert": ("", _group),
}
