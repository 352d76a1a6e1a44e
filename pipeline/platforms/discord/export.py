"""Parse DiscordChatExporter's JSON of one channel; a thread is a chat of its own.

Bots and webhooks have the role `assistant`. Their embeds are text; people's embeds are link previews, of which the
title is kept.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import IO, Any

from pydantic import ValidationError

from pipeline.platforms import attachments, fields, json_stream, kinds, written
from pipeline.platforms.records import Broken, ImportOptions, Parsed, ReadMessage, Skipped, Times
from schemas.messages import FORWARDED, ChatIn, ChatKind

KINDS = kinds.load("discord")


def parse(stream: IO[bytes], options: ImportOptions) -> Iterator[Parsed]:
    """Parse the channel and its messages; `options.chat_id` replaces the channel's own id."""
    chat: ChatIn | None = None
    names: dict[str, str] = {}
    for item in json_stream.walk(stream, {"messages.item": ""}):
        if isinstance(item, Broken):
            yield item
            continue
        where = f"messages[{item.index}]"
        if chat is None:
            try:
                chat = _chat(item.header, options)
            except ValidationError as error:
                reason = f"its channel has no usable id: {fields.sentence(error)}"
                yield Broken(where=where, reason=reason)
                continue
            yield chat
            yield _times(item.value, chat.time_zone)
        names |= _names(item.value)
        yield from _read(item.value, where, chat, names)


def _chat(header: Mapping[str, Any], options: ImportOptions) -> ChatIn:
    channel_type = str(header.get("channel.type", ""))
    kind: ChatKind = "group"
    if "Thread" in channel_type:
        kind = "thread"
    elif channel_type in {"DirectTextChat", "DirectTextChannel"}:
        kind = "direct"
    name, guild = fields.name_of(header.get("channel.name")), fields.name_of(header.get("guild.name"))
    # in a server only the channel, `general`, says little; "Direct Messages" says nothing
    title = f"{guild} #{name}" if guild and name and channel_type.startswith("Guild") else name
    channel_id = header.get("channel.id")
    chat_id = options.chat_id or (str(channel_id) if channel_id is not None else "")
    return fields.chat_of("discord", chat_id, options, kind=kind, title=title)


def _times(raw: Any, zone: str | None) -> Times:
    try:
        ahead = datetime.fromisoformat(raw["timestamp"]).utcoffset()
    except (KeyError, TypeError, ValueError):
        ahead = None
    exported = f"; whoever exported was at UTC{fields.in_hours(ahead)}" if ahead else ""
    return fields.exact_times("as the file gives them with an offset", zone, exported)


def _names(raw: Any) -> dict[str, str]:
    """Return the names of a message's author and of those it mentions, by their ids."""
    if not isinstance(raw, dict):
        return {}
    people = [*fields.dicts_of(raw.get("mentions")), fields.dict_of(raw.get("author"))]
    return {str(person["id"]): name for person in people if person.get("id") and (name := _name(person))}


def _name(person: Mapping[str, Any]) -> str:
    return fields.name_of(person.get("nickname"), person.get("name"))


def _read(raw: Any, where: str, chat: ChatIn, names: Mapping[str, str]) -> Iterator[Parsed]:
    if not isinstance(raw, dict):
        yield Broken(where=where, reason="is no JSON object")
        return
    reported = [
        KINDS.report(where, kind) for kind in (str(raw.get("type", "Default")), *KINDS.unknown_in(raw))
    ]
    unread = [report for report in reported if report is not None]
    yield from unread
    if any(isinstance(report, Skipped) for report in unread):
        return
    message = _message(raw, where, chat, names)
    if not isinstance(message, Skipped):
        yield message
    elif not unread:
        yield (None if raw.get("embeds") else KINDS.report(where, "empty")) or message


