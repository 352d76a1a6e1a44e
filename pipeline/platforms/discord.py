"""Parse Discord: DiscordChatExporter's JSON of one channel, and what the gateway dispatches.

Bots and webhooks have the role `assistant`. Their embeds are text; people's embeds are link previews, of which the
title is kept.

Discord's webhooks over HTTP bring no messages of servers: a bot passes on what its gateway receives.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import IO, Any

from pydantic import ValidationError

from pipeline.platforms import contents, fields, json_stream, kinds
from pipeline.platforms.identity import sender_by_name
from pipeline.platforms.platform import ExportFormat, Shape
from pipeline.platforms.records import (
    Broken,
    Event,
    ImportOptions,
    MemberChange,
    Parsed,
    ReadMessage,
    Skipped,
    Times,
)
from schemas.messages import FORWARDED, ChatIn, ChatKind

KINDS, DISPATCHES = kinds.load("discord"), kinds.load("discord_events")


def parse_export(stream: IO[bytes], options: ImportOptions) -> Iterator[Parsed]:
    """Parse the channel and its messages; `command.chat_id` replaces the channel's own id."""
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


FORMAT = ExportFormat(
    name="discord",
    of_bytes=parse_export,
    looks=(Shape(keys={"": "channel guild|messages", "channel": "id|name|type|category"}),),
)


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
    named = ((str(person.get("id")), _name(person, person.get("member"))) for person in people)
    return {key: name for key, name in named if name}


