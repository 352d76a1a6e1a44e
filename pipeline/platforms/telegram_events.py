"""Parse updates of Telegram's Bot API, and the messages that `sendMessage` and its kin return.

Telegram does not deliver a bot's own messages: what it returns for them is taken by itself, with or without
`{"ok": true, "result": …}` around it. Deletions are reported in the chats of business accounts only.
"""

from collections.abc import Iterator
from typing import Any

from pipeline.platforms import contents, fields, kinds
from pipeline.platforms.records import Event, MemberChange, NewChatId, ReadMessage, Skipped
from pipeline.platforms.telegram_export import poll_text
from schemas.messages import FORWARDED, MAX_POSITION, ChatIn, ChatKind

KINDS, UPDATES = kinds.load("telegram_bot"), kinds.load("telegram_updates")
_MESSAGES = ("message", "channel_post", "business_message", "guest_message")
_EDITS = ("edited_message", "edited_channel_post", "edited_business_message")
_MEMBER, _OWN_MEMBER, _DELETED = "chat_member", "my_chat_member", "deleted_business_messages"
_READ = (*_MESSAGES, *_EDITS, _MEMBER, _OWN_MEMBER, _DELETED)
_INSIDE = ("creator", "administrator", "member")
_ORIGINS = ("sender_user", "sender_chat", "chat")


def parse(value: Any) -> Iterator[Event]:
    """Parse an update or a message, or a list of them. Raises `InvalidInput` for anything else."""
    if isinstance(value, dict) and value.get("ok") is True:
        value = value.get("result")
    otherwise = (
        "is neither an update of Telegram's Bot API, with update_id, nor a message that it returned, with message_id "
        "and chat"
    )
    yield from fields.one_or_several(value, _is_known, otherwise, _named)


def _is_known(item: dict[str, Any]) -> bool:
    return "update_id" in item or {"message_id", "chat"} <= item.keys()


def _named(raw: dict[str, Any], where: str) -> Iterator[Event]:
    kind = "message"
    if "update_id" in raw:
        kind = next((key for key, held in raw.items() if key != "update_id" and held), "update")
    place = f"{where}.{kind}" if where else kind
    yield from fields.guarded(place, _item(raw, kind, place))


def _item(raw: dict[str, Any], kind: str, where: str) -> Iterator[Event]:
    if "update_id" not in raw:
        yield from _message(raw, where, edits=bool(raw.get("edit_date")), is_own=True)
        return
    if kind not in _READ:
        yield UPDATES.by_name(where, kind) or fields.not_kept(where, kind)
        return
    held = _object(raw[kind], where)
    if kind == _MEMBER:
        yield from _changed_member(held, where)
    elif kind == _OWN_MEMBER:
        yield _chat(held)
        yield fields.not_kept(where, kind)
    elif kind == _DELETED:
        chat = _chat(held)
        for message_id in fields.list_of(held.get("message_ids"), "message_ids"):
            yield fields.deletion(where, chat.chat_id, message_id, "message_ids")
    else:
        yield from _message(held, where, edits=kind in _EDITS)


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no JSON object")  # noqa: TRY004  it is the sender's value that is wrong
    return value


def _chat(raw: dict[str, Any]) -> ChatIn:
    chat = _object(raw.get("chat"), "chat")
    plain_id = f"telegram:{fields.id_of(chat.get('id'), 'chat.id')}"
    # the chats of a business account are not those that its customers have with the bot
    connection = raw.get("business_connection_id")
    chat_id = f"{plain_id}@{fields.id_of(connection, 'business_connection_id')}" if connection else plain_id
    if topic := fields.dict_of(raw.get("direct_messages_topic")):
        # each subscriber of a channel talks with it alone
        topic_id = fields.id_of(topic.get("topic_id"), "direct_messages_topic.topic_id")
        return fields.chat_of("telegram", f"{plain_id}@{topic_id}", kind="direct")
    if (alone := _alone_with(raw, chat)) is not None:
        return fields.chat_of(
            "telegram", f"{plain_id}@{fields.id_of(alone, 'receiver_user.id')}", kind="direct"
        )
    # a direct chat has no title but a person's name, which would stay when they are forgotten
    kind: ChatKind = "direct" if chat.get("type") == "private" else "group"
    return fields.chat_of("telegram", chat_id, kind=kind, title=fields.text_of(chat.get("title")))


