"""Parse webhooks of LINE's Messaging API, and the history of a chat that LINE's apps save as text.

Webhooks are batches: they hold ids and no names, and none of a bot's own messages. What LINE sends again has the ids of
its messages again. A channel on standby hears what another answers.

A history is in the language and with the dates of the phone: people have only names, and times are those of the
phone that saved it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

from pipeline.platforms import contents, dates, fields, jsonlines, kinds
from pipeline.platforms.fields import dict_of, text_of
from pipeline.platforms.identity import sender_by_name
from pipeline.platforms.platform import ExportFormat, FilePlace, Platform, Shape, by_signature, in_base64
from pipeline.platforms.records import (
    Ambiguous,
    BotAccount,
    Broken,
    DateOrder,
    Event,
    ImportOptions,
    MemberChange,
    Parsed,
    ReadMessage,
    Skipped,
)
from schemas.errors import InvalidInput
from schemas.messages import ChatIn

KINDS = kinds.load("line")
_KINDS_OF_CHAT = {"user": "direct", "group": "group", "room": "group"}


def parse_webhook(value: Any) -> Iterator[Event]:
    """Parse a webhook's body, of which the test has no events. Raises `InvalidInput` for anything else."""
    events = value.get("events") if isinstance(value, dict) else None
    if not isinstance(events, list):
        raise InvalidInput("the body is no webhook of LINE: events is missing or no list", field="events")
    account = ""
    if bot := value.get("destination"):
        account = fields.id_of(bot, "destination")
        yield BotAccount(where="destination", platform="line", account=account)
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


PLATFORM = Platform(parse=parse_webhook, proof=by_signature("x-line-signature", in_base64), max_bytes=2**20)

_HEAD_LINES = 10_000
_CLOCK = r"(?:[^\d\t\n]{1,8})?\d{1,2}[:.]\d\d(?: ?[^\d\t\n]{1,6})?"
_MESSAGE = re.compile(rf"(?P<clock>{_CLOCK})\t(?P<sender>[^\t]*)(?:\t(?P<text>.*))?")
# the date alone, with its weekday before or after it
_DAY = re.compile(
    r"(?:[^\d\t]{1,14}\s)?\d{1,4}\s?[./年-]\s?\d{1,2}\s?[./月-]\s?\d{1,4}日?\.?(?:,?\s*[(（]?[^\d\t:()（）]{1,14}[)）]?)?"
)
# of the title that files of all languages begin with, what stands around the chat's name
_TITLE = re.compile(
    r"\[LINE\]\s*(?:Chat history (?P<kind>with|in) |ประวัติการ(?:สนทนา|แชท)(?:กับ|ใน)\s*|与|與)?(?P<name>.+?)"
    r"(?:との?トーク履歴|のトーク履歴|(?:的|님과의 |와의 )?(?:聊天[记記][录錄]|대화))?$"
)
# what stands for something sent, in each language of the app
_SENT = {
    "sticker": "sticker|スタンプ|貼圖|贴图|表情|สติกเกอร์|스티커",
    "image": "photo|写真|照片|圖片|图片|รูป|ภาพ|사진",
    "video": "video|動画|影片|视频|วิดีโอ|동영상",
    "audio": "voice message|ボイスメッセージ|語音訊息|语音信息|ข้อความเสียง|음성메시지",
    "document": "file|ファイル|檔案|文件|ไฟล์|파일",
    "contact": "contact|連絡先|聯絡資訊|รายชื่อ|연락처",
    "media": "album|アルバム|相簿|相册|อัลบั้ม|앨범",
}
_PLACEHOLDER = re.compile(
    r"\[(?:" + "|".join(f"(?P<{kind}>{words})" for kind, words in _SENT.items()) + r")\]", re.IGNORECASE
)


