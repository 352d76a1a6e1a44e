"""Parse a chat that KakaoTalk saves as text (a phone, or a PC) or as CSV (a Mac), in Korean or English.

People have only names, and times are those of the phone that saved it.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import chain

from pipeline.platforms import dates, fields, jsonlines
from pipeline.platforms.identity import sender_by_name
from pipeline.platforms.platform import ExportFormat, FilePlace, Shape
from pipeline.platforms.records import Broken, ImportOptions, Parsed, Skipped

_DATE = r"(?:\d{4}[년.] ?\d{1,2}[월.] ?\d{1,2}[일.]?|[A-Z][a-z]+ \d{1,2}, \d{4})"
_CLOCK = r"(?:[오상하][전후] ?)?\d{1,2}:\d\d(?::\d\d)?(?:\s?[AaPp][Mm])?"
# a phone's line has its date, a PC's stands below it
_PHONE = re.compile(
    rf"(?P<moment>{_DATE},?(?: at)? {_CLOCK})(?:, (?P<sender>.+?) : (?P<text>.*)|[:,] (?P<note>.*))?"
)
_PC = re.compile(rf"\[(?P<sender>.+?)\] \[(?P<clock>{_CLOCK})\] ?(?P<text>.*)")
_DAY = re.compile(rf"-{{5,}} (?P<day>.*\d.*) -{{5,}}|{_DATE}(?: \w+)?")
_CSV = re.compile(r'\ufeff?"?Date"?,"?User"?,"?Message"?')
_TITLE = re.compile(
    r"\ufeff?(?:KakaoTalk Chats? with |Talk_)?(?P<name>.+?)(?: \d+)?(?: 님과)?(?: with KakaoTalk Chats| 카카오톡 대화)?"
)
_SAVED = re.compile(r"(?:저장한 날짜|Date Saved) ?:")
_SENT = {
    "image": "사진(?: \\d+장)?|Photos?|\\d+ Photos",
    "video": "동영상|Video",
    "audio": "음성메시지|Voice Note",
    "sticker": "이모티콘|\\(이모티콘\\)|Emoticons?|Stickers?",
    "contact": "연락처|Contact",
}
_PLACEHOLDER = re.compile("|".join(f"(?P<{kind}>{words})" for kind, words in _SENT.items()))
_FILE = re.compile(r"(?:파일|File): (?P<name>\S.*)")
_DELETED = re.compile(r"삭제된 메시지입니다\.?|This message (?:was|has been) deleted\.?")

# on a PC a line of its own below a message, on a Mac somebody's message
_SYSTEM = re.compile(
    r".+님이 (?:나갔습니다|들어왔습니다|.+님을 초대(?:했|하였)습니다)\.?"
    r"|.+ (?:left|joined|invited .+ to) this chatroom\.?"
)

_Entry = tuple[str, datetime, str, str]


def parse(lines: Iterable[str], options: ImportOptions) -> Iterator[Parsed]:
    """Parse the chat and its messages; `command.chat_id`, the file's first line or `title` name it."""
    source = iter(lines)
    first = next(source, "")
    title = _TITLE.fullmatch(first.strip()) if not _begins(first) and not _CSV.match(first) else None
    named = fields.name_of(options.title, title and title["name"], options.file_name)
    if not (options.chat_id or named):
        yield Broken(where="the file", reason="nothing says which chat this is: name it with --chat")
        return
    chat_id = fields.with_platform("kakaotalk", options.chat_id or named)
    reader = jsonlines.Reader(replace(options, chat_id=None))
    yield from reader.read_chat("the chat", chat_id, "kakaotalk", named, by_clock=True)
    for item in _rows(source) if _CSV.match(first) else _entries(chain([first], source)):
        if not isinstance(item, tuple):
            yield item
            continue
        where, sent_at, sender, text = item
        plain, name = text.strip(), fields.name_of(sender)
        if _DELETED.fullmatch(plain) or _SYSTEM.fullmatch(plain):
            reason = "system line" if _SYSTEM.fullmatch(plain) else "deleted message"
            yield Skipped(where=where, reason=reason)
            continue
        sent, file = _PLACEHOLDER.fullmatch(plain), _FILE.fullmatch(plain)
        media = [fields.attachment(str(sent.lastgroup), "")] if sent else []
        media += fields.file_attachments([file["name"]]) if file else []
        yield from reader.read_message(
            where,
            text="" if media else plain,
            media=media,
            sender_id=sender_by_name("kakaotalk", chat_id, name),
            sender_name=name,
            sent_at=sent_at.isoformat(),
        )


def _begins(line: str) -> re.Match[str] | None:
    return _PHONE.fullmatch(line) or _PC.fullmatch(line) or _DAY.fullmatch(line.strip())


def _rows(lines: Iterator[str]) -> Iterator[_Entry | Skipped | Broken]:
    """Yield the messages of CSV; a text may have several lines."""
    rows = csv.reader(f"{line}\n" for line in lines)
    while True:
        try:
            row = next(rows)
            where, (at, sender, text) = f"line {rows.line_num + 1}", row
            problem = next(filter(None, map(fields.unreadable, row)), None)
            entry = (where, datetime.fromisoformat(at), sender, text)
            yield Broken(where=where, reason=problem) if problem else entry
        except StopIteration:
            return
        except (ValueError, csv.Error) as error:
            yield Broken(
                where=f"line {rows.line_num + 1}", reason=f"is no row of date, user and message: {error}"
            )


def _entries(lines: Iterable[str]) -> Iterator[_Entry | Skipped | Broken]:
    day = None
    for number, line, more in fields.joined(
        lines, lambda line: _begins(line) or _SYSTEM.fullmatch(line.strip())
    ):
        where, begins = f"line {number}", _begins(line)
        found = begins.groupdict() if begins else {"note": line}
        if problem := fields.unreadable(line):
            yield Broken(where=where, reason=problem)
        elif begins and "moment" not in found and "clock" not in found:
            day = dates.start_of(found["day"] or line)
        elif found.get("text") is None:
            # somebody came or left; a phone writes a time alone above each day, too
            yield from [Skipped(where=where, reason="system line")] if found["note"] else []
        else:
            date, clock = day, dates.clock_of(found.get("moment") or found["clock"])
            at = dates.moment_of(found["moment"]) if "moment" in found else None
            if at is None and date is not None and clock is not None:
                at = datetime.combine(dates.day_of(date, "ymd"), clock)
            if at is None:
                yield Broken(where=where, reason="stands below no date, or has none that can be read")
            else:
                yield where, at, found["sender"], "\n".join([found["text"], *more])


def _placed(options: ImportOptions, place: FilePlace) -> ImportOptions:
    """Name the chat of a CSV by its file, `KakaoTalk_Chat_Trip_2026-03-01-10-11-12.csv`."""
    stem = place.member.rpartition("/")[2].rpartition(".")[0]
    named = re.sub(r"^KakaoTalk(?:_Chats?)?_?|_?\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d$", "", stem)
    return replace(options, file_name=named or stem)


FORMAT = ExportFormat(
    name="kakaotalk",
    of_lines=parse,
    placed=_placed,
    looks=(
        Shape(head=_CSV.pattern),
        Shape(head=rf"\A[^\n]*\n{_SAVED.pattern}"),
        Shape(lines=rf"{_DATE},?(?: at)? {_CLOCK}(?:,|$)"),
        Shape(lines=_PC.pattern),
    ),
)