def _alone_with(raw: dict[str, Any], chat: dict[str, Any]) -> object:
    """Return the id of whoever alone sees a message of a chat besides the bot; None if the whole chat does.

    Ephemeral messages are one person's in a group; a guest is called into somebody's direct chat with another person,
    of which the id may be that of the other's chat with the bot.
    """
    sender, receiver = fields.dict_of(raw.get("from")), fields.dict_of(raw.get("receiver_user"))
    if "ephemeral_message_id" in raw:
        return (receiver if sender.get("is_bot") is True else sender).get("id")
    if raw.get("guest_query_id") and chat.get("type") == "private":
        return sender.get("id")
    return None


def _id(raw: dict[str, Any]) -> object:
    """Return the id of a message; that of an ephemeral one is another's when it has expired."""
    ephemeral = raw.get("ephemeral_message_id")
    return raw.get("message_id") if ephemeral is None else f"{ephemeral}.{raw.get('date')}"


def _message(raw: dict[str, Any], where: str, *, edits: bool, is_own: bool = False) -> Iterator[Event]:
    chat = _chat(raw)
    yield chat
    for field in ("migrate_to_chat_id", "migrate_from_chat_id"):
        if raw.get(field):
            other = f"telegram:{fields.id_of(raw[field], field)}"
            former, new = (chat.chat_id, other) if field == "migrate_to_chat_id" else (other, chat.chat_id)
            yield NewChatId(where=where, chat_id=former, to=new)
            return
    came, left = fields.dicts_of(raw.get("new_chat_members")), fields.dicts_of([raw.get("left_chat_member")])
    if came or left:
        at = fields.time_of(raw.get("date"), "date")
        yield MemberChange(where=where, chat_id=chat.chat_id, joined=_people(came), left=_people(left), at=at)
        return
    if raw.get("new_chat_title"):
        return
    held = {field: value for field, value in raw.items() if value not in (None, False, "", [], {})}
    # a service message may hold nothing but its name
    named = [field for field, value in raw.items() if field in held or value == {}]
    reported = [report for field in named if (report := KINDS.by_name(where, field)) is not None]
    skipped = [report for report in reported if isinstance(report, Skipped)]
    yield from skipped[:1] or reported
    if skipped:
        return
    record = _record(held, where, chat, is_own=is_own)
    if isinstance(record, Skipped) and reported:
        return
    yield from fields.edited(record, raw.get("edit_date")) if edits else [record]


def _record(raw: dict[str, Any], where: str, chat: ChatIn, *, is_own: bool) -> ReadMessage:
    person, in_name_of = fields.dict_of(raw.get("from")), fields.dict_of(raw.get("sender_chat"))
    # of a person's message that is passed on by itself, the person is told
    is_bot = person.get("is_bot", is_own) is True and (is_own or not in_name_of)
    by_bot = is_bot or bool(raw.get("sender_business_bot"))
    # a channel's post, or what an anonymous administrator writes, is the chat's own
    sender = in_name_of or person or fields.dict_of(raw.get("chat"))
    external_id = fields.id_of(_id(raw), "message_id")
    topic = raw.get("message_thread_id") if raw.get("is_topic_message") else None
    answers = fields.dict_of(raw.get("reply_to_message"))
    answered = _id(answers) if _is_here(answers, raw) else None
    return fields.read_message(
        where,
        chat.chat_id,
        text=_text(raw),
        media=_media(raw),
        metadata=_metadata(raw),
        external_id=external_id,
        sender_id=f"telegram:{fields.id_of(sender.get('id'), 'from.id')}",
        sender_name=fields.name_of(sender.get("title")) or _name(sender),
        role="assistant" if by_bot else "user",
        sent_at=raw.get("date"),
        position=int(external_id) % (MAX_POSITION + 1) if external_id.isdecimal() else 0,
        # what stands in a topic answers its beginning
        reply_to=None if answered is None or answered == topic else answered,
        thread=topic,
    )


def _name(person: dict[str, Any]) -> str:
    names = (fields.text_of(person.get(field)) for field in ("first_name", "last_name"))
    return fields.name_of(" ".join(filter(None, names)), person.get("username"))