def parse_history(lines: Iterable[str], options: ImportOptions) -> Iterator[Parsed]:
    """Parse the chat and its messages; `command.chat_id`, the file's first line or `title` name it."""
    source = iter(lines)
    head = list(islice(source, _HEAD_LINES))
    title = _TITLE.match(head[0].removeprefix("\ufeff").strip()) if head else None
    named = fields.name_of(options.title, title and title["name"], options.file_name)
    if not (options.chat_id or named):
        yield Broken(where="the file", reason="nothing says which chat this is: name it with --chat")
        return
    form = next((_form(line) for line in head if _DAY.fullmatch(line.strip())), "")
    days = [start for line in head if _form(line) == form and (start := dates.start_of(line))]
    order = options.date_order or ("ymd" if not days else dates.order_of(days))
    if order is None:
        yield Ambiguous(examples=tuple(dates.examples(days)))
        return
    chat_id = fields.with_platform("line", options.chat_id or named)
    reader = jsonlines.Reader(replace(options, chat_id=None))
    grouped = True if title and title["kind"] == "in" else None
    yield from reader.read_chat("the chat", chat_id, "line", named, grouped=grouped, by_clock=True)
    for item in _entries(chain(head, source), form, order):
        if not isinstance(item, tuple):
            yield item
            continue
        where, sent_at, sender, text = item
        name, placeholder = fields.name_of(sender), _PLACEHOLDER.fullmatch(text.strip())
        yield from reader.read_message(
            where,
            text="" if placeholder else text.strip(),
            media=[fields.attachment(str(placeholder.lastgroup), "")] if placeholder else [],
            sender_id=sender_by_name("line", chat_id, name),
            sender_name=name,
            sent_at=sent_at,
        )


def _entries(
    lines: Iterable[str], form: str, order: DateOrder
) -> Iterator[tuple[str, str, str, str] | Skipped | Broken]:
    """Yield place, local time, sender and text of messages; others are noted. Lines after one go on with it."""
    day = None

    def dated(line: str) -> dates.Start | None:
        return dates.start_of(line) if _form(line) == form else None

    for number, line, more in fields.joined(lines, lambda line: _MESSAGE.fullmatch(line) or dated(line)):
        where, message = f"line {number}", _MESSAGE.fullmatch(line)
        if message is None:
            try:
                day = dates.day_of(start, order) if (start := dated(line)) else None
            except ValueError as error:
                day = None
                yield Broken(where=where, reason=f"{line.strip()} is no date in the order {order}: {error}")
            continue
        clock = dates.clock_of(message["clock"])
        if (problem := fields.unreadable(line)) or day is None or clock is None:
            yield Broken(where=where, reason=problem or "stands below no date, or has no time")
        elif message["text"] is None or not message["sender"].strip():
            yield Skipped(where=where, reason="system line")
        else:
            text = _unquoted("\n".join([message["text"], *more]))
            yield where, f"{day}T{clock}", message["sender"], text


def _form(line: str) -> str:
    """Return what all lines with a date of a file have in common, which a text with a date rarely has.

    >>> _form("2026/03/03(Tue)"), _form("by 3/3/2026"), _form("Wir treffen uns.")
    ('0/0/0()', ' 0/0/0', '')
    """
    plain = line.strip()
    return re.sub(r"[^0\s/.,()（）年月日-]", "", re.sub(r"\d+", "0", plain)) if _DAY.fullmatch(plain) else ""


def _unquoted(text: str) -> str:
    # a text of several lines stands in quotes
    inner = text.rstrip()
    return inner[1:-1].replace('""', '"') if "\n" in inner and inner[0] == inner[-1] == '"' else text


def _placed(options: ImportOptions, place: FilePlace) -> ImportOptions:
    """Name a chat whose file has no title by the file."""
    stem = place.member.rpartition("/")[2].rpartition(".")[0].removeprefix("[LINE]").strip()
    return options if options.title else replace(options, file_name=stem)


FORMAT = ExportFormat(
    name="line",
    of_lines=parse_history,
    placed=_placed,
    looks=(Shape(head=r"\A\[LINE\]"), Shape(lines=rf"{_CLOCK}\t[^\t]*(?:\t|$)")),
)
