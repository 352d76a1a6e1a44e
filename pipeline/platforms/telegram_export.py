"""Parse Telegram Desktop's `result.json`, of one chat or of all.

Ids are the Bot API's, so that a chat or person seen live and imported is one: `telegram:-100…` for supergroups and
channels, `telegram:-…` for basic groups, `telegram:11` for people. Message ids are the bot's only in supergroups and
channels: any other chat that is both imported and seen live is stored twice.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import IO, Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from pipeline.platforms import contents, fields, json_stream, kinds
from pipeline.platforms.platform import ExportFormat, Shape
from pipeline.platforms.records import NO_TEXT, Broken, ImportOptions, Notice, Parsed, Skipped, Times
from schemas.messages import FORWARDED, MAX_POSITION, ChatIn, ChatKind

# one chat's export has its messages at the top; that of all has a list of chats, and one of chats left
_LISTS = {
    "messages.item": "",
    "chats.list.item.messages.item": "chats.list.item",
    "left_chats.list.item.messages.item": "left_chats.list.item",
    "stories.item": "stories",
}
_DIRECT = frozenset(("personal_chat", "bot_chat", "saved_messages", "verification_codes", "replies"))
_BOT_API_PREFIX = {
    **dict.fromkeys(("private_supergroup", "public_supergroup", "private_channel", "public_channel"), "-100"),
    "private_group": "-",
}
_MEDIA_TYPES = {
    "sticker": "sticker",
    "animation": "image",
    "video_file": "video",
    "video_message": "video",
    "voice_message": "audio",
    "audio_file": "audio",
}
"""Positions are message ids below this number: they order the messages of one second."""
_KINDS, _ACTIONS = kinds.load("telegram"), kinds.load("telegram_service")


def parse(stream: IO[bytes], options: ImportOptions) -> Iterator[Parsed]:
    """Parse chats and their messages; `command.chat_id` names the chat of a single-chat export."""
    header: Mapping[str, Any] | None = None
    reader: _TelegramReader | None = None
    said_times = said_zone = False
    for item in json_stream.walk(stream, _LISTS):
        if isinstance(item, Broken):
            yield item
            continue
        if item.around == "stories" and (unread := _KINDS.report(f"stories[{item.index}]", "stories")):
            yield unread
            continue
        if item.around and options.chat_id:
            yield Notice(text="The export names its chats itself; --chat is not used.")
            options = replace(options, chat_id=None)
        if item.header is not header:
            header, reader = item.header, None
        where = f"{_title(header)}, messages[{item.index}]" if item.around else f"messages[{item.index}]"
        if reader is None:
            try:
                reader = _TelegramReader(header, options)
            except ValidationError as error:
                yield Broken(where=where, reason=f"its chat has no usable id: {fields.sentence(error)}")
                continue
            yield reader.chat
        value, zone = item.value, reader.chat.time_zone
        if not said_times and isinstance(value, dict) and "date_unixtime" in value:
            said_times = True
            yield _times(value, zone)
        if not said_zone and _lacks_instant(value):
            said_zone = True
            yield Times(text=f"read by the clock of {zone or 'UTC'}: this old export has no others")
            if zone is None:
                yield Notice(
                    text="This old export writes times without a zone; they are read as UTC. Say --tz."
                )
        yield from reader.read(value, where)


_MESSAGE = "id type date|date_unixtime"
FORMAT = ExportFormat(
    name="telegram",
    of_bytes=parse,
    looks=(
        Shape(keys={"": "messages", "messages.item": _MESSAGE}),
        Shape(keys={"*chats.list.item.messages.item": _MESSAGE}),
        Shape(keys={"": "personal_information"}),
        Shape(keys={"": "about chats|left_chats|contacts|stories|sessions"}),
        # of a chat without messages
        Shape(
            keys={"": "type messages"},
            head=r'"type":\s*"(?:\w+_(?:chat|group|supergroup|channel)|saved_messages|replies|verification_codes)"',
        ),
    ),
)


def _title(header: Mapping[str, Any]) -> str:
    return fields.name_of(header.get("name")) or f"chat {header.get('id', '?')}"


def _lacks_instant(raw: object) -> bool:
    return isinstance(raw, dict) and raw.get("type") == "message" and "date_unixtime" not in raw


def _times(raw: dict[str, Any], zone: str | None) -> Times:
    """Describe how the times are read, and the exporter's clock as far as a message shows it."""
    try:
        ahead = datetime.fromisoformat(raw["date"]) - datetime.fromtimestamp(
            int(raw["date_unixtime"]), UTC
        ).replace(tzinfo=None)
        offset = f"; the clock of whoever exported was UTC{fields.in_hours(ahead)} at {raw['date']}"
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        offset = ""
    # an offset names no zone, and without one nobody knows it in another season
    return fields.exact_times("from the file's Unix times", zone, offset)


