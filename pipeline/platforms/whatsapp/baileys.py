"""Parse events of Baileys as `sock.ev.process` gives them, by their names, or what `messages.upsert` gives alone."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from pipeline.platforms import contents, fields, kinds
from pipeline.platforms.records import (
    Event,
    MemberChange,
    Moderators,
    NewNumber,
    OtherId,
    ReadMessage,
    Skipped,
)
from schemas.errors import InvalidInput
from schemas.messages import FORWARDED, ChatIn, ChatKind

KINDS = kinds.load("baileys")
_PHONES = ("@s.whatsapp.net", "@c.us", "@hosted")
_GROUPS = ("@g.us", "@newsletter")
# a stub of what could not be decrypted, in the two forms of protobuf's numbers
_ENCRYPTED = (2, "CIPHERTEXT")
# what belongs to a text, of which the rest is a link's preview
_PLAIN = ("conversation", "extendedTextMessage")
# numbers where protobuf's JSON is Baileys' own, names where it is `toJSON`'s
_REVOKE, _EDIT, _REVOKED = (0, "REVOKE", None), (14, "MESSAGE_EDIT"), (1, "REVOKE")
_CHANGED_NUMBER = (33, "GROUP_PARTICIPANT_CHANGE_NUMBER", 42, "INDIVIDUAL_CHANGE_NUMBER")


def parse(value: Any) -> Iterator[Event]:
    """Parse a map of events, or `{"messages": […]}`. Raises `InvalidInput` for anything else."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = {"messages.upsert": value}
    if not isinstance(value, dict) or not value or not all("." in name or KINDS.fate(name) for name in value):
        raise InvalidInput(
            'the body holds no events of Baileys by their names, such as {"messages.upsert": {"messages": […]}}',
            field="body",
        )
    for name, data in value.items():
        held, read = _READERS.get(name, ("", None))
        items = fields.dict_of(data).get(held) if held else data
        # of `messages.delete` there are other forms, for all of a chat
        if read is None or (name == "messages.delete" and not isinstance(items, list)):
            yield KINDS.by_name(name, name) or fields.not_kept(name, name)
        else:
            yield from fields.each_of(items if isinstance(items, list) else [items], name, read)


def _participants(raw: dict[str, Any], where: str) -> Iterator[Event]:
    people = tuple(_person(jid) for jid in fields.list_of(raw.get("participants"), "participants"))
    if (action := raw.get("action")) in ("add", "remove"):
        yield fields.moved_in_or_out(where, _chat_id(raw, "id"), people, came=action == "add")
    elif action in ("promote", "demote"):
        named, former = (people, ()) if action == "promote" else ((), people)
        yield Moderators(where=where, chat_id=_chat_id(raw, "id"), people=named, former=former)
    elif action == "modify" and len(people) == 1 and raw.get("author"):
        yield NewNumber(
            where=where, chat_id=_person(raw["author"], raw.get("authorPn")), to=people[0], at=None
        )
    else:
        yield fields.not_kept(where, f"participants: {action}")


def _mapping(raw: dict[str, Any], where: str) -> Iterator[Event]:
    """Yield that two ids are one person's."""
    both = _person({"phoneNumber": raw.get("pn") or raw.get("jid"), "lid": raw.get("lid")})
    yield OtherId(where=where, other_id=_person(fields.id_of(raw.get("lid"), "lid")), id=both)


def _group(raw: dict[str, Any], where: str) -> Iterator[Event]:
    title, people = fields.text_of(raw.get("subject")), fields.dicts_of(raw.get("participants"))
    if title:
        yield fields.chat_of("whatsapp", _chat_id(raw, "id"), kind="group", title=title)
    if people:
        everyone = tuple(map(_person, people))
        yield MemberChange(where=where, chat_id=_chat_id(raw, "id"), joined=everyone, left=())
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
    chosen = next((i for i in ids if i.endswith(_PHONES)), ids[0])
    user, _, server = chosen.partition("@")
    # a device of theirs stands after a colon
    number, server = user.partition(":")[0], server.removeprefix("hosted.")
    return f"whatsapp:{number}" if f"@{server}" in ("@", *_PHONES) else f"whatsapp:{number}@{server}"


def _chat_id(key: dict[str, Any], field: str = "remoteJid") -> str:
    jid = fields.id_of(key.get(field), f"key.{field}" if field == "remoteJid" else field)
    return f"whatsapp:{jid}" if jid.endswith("@g.us") else _person(jid, _other(key, "remoteJid"))


