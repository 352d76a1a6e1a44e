"""Parse what Discord's gateway dispatches: `{"t": "MESSAGE_CREATE", "d": {…}}`, or a list of them.

Discord's webhooks over HTTP bring no messages of servers: a bot passes on what its gateway receives.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.platforms import fields, written
from pipeline.platforms.discord.export import KINDS, embed_texts, media, written_out
from pipeline.platforms.records import Event, MemberChange, ReadMessage, Skipped
from schemas.messages import FORWARDED, ChatIn, ChatKind

# the exporter has names for the first types of messages
_TYPES = {
    0: "Default",
    1: "RecipientAdd",
    2: "RecipientRemove",
    3: "Call",
    4: "ChannelNameChange",
    5: "ChannelIconChange",
    6: "ChannelPinnedMessage",
    7: "GuildMemberJoin",
    18: "ThreadCreated",
    19: "Reply",
}
# what is dispatched of other things than messages, and of messages but for their words
_SIGNALS = (
    *(
        "READY",
        "RESUMED",
        "RATE_LIMITED",
        "APPLICATION_",
        "AUTO_MODERATION_",
        "CHANNEL_",
        "THREAD_",
        "ENTITLEMENT_",
    ),
    *(
        "GUILD_",
        "INTEGRATION_",
        "INTERACTION_",
        "INVITE_",
        "PRESENCE_",
        "STAGE_",
        "SUBSCRIPTION_",
        "SOUNDBOARD_",
    ),
    *("TYPING_", "USER_", "VOICE_", "WEBHOOKS_", "SESSIONS_", "MESSAGE_UPDATE", "MESSAGE_REACTION_"),
    *("MESSAGE_POLL_VOTE_", "MESSAGE_ACK"),
)
_TEXT_DISPLAY = 10
_THREADS = (10, 11, 12)
_DIRECT = 1
_FORWARD = 1


def parse(value: Any) -> Iterator[Event]:
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
            yield from _message(raw, where)
        case "MESSAGE_UPDATE" if "author" in raw:
            yield from _message(raw, where, edits=True)
        case "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK":
            ids = raw.get("ids") if kind == "MESSAGE_DELETE_BULK" else [raw.get("id")]
            chat_id = _chat(raw.get("channel_id"), None).chat_id
            for message_id in fields.list_of(ids, "d.ids"):
                yield fields.deletion(where, chat_id, message_id, "d.id")
        case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
            thread, name = raw.get("type") in _THREADS, fields.text_of(raw.get("name"))
            direct = raw.get("type") == _DIRECT
            title = name if thread or not name else f"#{name}"
            yield _chat(raw.get("id"), "thread" if thread else "direct" if direct else "group", title)
        case "THREAD_MEMBERS_UPDATE":
            came, gone = (raw.get("added_members"), raw.get("removed_member_ids"))
            joined = tuple(
                _person(member.get("user_id")) for member in fields.dicts_of(came) if not _is_bot(member)
            )
            left = tuple(map(_person, fields.list_of(gone, "d.removed_member_ids")))
            chat_id = _chat(raw.get("id"), None).chat_id
            yield MemberChange(where=where, chat_id=chat_id, joined=joined, left=left)
        case _:
            yield fields.no_message(where, "Discord", kind, _SIGNALS)


def _is_bot(member: dict[str, Any]) -> bool:
    """Return whether a member is a bot, where Discord says so."""
    return bool(fields.dict_of(member, "member", "user").get("bot"))


def _person(user_id: object) -> str:
    return f"discord:{fields.id_of(user_id, 'the id of a member')}"


def _chat(channel: object, kind: ChatKind | None, title: str = "") -> ChatIn:
    key = fields.id_of(channel, "d.channel_id")
    return fields.chat_of("discord", f"discord:{key}", kind=kind, title=title)


def _name(person: Mapping[str, Any], member: object) -> str:
    nick = fields.dict_of(member).get("nick")
    return fields.name_of(nick, person.get("global_name"), person.get("username"))


def _message(raw: dict[str, Any], where: str, *, edits: bool = False) -> Iterator[Event]:
    number = raw.get("type", 0)
    kind = _TYPES.get(number, str(number)) if isinstance(number, int) else str(number)
    if (left_out := KINDS.by_name(where, kind)) is not None:
        yield left_out
        if isinstance(left_out, Skipped):
            return
    # Discord does not say whether a channel of a server is a thread
    chat = _chat(raw.get("channel_id"), None if raw.get("guild_id") else "direct")
    yield chat
    record = _record(raw, where, chat)
    # Discord completes links after the message, which is no edit of its author's: any of those wins
    yield from (
        fields.edited(record, raw.get("edited_timestamp") or raw.get("timestamp")) if edits else [record]
    )


def _record(raw: dict[str, Any], where: str, chat: ChatIn) -> ReadMessage:
    author = fields.dict_of(raw.get("author"))
    by_bot = author.get("bot") is True or bool(raw.get("webhook_id"))
    reference = fields.dict_of(raw.get("message_reference"))
    forwards = reference.get("type") == _FORWARD
    shots = fields.dicts_of(raw.get("message_snapshots")) if forwards else []
    passed_on = [fields.dict_of(shot, "message") for shot in shots]
    texts = [fields.text_of(raw.get("content")), *embed_texts(raw.get("embeds"), whole=by_bot)]
    texts += _shown(raw.get("components"))
    for message in passed_on:
        content = fields.text_of(message.get("content"))
        texts += [content, *embed_texts(message.get("embeds"), whole=not content)]
        texts += _shown(message.get("components"))
    if poll := fields.dict_of(raw.get("poll")):
        answers = [fields.dict_of(answer, "poll_media") for answer in fields.dicts_of(poll.get("answers"))]
        texts.append(written.labelled("poll", {"question": poll.get("question"), "answers": answers}))
    here = reference.get("channel_id") in (None, raw.get("channel_id"))
    return fields.read_message(
        where,
        chat.chat_id,
        text=written_out("\n".join(filter(None, texts)), _names(raw)),
        media=[item for part in (raw, *passed_on) for item in media(part, "filename", "sticker_items")],
        metadata={FORWARDED: ""} if forwards else {},
        external_id=fields.id_of(raw.get("id"), "d.id"),
        sender_id=f"discord:{fields.id_of(author.get('id'), 'd.author.id')}",
        sender_name=_name(author, raw.get("member")),
        role="assistant" if by_bot else "user",
        sent_at=raw.get("timestamp"),
        reply_to=reference.get("message_id") if here and not forwards else None,
    )


def _shown(components: object) -> Iterator[str]:
    """Yield the texts among components; buttons and the like say nothing of their own."""
    for component in fields.dicts_of(components):
        if component.get("type") == _TEXT_DISPLAY:
            yield fields.text_of(component.get("content"))
        yield from _shown(component.get("components"))


def _names(raw: Mapping[str, Any]) -> dict[str, str]:
    mentioned = fields.dicts_of(raw.get("mentions"))
    return {str(user.get("id")): name for user in mentioned if (name := _name(user, user.get("member")))}