class _TelegramReader:
    """Reads the messages of one chat."""

    def __init__(self, header: Mapping[str, Any], options: ImportOptions) -> None:
        chat_type = str(header.get("type", ""))
        raw_id = header.get("id")
        # saved messages have no id of their own in some versions
        own_id = "" if raw_id is None else _BOT_API_PREFIX.get(chat_type, "") + str(raw_id).removeprefix("-")
        kind: ChatKind = "direct" if chat_type in _DIRECT else "group"
        title = fields.name_of(header.get("name")) or (
            "Saved messages" if chat_type == "saved_messages" else ""
        )
        self.chat: ChatIn = fields.chat_of(
            "telegram", options.chat_id or own_id or chat_type, options, kind=kind, title=title
        )
        # the topic of each message of a forum
        self._topics: dict[int, int] = {}
        self._bot = f"user{raw_id}" if chat_type == "bot_chat" else None

    def read(self, raw: Any, where: str) -> Iterator[Parsed]:
        if not isinstance(raw, dict):
            yield Broken(where=where, reason="is no JSON object")
            return
        if raw.get("action") == "topic_created" and isinstance(topic := raw.get("id"), int):
            self._topics[topic] = topic
        message = self._message(raw, where)
        no_text = isinstance(message, Skipped)
        if raw.get("type") == "service":
            reported = [_ACTIONS.report(where, str(raw.get("action", "information_text")))]
        else:
            new = (field for field in raw if field not in _KINDS.fates) if no_text else _KINDS.unknown_in(raw)
            reported = [_KINDS.report(where, kind) for kind in (str(raw.get("type")), *new)]
        skipped = [report for report in reported if isinstance(report, Skipped)]
        unread = [report for report in reported if report is not None]
        yield from skipped or unread
        if not skipped and not (unread and no_text):
            yield message

    def _message(self, raw: dict[str, Any], where: str) -> Parsed:
        try:
            reply_to, thread = self._answered(raw)
            text, media = _text(raw), _media(raw)
            if not text and not media:
                return Skipped(where=where, reason=NO_TEXT)
            sender, own_id = raw.get("from_id", raw.get("actor_id")), _number(raw, "id")
            return fields.read_message(
                where,
                self.chat.chat_id,
                text=text,
                media=media,
                metadata=_metadata(raw),
                by_clock=_lacks_instant(raw),
                external_id=str(own_id),
                sender_id=_sender_id(sender),
                sender_name=fields.name_of(raw.get("from"), raw.get("actor")),
                role="assistant" if sender is not None and sender == self._bot else "user",
                sent_at=self._sent_at(raw),
                # ids rise with time and are the same in every export: the order within one second
                position=own_id % (MAX_POSITION + 1),
                reply_to=reply_to,
                thread=thread,
            )
        except KeyError as error:
            return Broken(where=where, reason=f"{error.args[0]} is missing")
        except (TypeError, ValueError, OverflowError, OSError) as error:
            return Broken(where=where, reason=str(error))

    def _answered(self, raw: dict[str, Any]) -> tuple[str | None, str | None]:
        """Return the `(message, topic)` that a message answers, both as the Bot API names them."""
        answered = raw.get("reply_to_message_id")
        if not isinstance(answered, int) or isinstance(answered, bool) or raw.get("reply_to_peer_id"):
            return None, None
        topic = self._topics.get(answered)
        if topic is None:
            return str(answered), None
        self._topics[_number(raw, "id")] = topic
        return (None if answered == topic else str(answered)), str(topic)

    def _sent_at(self, raw: dict[str, Any]) -> datetime:
        if "date_unixtime" in raw:
            return datetime.fromtimestamp(_number(raw, "date_unixtime"), UTC)
        local = datetime.fromisoformat(raw["date"])
        return (
            local if local.tzinfo else local.replace(tzinfo=ZoneInfo(self.chat.time_zone or "UTC"))
        ).astimezone(UTC)


