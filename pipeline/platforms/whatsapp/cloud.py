"""Parse webhooks of WhatsApp's Cloud API, each a batch.

A direct chat is called by the customer's number, which a person has in exports, too, and by the business number that
it is with. Statuses of messages are counted.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

from pipeline.platforms import contents, fields, kinds
from pipeline.platforms.records import BotAccount, Event, MemberChange, NewNumber, OtherId, ReadMessage
from schemas.errors import InvalidInput
from schemas.messages import FORWARDED, ChatIn

KINDS = kinds.load("whatsapp_cloud")
_READ = ("messages", "message_echoes", "statuses", "groups", "user_id_update")
_CHANGED_NUMBER = ("user_changed_number", "customer_changed_number", "user_changed_user_id")


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
    account = ""
    if named := fields.dict_of(value, "metadata").get("phone_number_id"):
        business = fields.id_of(named, "metadata.phone_number_id")
        account = f"@{business}"
        yield BotAccount(where=where, platform="whatsapp", account=business)
    # people who hide their number have another id
    names = {
        str(person.get(key)): fields.name_of(profile.get("name"), profile.get("username"))
        for person in fields.dicts_of(value.get("contacts"))
        for profile in (fields.dict_of(person.get("profile")),)
        for key in ("wa_id", "user_id")
        if person.get(key)
    }
    for listed in ("messages", "message_echoes"):
        read = partial(_message, names=names, account=account, echo=listed == "message_echoes")
        yield from fields.each_of(fields.list_of(value.get(listed), listed), f"{where}.value.{listed}", read)
    said = value.get("messages") or value.get("message_echoes")
    sent = next((message.get("timestamp") for message in fields.dicts_of(said)), None)
    for person in fields.dicts_of(value.get("contacts")):
        if (number := person.get("wa_id")) and (hidden := person.get("user_id")):
            at = fields.time_of(sent, "messages.timestamp")
            used, other = _person(number, "contacts.wa_id"), _person(hidden, "contacts.user_id")
            yield OtherId(where=where, other_id=other, id=used, at=at, account=account)
    for change in fields.dicts_of(value.get("user_id_update")):
        ids = fields.dict_of(change.get("user_id"))
        told = {"from": change.get("wa_id"), "timestamp": change.get("timestamp")}
        held = {
            "previous_user_id": ids.get("previous"),
            "user_id": ids.get("current"),
            "wa_id": change.get("wa_id"),
        }
        yield from _changed_number(told, held, where, fields.time_of(change.get("timestamp"), "timestamp"))
    yield from fields.each_of(fields.list_of(value.get("groups"), "groups"), f"{where}.value.groups", _group)
    for _ in fields.list_of(value.get("statuses"), "statuses"):
        yield fields.not_kept(where, "statuses")
    # what was written before the business came: in threads, each with the customer's number, or an error
    history = [chunk for chunk in fields.dicts_of(value.get("history")) if "threads" in chunk]
    for thread in (thread for chunk in history for thread in fields.dicts_of(chunk["threads"])):
        past = partial(_past, names=names, customer=thread.get("id"), account=account)
        yield from fields.each_of(
            fields.list_of(thread.get("messages"), "messages"), f"{where}.value.history", past
        )
    if not history and not any(map(value.get, _READ)):
        field = str(raw.get("field"))
        yield KINDS.by_name(where, field) or fields.not_kept(where, field)


def _group(raw: dict[str, Any], where: str) -> Iterator[Event]:
    """Yield the new title of a group, and who came or left."""
    kind = str(raw.get("type"))
    came, left = (
        tuple(
            _person(person.get("wa_id") or person.get("user_id"), listed)
            for person in fields.dicts_of(raw.get(listed))
        )
        for listed in ("added_participants", "removed_participants")
    )
    subject = fields.dict_of(raw.get("group_subject"))
    title = fields.text_of(raw.get("subject") or (subject.get("update_successful") and subject.get("text")))
    if not (came or left or title):
        yield fields.not_kept(where, kind)
        return
    chat = fields.chat_of(
        "whatsapp", f"whatsapp:{fields.id_of(raw.get('group_id'), 'group_id')}", kind="group", title=title
    )
    yield chat
    if came or left:
        at = fields.time_of(raw.get("timestamp"), "timestamp")
        yield MemberChange(where=where, chat_id=chat.chat_id, joined=came, left=left, at=at)


def _person(identifier: object, name: str) -> str:
    return f"whatsapp:{fields.id_of(identifier, name).lstrip('+')}"


def _past(
    raw: dict[str, Any], where: str, *, names: dict[str, Any], customer: object, account: str
) -> Iterator[Event]:
    """Yield a message of a thread, which is the customer's own or an answer to them."""
    sender = fields.id_of(raw.get("from") or raw.get("from_user_id"), "from").lstrip("+")
    echo = sender != fields.id_of(customer, "history.threads.id").lstrip("+")
    of_echo = {"to": customer} | raw
    yield from _message(of_echo if echo else raw, where, names=names, account=account, echo=echo)


