"""Parse webhooks of WhatsApp's Cloud API, each a batch.

A direct chat is called by the customer's number, which a person has in exports, too. Statuses of messages are counted.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from pipeline.platforms import fields
from pipeline.platforms.records import Deletion, Event, NewChatId, ReadMessage, Skipped, Unread
from schemas.errors import InvalidInput
from schemas.messages import FORWARDED, ChatIn

_PLATFORM = "WhatsApp"
_MEDIA = ("image", "video", "audio", "sticker", "document")
_READ = (*_MEDIA, "text", "button", "location", "interactive", "contacts", "order")
# kinds of messages, and fields of changes, that bring no words; kinds that bring some, which WhatsApp does not tell
_SIGNALS = (
    *(
        "reaction",
        "request_welcome",
        "system",
        "statuses",
        "messages",
        "account_",
        "business_",
        "calls",
        "flows",
    ),
    *("message_template_", "partner_solutions", "payment_", "phone_number_", "security", "smb_", "standby"),
    *("template_", "tracking_events", "user_preferences", "user_id_update", "group_"),
)
_UNREAD = ("unsupported", "ephemeral", "history")
_CHANGED_NUMBER = ("user_changed_number", "customer_changed_number")


def parse(value: Any) -> Iterator[Event]:
    """Parse a webhook's body. Raises `InvalidInput` for anything else."""
    entries = value.get("entry") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise InvalidInput(
            "the body is no webhook of WhatsApp's Cloud API: entry is missing or no list", field="entry"
        )
    yield from fields.each_of(entries, "entry", _entry)


def _entry(raw: dict[str, Any], where: str) -> Iterator[Event]:
    yield from fields.each_of(fields.list_of(raw.get("changes"), "changes"), f"{where}.changes", _change)


def _change(raw: dict[str, Any], where: str) -> Iterator[Event]:
    value = fields.dict_of(raw.get("value"))
    people = fields.dicts_of(value.get("contacts"))
    names = {str(person.get("wa_id")): fields.dict_of(person, "profile").get("name") for person in people}
    for listed in ("messages", "message_echoes"):
        read = partial(_message, names=names, echo=listed == "message_echoes")
        yield from fields.each_of(fields.list_of(value.get(listed), listed), f"{where}.value.{listed}", read)
    for _ in fields.list_of(value.get("statuses"), "statuses"):
        yield fields.not_kept(where, "statuses")
    if not any(value.get(field) for field in ("messages", "message_echoes", "statuses")):
        yield fields.no_message(where, _PLATFORM, raw.get("field"), _SIGNALS, _UNREAD)


def _message(raw: dict[str, Any], where: str, names: dict[str, Any], *, echo: bool) -> Iterator[Event]:
    # people who hide their number have another id
    sender = fields.id_of(raw.get("from") or raw.get("from_user_id"), "from").lstrip("+")
    other = fields.id_of(raw.get("to"), "to").lstrip("+") if echo else sender
    group = raw.get("group_id")
    key = fields.id_of(group, "group_id") if group else other
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise ValueError("type is missing")  # noqa: TRY004  it is the sender's value that is wrong
    chat = fields.chat_of("whatsapp", f"whatsapp:{key}", kind="group" if group else "direct")
    held = fields.dict_of(raw.get(kind))
    at = fields.time_of(raw.get("timestamp"), "timestamp")
    if kind == "system" and held.get("type") in _CHANGED_NUMBER:
        number = fields.id_of(held.get("wa_id") or held.get("new_wa_id"), "system.wa_id")
        yield NewChatId(where=where, chat_id=chat.chat_id, to=f"whatsapp:{number.lstrip('+')}")
    elif kind in ("revoke", "edit"):
        changed = fields.id_of(held.get("original_message_id"), f"{kind}.original_message_id")
        if kind == "revoke":
            yield Deletion(where=where, chat_id=chat.chat_id, external_id=changed)
        else:
            new = fields.dict_of(held.get("message"))
            content = fields.with_media(_text(new), _media(new))
            author = f"whatsapp:{sender}"
            yield fields.edit_alone(where, chat.chat_id, changed, content, at, sender_id=author)
    elif kind in _READ:
        yield chat
        yield _record(raw, where, chat, f"whatsapp:{sender}", fields.name_of(names.get(sender)), echo=echo)
    else:
        yield (noted := fields.no_message(where, _PLATFORM, kind, _SIGNALS, _UNREAD))
        record = _record(raw, where, chat, f"whatsapp:{sender}", fields.name_of(names.get(sender)), echo=echo)
        if isinstance(noted, Unread) and not isinstance(record, Skipped):
            yield from (chat, record)


def _record(
    raw: dict[str, Any], where: str, chat: ChatIn, sender_id: str, name: str, *, echo: bool
) -> ReadMessage:
    context = fields.dict_of(raw.get("context"))
    forwarded = context.get("forwarded") or context.get("frequently_forwarded")
    return fields.read_message(
        where,
        chat.chat_id,
        text=_text(raw),
        media=_media(raw),
        metadata={FORWARDED: ""} if forwarded else {},
        external_id=fields.id_of(raw.get("id"), "id"),
        sender_id=sender_id,
        sender_name=name,
        role="assistant" if echo else "user",
        sent_at=raw.get("timestamp"),
        reply_to=context.get("id"),
    )


def _media(raw: dict[str, Any]) -> list[dict[str, str]]:
    kind = str(raw.get("type"))
    if kind == "contacts":
        people = [fields.dict_of(card.get("name")) for card in fields.dicts_of(raw.get("contacts"))]
        return [fields.attachment("contact", fields.name_of(name.get("formatted_name"))) for name in people]
    file = fields.dict_of(raw.get(kind))
    return [fields.attachment(kind, fields.name_of(file.get("filename")))] if kind in _MEDIA else []


def _text(raw: dict[str, Any]) -> str:
    kind = str(raw.get("type"))
    held = fields.dict_of(raw.get(kind))
    match kind:
        case "text":
            return fields.text_of(held.get("body"))
        case "button":
            return fields.text_of(held.get("text"))
        case "location":
            where_to = (held.get("latitude", ""), held.get("longitude", ""))
            return fields.location(*where_to, held.get("name"), held.get("address"))
        case "interactive":
            replied = (fields.dict_of(held.get(key)) for key in ("button_reply", "list_reply", "nfm_reply"))
            texts = (fields.text_of(reply.get("title") or reply.get("body")) for reply in replied)
            return next(filter(None, texts), "")
        case "contacts":
            return ""
        case _ if kind in _MEDIA:
            return fields.text_of(held.get("caption"))
        case _:
            # of a kind that is new, the words
            return fields.labelled(kind, held)
