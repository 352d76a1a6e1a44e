"""DiscordChatExporter's JSON of one channel as messages.

What bots and webhooks wrote has the role `assistant`. Embeds are previews of links and the cards of bots:
they are left out and counted in the metadata.
"""

from collections.abc import Iterator
from typing import IO, Any

from pydantic import ValidationError

from pipeline.platforms import json_stream
from pipeline.platforms.records import (
    Broken,
    ImportOptions,
    Parsed,
    Record,
    Skipped,
    chat_of,
    media_kind,
    name_of,
    sentence,
    with_media,
)
from schemas.messages import ChatIn, ChatKind, MessageIn

# The exporter knows the first two by name; the others are Discord's numbers: an answer to a slash command,
# one to a menu. Everything else (RecipientAdd, GuildMemberJoin, …) nobody wrote.
_WRITTEN = frozenset(("Default", "Reply", "20", "ChatInputCommand", "23", "ContextMenuCommand"))


def parse(stream: IO[bytes], options: ImportOptions) -> Iterator[Parsed]:
    """The channel and its messages from the bytes of the exported JSON (UTF-8).

    `options.chat_id` names the channel in place of its own id.
    """
    header: dict[str, Any] = {}
    chat: ChatIn | None = None
    for found in json_stream.walk(stream, ["messages.item"]):
        match found:
            case json_stream.Cut(reason=reason):
                yield Broken(where="the end of what could be read", reason=reason)
            case json_stream.Scalar(path=path, value=value):
                header[path] = value
            case json_stream.Item(index=index, value=value):
                where = f"messages[{index}]"
                if chat is None:
                    try:
                        chat = _chat(header, options)
                    except ValidationError as error:
                        yield Broken(where=where, reason=f"its channel has no usable id: {sentence(error)}")
                        continue
                    yield chat
                yield _read(value, where, chat)


def _chat(header: dict[str, Any], options: ImportOptions) -> ChatIn:
    channel_type = str(header.get("channel.type", ""))
    kind: ChatKind = "group"
    if "Thread" in channel_type:
        kind = "thread"
    elif channel_type in {"DirectTextChat", "DirectTextChannel"}:
        kind = "direct"
    name, guild = name_of(header.get("channel.name")), name_of(header.get("guild.name"))
    # in a server the channel alone, `general`, says little; "Direct Messages" says nothing
    title = f"{guild} #{name}" if guild and name and channel_type.startswith("Guild") else name
    own = header.get("channel.id")
    chat_id = options.chat_id or (str(own) if own is not None else "")
    return chat_of("discord", chat_id, options, kind=kind, title=title)


def _read(raw: Any, where: str, chat: ChatIn) -> Parsed:
    if not isinstance(raw, dict):
        return Broken(where=where, reason="is no JSON object")
    if str(raw.get("type", "Default")) not in _WRITTEN:
        return Skipped(where=where, reason="service message")
    author = raw.get("author")
    if not isinstance(author, dict) or not author.get("id"):
        return Broken(where=where, reason="author.id is missing")
    media = [*_attachments(raw.get("attachments")), *_stickers(raw.get("stickers"))]
    text = raw.get("content")
    content = with_media(text.strip() if isinstance(text, str) else "", media)
    if not content:
        return Skipped(where=where, reason="embeds alone" if raw.get("embeds") else "message without text")
    try:
        message = MessageIn.model_validate(
            {
                "external_id": str(raw.get("id") or ""),
                "sender_id": f"discord:{author['id']}",
                "sender_name": name_of(author.get("nickname"), author.get("name")),
                "role": "assistant" if author.get("isBot") is True else "user",
                "content": content,
                "sent_at": raw.get("timestamp"),
                # ids rise with time and have equal length within a millisecond: they order what is left
                "metadata": _metadata(raw, media),
            }
        )
    except ValidationError as error:
        return Broken(where=where, reason=sentence(error).replace("sent_at", "timestamp"))
    return Record(chat_id=chat.chat_id, message=message, where=where)


def _attachments(raw: object) -> list[dict[str, str]]:
    items = raw if isinstance(raw, list) else []
    names = [name_of(item.get("fileName"), "file") for item in items if isinstance(item, dict)]
    return [{"kind": media_kind(name), "name": name} for name in names]


def _stickers(raw: object) -> list[dict[str, str]]:
    items = raw if isinstance(raw, list) else []
    return [
        {"kind": "sticker", "name": name_of(item.get("name"))} for item in items if isinstance(item, dict)
    ]


def _metadata(raw: dict[str, Any], media: list[dict[str, str]]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"media": media} if media else {}
    reference = raw.get("reference")
    if isinstance(reference, dict) and reference.get("messageId"):
        metadata["reply_to"] = str(reference["messageId"])
    if raw.get("timestampEdited"):
        metadata["edited_at"] = str(raw["timestampEdited"])
    if isinstance(embeds := raw.get("embeds"), list) and embeds:
        metadata["embeds"] = len(embeds)
    return metadata