def _other(key: dict[str, Any], field: str) -> object:
    """Return the id that stands beside that of a direct chat or a participant, by number or without."""
    beside = ("participantPn", "participantLid") if field == "participant" else ("senderPn", "senderLid")
    return next((key[name] for name in (f"{field}Alt", *beside) if key.get(name)), None)


def _changed_number(raw: dict[str, Any], key: dict[str, Any], where: str) -> Iterator[Event]:
    """Yield that whoever is named in a stub has the number in it from now on."""
    new = next(iter(fields.list_of(raw.get("messageStubParameters"), "messageStubParameters")), None)
    if isinstance(new, str) and new.startswith("{"):
        new = json.loads(new)
    at = fields.time_of(_seconds(raw.get("messageTimestamp")), "messageTimestamp")
    if not key.get("participant") and str(key.get("remoteJid")).endswith(_GROUPS):
        raise ValueError("key.participant is missing")
    former = _author({**key, "fromMe": False})
    yield NewNumber(where=where, chat_id=former, to=_person(new), at=at)


def _both_ids(key: dict[str, Any], where: str, at: object) -> Iterator[Event]:
    """Yield that two ids are one person's, where the key has both."""
    in_group = str(key.get("remoteJid")).endswith(_GROUPS)
    field = "participant" if in_group else "remoteJid"
    jid, other = key.get(field), _other(key, field)
    if isinstance(jid, str) and isinstance(other, str) and jid:
        used = _person(jid, other)
        ids = {_person(jid), _person(other)} - {used}
        sent = fields.time_of(_seconds(at), "messageTimestamp")
        yield from (OtherId(where=where, other_id=each, id=used, at=sent) for each in ids)


def _author(key: dict[str, Any]) -> str:
    other = _other(key, "participant")
    if participant := key.get("participant") or other:
        return _person(participant, other)
    # in a direct chat the payload does not say who the bot is
    return "whatsapp:me" if key.get("fromMe") is True else _chat_id(key)


def _by(key: dict[str, Any]) -> str | None:
    """Return who changes the message of this key; None if it is the account itself, which sees to what it may."""
    return None if key.get("fromMe") is True else _author(key)


def _deleted(key: dict[str, Any], where: str) -> Iterator[Event]:
    # by the account, on one of its devices
    yield fields.deletion(where, _chat_id(key), key.get("id"), "key.id")


def _deletion(key: dict[str, Any], where: str, at: object = None) -> Iterator[Event]:
    yield fields.deletion(where, _chat_id(key), key.get("id"), "key.id", by=_by(key), at=_seconds(at))


def _edit(key: dict[str, Any], where: str, content: Any, at: object) -> Event:
    text = _shown(content)
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
    kind, held = _content(raw.get("message"))
    jid, sender = str(key.get("remoteJid")), key.get("participant")
    if jid.endswith("@broadcast") and jid != "status@broadcast" and sender and not key.get("fromMe"):
        # what somebody sends to a list comes to each on it alone
        jid = str(sender)
        key |= {"remoteJid": jid, "remoteJidAlt": _other(key, "participant"), "participant": None}
    if jid.endswith("@broadcast"):
        yield fields.not_kept(where, "broadcast")
    elif kind == "protocolMessage" and held.get("type") in (*_REVOKE, *_EDIT):
        # the key in it is from the author's point of view: who changes the message is who sends this
        target = {**key, "id": fields.dict_of(held.get("key")).get("id")}
        if held.get("type") in _EDIT:
            at = held.get("timestampMs") or raw.get("messageTimestamp")
            yield _edit(target, where, held.get("editedMessage"), at)
        else:
            yield from _deletion(target, where, raw.get("messageTimestamp"))
    elif raw.get("messageStubType") in _CHANGED_NUMBER and raw.get("messageStubParameters"):
        yield from _changed_number(raw, key, where)
    elif not kind and raw.get("messageStubType") not in _ENCRYPTED:
        yield fields.not_kept(where, "message without content")
    else:
        named = kind or "ciphertext"
        kind_of_chat: ChatKind = "group" if jid.endswith(_GROUPS) else "direct"
        chat = fields.chat_of("whatsapp", _chat_id(key), kind=kind_of_chat)
        yield from KINDS.events(where, named, chat, lambda: [_record(raw, key, where, chat)])
        if isinstance(KINDS.by_name(where, named), Skipped):
            return
        yield from _both_ids(key, where, raw.get("messageTimestamp"))