def _message(raw: dict[str, Any], where: str, chat: ChatIn, names: Mapping[str, str]) -> ReadMessage:
    author = raw.get("author")
    if not isinstance(author, dict) or not author.get("id"):
        return Broken(where=where, reason="author.id is missing")
    by_bot = author.get("isBot") is True
    forwarded = fields.dict_of(raw.get("forwardedMessage"))
    card = not fields.text_of(forwarded.get("content"))
    texts = [fields.text_of(raw.get("content")), *embed_texts(raw.get("embeds"), whole=by_bot)]
    texts += [fields.text_of(forwarded.get("content")), *embed_texts(forwarded.get("embeds"), whole=card)]
    texts += [written.labelled(field, value) for field, value in KINDS.unknown_in(raw).items()]
    texts += [
        written.labelled(label, raw[field])
        for field, label in KINDS.words.items()
        if label and raw.get(field)
    ]
    metadata = {"edited_at": str(edited)} if (edited := raw.get("timestampEdited")) else {}
    message = fields.read_message(
        where,
        chat.chat_id,
        text=written_out("\n".join(filter(None, texts)), names),
        media=[*media(raw), *media(forwarded)],
        # the exporter does not name its author
        metadata=metadata | ({FORWARDED: ""} if forwarded else {}),
        # ids rise with time: they order what is left
        external_id=str(raw.get("id") or ""),
        sender_id=f"discord:{author['id']}",
        sender_name=_name(author),
        role="assistant" if by_bot else "user",
        sent_at=raw.get("timestamp"),
        reply_to=_reply_to(raw.get("reference"), chat),
    )
    if isinstance(message, Broken):
        return replace(message, reason=message.reason.replace("sent_at", "timestamp"))
    return message


def media(
    raw: Mapping[str, Any], file_name: str = "fileName", stickers: str = "stickers"
) -> list[dict[str, str]]:
    """Return the attachments and stickers of a message; events name these fields differently."""
    files = [fields.name_of(item.get(file_name), "file") for item in fields.dicts_of(raw.get("attachments"))]
    shown = [fields.name_of(item.get("name")) for item in fields.dicts_of(raw.get(stickers))]
    return [
        *(attachments.attachment(attachments.media_kind(name), name) for name in files),
        *(attachments.attachment("sticker", name) for name in shown),
    ]


_PERSON = re.compile(r"<@!?(\d{1,25})>")
_EMOJI = re.compile(r"<a?(:\w{1,40}:)\d{1,25}>")


def written_out(text: str, names: Mapping[str, str]) -> str:
    """Replace the ids of people and emoji by names, which exports without formatting do not.

    >>> written_out("<@901> and <@!902> <:wave:17>", {"901": "Zed"})
    '@Zed and <@!902> :wave:'
    """
    named = _PERSON.sub(lambda match: f"@{names[match[1]]}" if match[1] in names else match[0], text)
    return _EMOJI.sub(r"\1", named)


def embed_texts(raw: object, *, whole: bool) -> Iterator[str]:
    """Yield the texts of embeds, whole or only their titles."""
    for embed in fields.dicts_of(raw):
        values = {
            str(field.get("name")): fields.text_of(field.get("value"))
            for field in fields.dicts_of(embed.get("fields"))
        }
        if question := values.get("poll_question_text"):
            won, votes = (values.get(f"victor_answer_{name}") for name in ("text", "votes"))
            yield f"[poll result] {question}: {won or 'no winner'}" + (f" ({votes} votes)" if votes else "")
            continue
        title = fields.text_of(embed.get("title"))
        if not whole:
            yield f"[link {title}]" if title else ""
            continue
        yield fields.text_of(fields.dict_of(embed.get("author")).get("name"))
        yield title
        yield fields.text_of(embed.get("description"))
        for field in fields.dicts_of(embed.get("fields")):
            yield ": ".join(
                filter(None, (fields.text_of(field.get("name")), fields.text_of(field.get("value"))))
            )
        yield fields.text_of(fields.dict_of(embed.get("footer")).get("text"))


def _reply_to(raw: object, chat: ChatIn) -> str | None:
    """Return the id of the message of this channel that a message answers; a forwarded one answers none."""
    if not isinstance(raw, dict) or not raw.get("messageId") or raw.get("type") == "Forward":
        return None
    channel = raw.get("channelId")
    here = channel is None or chat.chat_id == f"discord:{channel}"
    return str(raw["messageId"]) if here else None