def _name(person: Mapping[str, Any], member: object = None) -> str:
    """Return the name that somebody goes by; exports and events call these fields differently."""
    names = ("nickname", "name", "global_name", "username")
    return fields.name_of(fields.dict_of(member).get("nick"), *map(person.get, names))


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
    texts += KINDS.texts(raw)
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
    files = [
        (fields.name_of(item.get(file_name), "file"), fields.text_of(item.get("content_type")))
        for item in fields.dicts_of(raw.get("attachments"))
    ]
    shown = [fields.name_of(item.get("name")) for item in fields.dicts_of(raw.get(stickers))]
    return [
        *(fields.attachment(fields.media_kind(name, mime), name) for name, mime in files),
        *(fields.attachment("sticker", name) for name in shown),
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


# the exporter has names for the first types of messages
_TYPES = dict(
    enumerate(
        "Default RecipientAdd RecipientRemove Call ChannelNameChange ChannelIconChange ChannelPinnedMessage "
        "GuildMemberJoin".split()
    )
) | {18: "ThreadCreated", 19: "Reply"}
_THREADS = (10, 11, 12)
_DIRECT = 1
_FORWARD = 1
_EPHEMERAL = 64


def parse_events(value: Any) -> Iterator[Event]:
    """Parse dispatches. Raises `InvalidInput` for anything else."""
    otherwise = "is no dispatch of Discord's gateway, with its name in t and its data in d"
    yield from fields.one_or_several(value, _is_dispatch, otherwise, _item)


def _item(raw: dict[str, Any], where: str) -> Iterator[Event]:
    place = where or "d"
    if raw["t"] is None:
        # a heartbeat, or another message of the connection itself
        yield fields.not_kept(place, f"op {raw.get('op')}")
    else:
        yield from fields.guarded(place, _dispatch(raw["t"], raw["d"], place))


def _is_dispatch(item: dict[str, Any]) -> bool:
    named = isinstance(item.get("t"), str) and isinstance(item.get("d"), dict)
    return named or ("t" in item and item["t"] is None)


def _dispatch(kind: str, raw: dict[str, Any], where: str) -> Iterator[Event]:
    match kind:
        case "MESSAGE_CREATE":
            yield from _event_message(raw, where)
        case "MESSAGE_UPDATE" if "author" in raw:
            yield from _event_message(raw, where, edits=True)
        case "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK":
            ids = raw.get("ids") if kind == "MESSAGE_DELETE_BULK" else [raw.get("id")]
            chat_id = _event_chat(raw.get("channel_id"), None).chat_id
            for message_id in fields.list_of(ids, "d.ids"):
                yield fields.deletion(where, chat_id, message_id, "d.id")
        case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
            thread, name = raw.get("type") in _THREADS, fields.text_of(raw.get("name"))
            direct = raw.get("type") == _DIRECT
            title = name if thread or not name else f"#{name}"
            yield _event_chat(raw.get("id"), "thread" if thread else "direct" if direct else "group", title)
        case "THREAD_MEMBERS_UPDATE":
            came, gone = (raw.get("added_members"), raw.get("removed_member_ids"))
            joined = tuple(
                _person(member.get("user_id")) for member in fields.dicts_of(came) if not _is_bot(member)
            )
            left = tuple(map(_person, fields.list_of(gone, "d.removed_member_ids")))
            chat_id = _event_chat(raw.get("id"), None).chat_id
            yield MemberChange(where=where, chat_id=chat_id, joined=joined, left=left)
        case _:
            yield DISPATCHES.by_name(where, kind) or fields.not_kept(where, kind)


def _is_bot(member: dict[str, Any]) -> bool:
    """Return whether a member is a bot, where Discord says so."""
    return bool(fields.dict_of(member, "member", "user").get("bot"))


def _person(user_id: object) -> str:
    return f"discord:{fields.id_of(user_id, 'the id of a member')}"


def _event_chat(channel: object, kind: ChatKind | None, title: str = "") -> ChatIn:
    key = fields.id_of(channel, "d.channel_id")
    return fields.chat_of("discord", f"discord:{key}", kind=kind, title=title)


def _event_message(raw: dict[str, Any], where: str, *, edits: bool = False) -> Iterator[Event]:
    number = raw.get("type", 0)
    kind = _TYPES.get(number, str(number)) if isinstance(number, int) else str(number)
    # Discord does not say whether a channel of a server is a thread
    chat = _event_chat(raw.get("channel_id"), None if raw.get("guild_id") else "direct")
    if isinstance(flags := raw.get("flags"), int) and flags & _EPHEMERAL:
        # an answer that one person of the channel sees
        asked = fields.dict_of(raw.get("interaction_metadata")) or fields.dict_of(raw.get("interaction"))
        person = fields.id_of(fields.dict_of(asked, "user").get("id"), "d.interaction_metadata.user.id")
        chat = _event_chat(f"{raw.get('channel_id')}@{person}", "direct")

    def read() -> Iterable[Event]:
        record = _record(raw, where, chat)
        # Discord completes links after the message, which is no edit of its author's: any of those wins
        at = raw.get("edited_timestamp") or raw.get("timestamp")
        return fields.edited(record, at) if edits else [record]

    yield from KINDS.events(where, kind, chat, read)


def _record(raw: dict[str, Any], where: str, chat: ChatIn) -> ReadMessage:
    author = fields.dict_of(raw.get("author"))
    name, sender_id = _name(author, raw.get("member")), author.get("id")
    spoken = _speaks_for_a_person(raw, author)
    by_bot = not spoken and (author.get("bot") is True or bool(raw.get("webhook_id")))
    sender = "" if spoken else f"discord:{fields.id_of(sender_id, 'd.author.id')}"
    reference = fields.dict_of(raw.get("message_reference"))
    forwards = reference.get("type") == _FORWARD
    shots = fields.dicts_of(raw.get("message_snapshots")) if forwards else []
    passed_on = [fields.dict_of(shot, "message") for shot in shots]
    texts = []
    for message, whole in ((raw, by_bot), *((shot, not shot.get("content")) for shot in passed_on)):
        texts += [fields.text_of(message.get("content")), *embed_texts(message.get("embeds"), whole=whole)]
        texts += _shown(message.get("components"))
        files = fields.dicts_of(message.get("attachments"))
        texts += [fields.text_of(file.get("description")) for file in files]
    if poll := fields.dict_of(raw.get("poll")):
        answers = [fields.dict_of(answer, "poll_media") for answer in fields.dicts_of(poll.get("answers"))]
        texts.append(contents.labelled("poll", {"question": poll.get("question"), "answers": answers}))
    here = reference.get("channel_id") in (None, raw.get("channel_id"))
    if not here and not forwards and (elsewhere := fields.dict_of(raw.get("referenced_message"))):
        by = _name(fields.dict_of(elsewhere.get("author")), elsewhere.get("member"))
        shown = [fields.text_of(elsewhere.get("content")), *_shown(elsewhere.get("components"))]
        texts.insert(0, contents.quoted("\n".join(filter(None, shown)), by))
    return fields.read_message(
        where,
        chat.chat_id,
        text=written_out("\n".join(filter(None, texts)), _names(raw)),
        media=[
            item
            for part in (raw, *passed_on)
            for item in media(part, "filename", "sticker_items") or _pictured(part.get("components"))
        ],
        metadata={FORWARDED: ""} if forwards else {},
        kind="MESSAGE_CREATE",
        external_id=fields.id_of(raw.get("id"), "d.id"),
        sender_id=sender or sender_by_name("discord", chat.chat_id, name),
        sender_name=name,
        role="assistant" if by_bot else "user",
        sent_at=raw.get("timestamp"),
        reply_to=reference.get("message_id") if here and not forwards else None,
    )


def _speaks_for_a_person(raw: Mapping[str, Any], author: Mapping[str, Any]) -> bool:
    """Return whether a webhook passes on what somebody wrote, as those of bridges, PluralKit and Tupperbox do.

    Discord calls the author of any webhook a bot. Its own answers to commands have the id of the bot, what it copies of
    a channel that is followed refers to the message there, and integrations (of GitHub, for instance) show embeds.
    """
    of_webhook = raw.get("webhook_id") and str(author.get("id")) == str(raw["webhook_id"])
    own = (
        raw.get("webhook_id") == raw.get("application_id")
        or raw.get("message_reference")
        or raw.get("interaction_metadata")
        or raw.get("interaction")
    )
    wrote = any(raw.get(field) for field in ("content", "attachments", "sticker_items"))
    integrated = raw.get("embeds") and not raw.get("application_id")
    return bool(
        of_webhook and wrote and not own and not integrated and fields.name_of(author.get("username"))
    )


# what shows no words of its own, but what may be answered with it: buttons, menus and fields to fill in
_CONTROLS = (2, 3, 4, 5, 6, 7, 8, 19, 21, 22, 23)


def _shown(components: object) -> Iterator[str]:
    """Yield the texts among components, in whatever they are nested."""
    for component in fields.dicts_of(components):
        if component.get("type") in _CONTROLS:
            continue
        for field, value in component.items():
            if field in ("content", "description", "label"):
                yield fields.text_of(value)
            else:
                yield from _shown(value if isinstance(value, list) else [value])


def _pictured(components: object) -> Iterator[dict[str, str]]:
    """Yield the pictures and files that components show by their addresses."""
    for component in fields.dicts_of(components):
        for held in (component.get("media"), component.get("file")):
            if address := fields.text_of(fields.dict_of(held).get("url")):
                yield from fields.file_attachments([address.partition("?")[0]])
        for held in component.values():
            yield from _pictured(held if isinstance(held, list) else [])