def _number(raw: dict[str, Any], field: str) -> int:
    try:
        return int(raw[field])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{field} {raw[field]!r} is no number") from error


def _sender_id(raw: object) -> str:
    """Return the sender as the Bot API names it; old exports have bare numbers.

    >>> _sender_id("user11"), _sender_id("channel12"), _sender_id(13)
    ('telegram:11', 'telegram:-10012', 'telegram:13')
    """
    if raw is None or raw == "":
        raise ValueError("from_id is missing")
    text = str(raw)
    if text.startswith("channel"):
        return f"telegram:-100{text.removeprefix('channel')}"
    if text.startswith("chat"):
        return f"telegram:-{text.removeprefix('chat')}"
    return f"telegram:{text.removeprefix('user')}"


def _text(raw: dict[str, Any]) -> str:
    """Return a message's text, then what is written in the things sent with it."""
    if not isinstance(text := raw.get("text", ""), str | list):
        raise ValueError("text is neither a text nor a list of texts")  # noqa: TRY004  it is the file that is wrong
    texts = [contents.words(text, "text"), contents.words(raw.get("rich_message"))]
    person = fields.dict_of(raw.get("contact_information"))
    texts.append(contents.card(_full_name(person), person.get("phone_number")))
    if isinstance(poll := raw.get("poll"), dict):
        texts.append(_poll(poll))
    place = fields.dict_of(raw.get("location_information"))
    name = fields.name_of(raw.get("place_name"), raw.get("address"))
    if name or place:
        texts.append(f"[location {name or '{latitude}, {longitude}'.format_map(defaultdict(str, place))}]")
    if raw.get("type") == "service":
        action = str(raw.get("action"))
        texts.append(contents.labelled(_ACTIONS.words.get(action, action), _KINDS.unknown_in(raw)))
    else:
        texts += _KINDS.texts(raw)
    return "\n".join(filter(None, map(str.strip, texts)))


def _poll(raw: dict[str, Any]) -> str:
    answers = [(answer.get("text"), answer.get("voters")) for answer in fields.dicts_of(raw.get("answers"))]
    return poll_text(raw.get("question"), answers, voted=bool(raw.get("total_voters")))


def poll_text(question: object, answers: Iterable[tuple[object, object]], *, voted: bool) -> str:
    """Return a poll's question, and its `(answer, votes)`, with the votes if anybody `voted`."""
    counted = []
    for answer, voters in answers:
        took = f" ({voters} {'vote' if voters == 1 else 'votes'})" if voted else ""
        counted.append(f"{contents.words(answer, 'text')}{took if isinstance(voters, int) else ''}")
    return f"[poll] {contents.words(question, 'text')}: {' / '.join(counted)}"


def _media(raw: dict[str, Any]) -> list[dict[str, str]]:
    if "photo" in raw:
        return [_named("image", raw["photo"])]
    if "media_type" in raw:
        kind = _MEDIA_TYPES.get(str(raw["media_type"]), "media")
        item = _named(kind, raw.get("file_name") or raw.get("file"))
        if emoji := fields.name_of(raw.get("sticker_emoji")):
            item["emoji"] = emoji
        return [item]
    if "file" in raw:
        return [_named("document", raw.get("file_name") or raw["file"])]
    if isinstance(contact := raw.get("contact_information"), dict):
        return [fields.attachment("contact", _full_name(contact))]
    return []


def _full_name(person: dict[str, Any]) -> str:
    return " ".join(filter(None, (fields.text_of(person.get(part)) for part in ("first_name", "last_name"))))


def _named(kind: str, path: object) -> dict[str, str]:
    # "(File not included. Change data exporting settings to download.)" stands in place of a path
    name = path.rpartition("/")[2].strip() if isinstance(path, str) and not path.startswith("(") else ""
    return fields.attachment(kind, name)


def _metadata(raw: dict[str, Any]) -> dict[str, str]:
    metadata = {}
    if FORWARDED in raw:
        # null: of a deleted account
        metadata[FORWARDED] = fields.name_of(raw[FORWARDED])
    if isinstance(bot := raw.get("via_bot"), str):
        metadata["via_bot"] = bot
    if raw.get("edited_unixtime"):
        metadata["edited_at"] = datetime.fromtimestamp(_number(raw, "edited_unixtime"), UTC).isoformat()
    elif edited := raw.get("edited"):
        metadata["edited_at"] = str(edited)
    return metadata
