"""Parse the history of a chat that LINE's apps save as text, in the language and with the dates of the phone.

People have only names, and times are by the clock of whoever saved it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

from pipeline.platforms import dates, fields, jsonlines
from pipeline.platforms.identity import sender_by_name
from pipeline.platforms.records import Ambiguous, Broken, DateOrder, ImportOptions, Parsed, Skipped
from pipeline.platforms.shapes import ExportFormat, Place, Shape
from pipeline.platforms.whatsapp import whatsapp_time

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


def parse(lines: Iterable[str], options: ImportOptions) -> Iterator[Parsed]:
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
        yield Ambiguous(examples=tuple(whatsapp_time.examples(days)))
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

    def dated(line: str) -> whatsapp_time.Start | None:
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


def _placed(options: ImportOptions, place: Place) -> ImportOptions:
    """Name a chat whose file has no title by the file."""
    stem = place.member.rpartition("/")[2].rpartition(".")[0].removeprefix("[LINE]").strip()
    return options if options.title else replace(options, file_name=stem)


FORMAT = ExportFormat(
    name="line",
    of_lines=parse,
    placed=_placed,
    looks=(Shape(head=r"\A\[LINE\]"), Shape(lines=rf"{_CLOCK}\t[^\t]*(?:\t|$)")),
)