def _people(people: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(
        f"telegram:{fields.id_of(person.get('id'), 'the id of a member')}"
        for person in people
        if not person.get("is_bot")
    )


def _is_here(answered: dict[str, Any], raw: dict[str, Any]) -> bool:
    return fields.dict_of(answered.get("chat")).get("id") in (None, fields.dict_of(raw.get("chat")).get("id"))


def _quotation(raw: dict[str, Any]) -> str:
    """Return what a message quotes, or answers in another chat, as a quotation."""
    here, outside = fields.dict_of(raw.get("reply_to_message")), fields.dict_of(raw.get("external_reply"))
    text = fields.text_of(fields.dict_of(raw.get("quote")).get("text"))
    if outside:
        text = text or "\n".join(filter(None, (_text(outside), fields.with_media("", _media(outside)))))
    elif here and not _is_here(here, raw):
        text = text or fields.with_media(_text(here), _media(here))
    author = fields.dict_of(here.get("sender_chat")) or fields.dict_of(here.get("from"))
    by = _origin(outside.get("origin")) or fields.name_of(author.get("title")) or _name(author)
    return contents.quoted(text, by)


def _text(raw: dict[str, Any]) -> str:
    texts = [_quotation(raw), fields.text_of(raw.get("text")) or fields.text_of(raw.get("caption"))]
    texts.append(contents.words(raw.get("rich_message")))
    if isinstance(poll := raw.get("poll"), dict):
        options = [
            (option.get("text"), option.get("voter_count")) for option in fields.dicts_of(poll.get("options"))
        ]
        texts.append(poll_text(poll.get("question"), options, voted=bool(poll.get("total_voter_count"))))
    if place := fields.dict_of(raw.get("venue")) or fields.dict_of(raw.get("location")):
        point = fields.dict_of(place.get("location")) or place
        names = (place.get("title"), place.get("address"))
        texts.append(contents.location(point.get("latitude", ""), point.get("longitude", ""), *names))
    texts += KINDS.texts(raw)
    texts.append(contents.answers(fields.dict_of(raw, "web_app_data").get("data")))
    person = fields.dict_of(raw.get("contact"))
    texts.append(contents.card(_name(person), person.get("phone_number")))
    return "\n".join(filter(None, texts))


def _media(raw: dict[str, Any]) -> list[dict[str, str]]:
    if contact := fields.dict_of(raw.get("contact")):
        return [fields.attachment("contact", _name(contact))]
    # an animation comes as a document, too
    for field, kind in KINDS.media.items():
        if held := raw.get(field):
            file = fields.dict_of(held)
            item = fields.attachment(kind, fields.name_of(file.get("file_name")))
            emoji = fields.name_of(file.get("emoji"))
            return [item | {"emoji": emoji} if emoji else item]
    return []


def _origin(origin: object) -> str:
    """Return the name of the person or chat that a message is from."""
    held = fields.dict_of(origin)
    by = next(filter(None, (fields.dict_of(held.get(field)) for field in _ORIGINS)), {})
    return fields.name_of(held.get("sender_user_name"), by.get("title"), _name(by))


def _metadata(raw: dict[str, Any]) -> dict[str, str]:
    metadata = {}
    if origin := fields.dict_of(raw.get("forward_origin")):
        metadata[FORWARDED] = _origin(origin)
    if bot := fields.name_of(fields.dict_of(raw, "via_bot").get("username")):
        metadata["via_bot"] = f"@{bot}"
    return metadata


def _changed_member(raw: dict[str, Any], where: str) -> Iterator[Event]:
    chat = _chat(raw)
    yield chat
    new = _object(raw.get("new_chat_member"), "new_chat_member")
    was_inside, is_inside = _is_inside(fields.dict_of(raw, "old_chat_member")), _is_inside(new)
    people = _people([_object(new.get("user"), "new_chat_member.user")])
    if was_inside == is_inside or not people:
        yield fields.not_kept(where, _MEMBER)
        return
    at = fields.time_of(raw.get("date"), "date")
    yield fields.moved_in_or_out(where, chat.chat_id, people, came=is_inside, at=at)


def _is_inside(member: dict[str, Any]) -> bool:
    status = member.get("status")
    return status in _INSIDE or (status == "restricted" and member.get("is_member") is True)