def _record(raw: dict[str, Any], key: dict[str, Any], where: str, chat: ChatIn) -> ReadMessage:
    kind, held = _content(raw.get("message"))
    context = fields.dict_of(held.get("contextInfo"))
    # an answer to a message of another chat, as to one of a group in private, or to a status
    elsewhere = context.get("remoteJid") not in (None, "", key.get("remoteJid"))
    answered = contents.quoted(_shown(context.get("quotedMessage"))) if elsewhere else ""
    return fields.read_message(
        where,
        chat.chat_id,
        text="\n".join(filter(None, (answered, _text(kind, held)))),
        media=_media(kind, held),
        metadata={FORWARDED: ""} if context.get("isForwarded") else {},
        kind=kind,
        external_id=fields.id_of(key.get("id"), "key.id"),
        sender_id=_author(key),
        sender_name=fields.name_of(raw.get("pushName")),
        role="assistant" if key.get("fromMe") is True else "user",
        sent_at=_seconds(raw.get("messageTimestamp")),
        reply_to=None if elsewhere else context.get("stanzaId"),
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
    while True:
        kind = next((field for field, held in message.items() if held and KINDS.fate(field) != "about"), "")
        held = message.get(kind)
        # whatever is wrapped around a message: that it vanishes, is part of an album, was edited …
        if not (inner := fields.dict_of(held, "message")):
            return kind, {"text": held} if isinstance(held, str) else fields.dict_of(held)
        message = inner


def _shown(message: Any) -> str:
    """Return what a message shows, its attachments and its text."""
    kind, held = _content(message)
    return fields.with_media(_text(kind, held), _media(kind, held))


def _media(kind: str, held: dict[str, Any]) -> list[dict[str, str]]:
    if kind == "contactsArrayMessage":
        names = [fields.name_of(card.get("displayName")) for card in fields.dicts_of(held.get("contacts"))]
        return [fields.attachment("contact", name) for name in names]
    if kind not in KINDS.media:
        return []
    return [
        fields.attachment(KINDS.media[kind], fields.name_of(held.get("fileName"), held.get("displayName")))
    ]


def _text(kind: str, held: dict[str, Any]) -> str:
    if kind in _PLAIN:
        return fields.text_of(held.get("text"))
    if kind in KINDS.media or kind == "contactsArrayMessage":
        cards = fields.dicts_of(held.get("contacts")) or [held]
        return "\n".join(filter(None, (fields.text_of(held.get("caption")), *map(_phones, cards))))
    if kind in ("locationMessage", "liveLocationMessage"):
        point = (held.get("degreesLatitude", ""), held.get("degreesLongitude", ""))
        place = contents.location(*point, held.get("name"), held.get("address"))
        comment = fields.text_of(held.get("comment") or held.get("caption"))
        return "\n".join(filter(None, (place, comment)))
    label = KINDS.word(kind)
    if label is not None and label.startswith("poll"):
        options = fields.dicts_of(held.get("options")) or fields.dicts_of(held.get("pollVotes"))
        names = [fields.name_of(item.get("optionName")) for item in options]
        return f"[{label}] {fields.text_of(held.get('name'))}: {' / '.join(names)}"
    # what is quoted is another message, and what is on buttons may be answered with it
    words = {
        name: part for name, part in held.items() if name != "contextInfo" and not name.startswith("button")
    }
    if form := fields.dict_of(held, "nativeFlowResponseMessage"):
        text, answers = contents.words(words), contents.answers(form.get("paramsJson"))
        return "\n".join(filter(None, (text, answers)))
    if label == "":
        return contents.words(words) or fields.text_of(held.get("selectedId"))
    named = [part for name, part in held.items() if name == "name" or name.endswith("Name")]
    if named and "title" not in words:
        words = {"title": fields.name_of(*named), **words}
    where_to = fields.dict_of(words.pop("location", None))
    text = contents.labelled(label or kind, words, shown=f"[{label}]" if label else "")
    return f"{text} {_text('locationMessage', where_to)}" if where_to else text


def _phones(card: dict[str, Any]) -> str:
    """Return the name and the numbers on a contact's card; empty without a number."""
    numbers = re.findall(r"^(?:item\d+\.)?TEL[^:\n]*:(.+)$", str(card.get("vcard") or ""), re.MULTILINE)
    return contents.card(card.get("displayName"), *numbers)


# where each event holds its items, and what reads one of them
_READERS: dict[str, tuple[str, Callable[[dict[str, Any], str], Iterator[Event]]]] = {
    "messages.upsert": ("messages", _message),
    "messages.update": ("", _update),
    "messages.delete": ("keys", _deleted),
    "group-participants.update": ("", _participants),
    "lid-mapping.update": ("", _mapping),
    "chats.phoneNumberShare": ("", _mapping),
    "groups.update": ("", _group),
    "groups.upsert": ("", _group),
}