def _message(
    raw: dict[str, Any], where: str, names: dict[str, Any], account: str, *, echo: bool
) -> Iterator[Event]:
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise ValueError("type is missing")  # noqa: TRY004  it is the sender's value that is wrong
    held, at = fields.dict_of(raw.get(kind)), fields.time_of(raw.get("timestamp"), "timestamp")
    if kind == "system" and held.get("type") in _CHANGED_NUMBER:
        yield from _changed_number(raw, held, where, at)
        return
    # people who hide their number have another id
    sender = fields.id_of(raw.get("from") or raw.get("from_user_id"), "from").lstrip("+")
    group, to = raw.get("group_id"), raw.get("to") or raw.get("to_user_id")
    other = fields.id_of(to, "to").lstrip("+") if echo and not group else sender
    key = fields.id_of(group, "group_id") if group else f"{other}{account}"
    chat = fields.chat_of("whatsapp", f"whatsapp:{key}", kind="group" if group else "direct")
    if kind in ("revoke", "edit"):
        name, by = f"{kind}.original_message_id", f"whatsapp:{sender}"
        changed = fields.id_of(held.get("original_message_id"), name)
        if kind == "revoke":
            yield fields.deletion(where, chat.chat_id, changed, name, by=by, at=raw.get("timestamp"))
        else:
            new = fields.dict_of(held.get("message"))
            content = fields.with_media(_text(new), _media(new))
            yield fields.edit_alone(where, chat.chat_id, changed, content, at, sender_id=by)
    else:
        by, name = f"whatsapp:{sender}", fields.name_of(names.get(sender))
        yield from KINDS.events(where, kind, chat, lambda: [_record(raw, where, chat, by, name, echo=echo)])


def _changed_number(
    raw: dict[str, Any], held: dict[str, Any], where: str, at: datetime | None
) -> Iterator[Event]:
    """Yield that a person has another number; the id that stands for it, if it is hidden, changes with it."""
    hidden, before = held.get("user_id"), held.get("previous_user_id")
    number = held.get("wa_id") or held.get("new_wa_id")
    former = _person(raw.get("from") or before or raw.get("from_user_id"), "from")
    new = _person(number or hidden, "system.wa_id")
    if raw.get("from") and before:
        yield OtherId(where=where, other_id=_person(before, "system.previous_user_id"), id=former, at=at)
    if new != former:
        yield NewNumber(where=where, chat_id=former, to=new, at=at)
    if number and hidden:
        yield OtherId(where=where, other_id=_person(hidden, "system.user_id"), id=new)


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
        kind=str(raw.get("type")),
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
    name = fields.name_of(file.get("filename"))
    return [fields.attachment(KINDS.media[kind], name)] if kind in KINDS.media else []


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
            return contents.location(*where_to, held.get("name"), held.get("address"))
        case "interactive":
            return _answer(held)
        case "contacts":
            return "\n".join(filter(None, map(_numbers, fields.dicts_of(raw.get("contacts")))))
        case "order":
            items = map(_ordered, fields.dicts_of(held.get("product_items")))
            return f"[order] {fields.text_of(held.get('text'))}\n{'; '.join(items)}".strip()
        case _ if kind in KINDS.media:
            return fields.text_of(held.get("caption"))
        case _:
            # of a kind that is new, the words
            return contents.labelled(kind, held or {"text": raw.get(kind)})


def _answer(held: dict[str, Any]) -> str:
    """Return what was chosen or filled in; a form's own label for itself, and leave to call, say nothing."""
    if held.get("type") == "call_permission_reply":
        return ""
    reply = fields.dict_of(held.get(str(held.get("type")))) or next(map(fields.dict_of, held.values()), {})
    answers = contents.answers(reply.get("response_json"))
    label = fields.text_of(reply.get("title") or reply.get("body"))
    if answers and reply.get("name") != "address_message":
        label = ""
    texts = (label, fields.text_of(reply.get("description")), answers)
    return "\n".join(filter(None, texts)) or contents.labelled(str(held.get("type")), held)


def _numbers(card: dict[str, Any]) -> str:
    """Return the name and the numbers on a contact's card, and its addresses; empty without any."""
    phones = [phone.get("phone") or phone.get("wa_id") for phone in fields.dicts_of(card.get("phones"))]
    mails = [mail.get("email") for mail in fields.dicts_of(card.get("emails"))]
    return contents.card(fields.dict_of(card.get("name")).get("formatted_name"), *phones, *mails)


def _ordered(item: dict[str, Any]) -> str:
    price = f"{item.get('item_price', '')} {item.get('currency', '')}".strip()
    what = f"{item.get('quantity', 1)} × {item.get('product_retailer_id', '')}"
    return f"{what} ({price})" if price else what
