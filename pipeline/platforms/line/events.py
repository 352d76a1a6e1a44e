"""Parse webhooks of LINE's Messaging API, each a batch: they hold ids and no names, and none of a bot's own messages.

What LINE sends again has the ids of its messages again. A channel on standby hears what another answers.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from pipeline.platforms import contents, fields, kinds
from pipeline.platforms.fields import dict_of, text_of
from pipeline.platforms.platform import Platform, by_signature, in_base64
from pipeline.platforms.records import Account, Event, MemberChange, ReadMessage
from schemas.errors import InvalidInput
from schemas.messages import ChatIn

KINDS = kinds.load("line")
_KINDS_OF_CHAT = {"user": "direct", "group": "group", "room": "group"}


def parse(value: Any) -> Iterator[Event]:
    """Parse a webhook's body, of which the test has no events. Raises `InvalidInput` for anything else."""
    events = value.get("events") if isinstance(value, dict) else None
    if not isinstance(events, list):
        raise InvalidInput("the body is no webhook of LINE: events is missing or no list", field="events")
    account = ""
    if bot := value.get("destination"):
        account = fields.id_of(bot, "destination")
        yield Account(where="destination", platform="line", account=account)
    yield from fields.each_of(events, "events", partial(_event, account=f"@{account}" if account else ""))


def _event(raw: dict[str, Any], where: str, account: str) -> Iterator[Event]:
    kind, source = fields.id_of(raw.get("type"), "type"), {**dict_of(raw.get("source")), "account": account}
    match kind:
        case "message":
            yield from _message(raw, dict_of(raw.get("message")), where, _chat(source), source)
        case "messageEdited":
            message = dict_of(raw.get("message"))
            text, media = _content(fields.id_of(message.get("type"), "message.type"), message)
            yield fields.edit_alone(
                where,
                _chat(source).chat_id,
                fields.id_of(message.get("id"), "message.id"),
                fields.with_media(text, media),
                raw.get("timestamp"),
                sender_id=_by(source),
            )
        case "unsend":
            message_id = dict_of(raw.get("unsend")).get("messageId")
            yield fields.deletion(
                where, _chat(source).chat_id, message_id, "unsend.messageId", by=_by(source)
            )
        case "memberJoined" | "memberLeft":
            chat, at = _chat(source), fields.time_of(raw.get("timestamp"), "timestamp")
            came = kind == "memberJoined"
            listed = dict_of(raw.get("joined" if came else "left")).get("members")
            people = tuple(_person(member) for member in fields.dicts_of(listed))
            yield chat
            changed = {"joined": people} if came else {"left": people}
            yield MemberChange(where=where, chat_id=chat.chat_id, at=at, **changed)
        case "postback":
            yield from _postback(raw, where, _chat(source), source)
        case _:
            yield KINDS.by_name(where, kind) or fields.not_kept(where, kind)


def _chat(source: dict[str, Any]) -> ChatIn:
    kind = str(source.get("type"))
    key = fields.id_of(source.get(f"{kind}Id"), f"source.{kind}Id")
    if kind == "user":
        # a person has one id with all bots of a provider
        key += source["account"]
    return ChatIn.model_validate(
        {"chat_id": f"line:{key}", "platform": "line", "kind": _KINDS_OF_CHAT.get(kind)}
    )


def _person(source: dict[str, Any]) -> str:
    return f"line:{fields.id_of(source.get('userId'), 'source.userId')}"


def _by(source: dict[str, Any]) -> str | None:
    """Return who changes a message; None if LINE, which has seen to it that they may, does not tell."""
    return _person(source) if source.get("userId") else None


def _message(
    raw: dict[str, Any], message: dict[str, Any], where: str, chat: ChatIn, source: dict[str, Any]
) -> Iterator[Event]:
    kind = fields.id_of(message.get("type"), "message.type")
    text, media = _content(kind, message)
    said = {"text": text, "media": media, "reply_to": message.get("quotedMessageId")}
    yield from KINDS.events(
        where, kind, chat, lambda: [_record(raw, where, chat, source, message.get("id"), **said)]
    )


def _content(kind: str, message: dict[str, Any]) -> tuple[str, list[dict[str, str]]]:
    """Return the text of a message, and what is attached to it."""
    if kind in KINDS.media:
        # somebody may have written on a sticker of their own
        text = text_of(message.get("text")) if kind == "sticker" else ""
        return text, [fields.attachment(KINDS.media[kind], fields.name_of(message.get("fileName")))]
    if kind == "location":
        names = (message.get("title"), message.get("address"))
        return contents.location(message.get("latitude", ""), message.get("longitude", ""), *names), []
    return text_of(message.get("text")) if kind == "text" else contents.labelled(kind, message), []


def _postback(raw: dict[str, Any], where: str, chat: ChatIn, source: dict[str, Any]) -> Iterator[Event]:
    """Yield what somebody chose of a date picker or a menu; the data of a button are the bot's own."""
    chosen = dict_of(raw.get("postback", {}), "params")
    text = next(filter(None, (text_of(chosen.get(name)) for name in ("datetime", "date", "time"))), "")
    if not text:
        yield fields.not_kept(where, "postback")
        return
    yield chat
    yield _record(raw, where, chat, source, raw.get("webhookEventId"), text=text, media=[])


def _record(
    raw: dict[str, Any], where: str, chat: ChatIn, source: dict[str, Any], own_id: object, **said: Any
) -> ReadMessage:
    return fields.read_message(
        where,
        chat.chat_id,
        metadata={},
        external_id=fields.id_of(own_id, "message.id"),
        # in a group LINE does not tell who does not agree to it
        sender_id=_by(source) or f"line:unknown@{chat.chat_id.removeprefix('line:')}",
        sent_at=raw.get("timestamp"),
        **said,
    )


PLATFORM = Platform(parse=parse, proof=by_signature("x-line-signature", in_base64), max_bytes=2**20)
