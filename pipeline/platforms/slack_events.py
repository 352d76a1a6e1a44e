"""Parse events of Slack's Events API: over HTTP, in Socket Mode, or the bare event as Bolt passes it on."""

from collections.abc import Iterable, Iterator
from typing import Any

from pipeline.platforms import fields, kinds, slack_export
from pipeline.platforms.records import Event, NewChatId
from schemas.errors import InvalidInput
from schemas.messages import ChatIn, ChatKind

EVENTS = kinds.load("slack_events")
# slash commands, shortcuts, buttons and forms
_OF_INTERACTIONS = {"command", "trigger_id", "response_url", "action_id", "view"}


def parse(value: Any) -> Iterator[Event]:
    """Parse an envelope, or an event. Raises `InvalidInput` for anything else."""
    envelope = fields.dict_of(value)
    if envelope.get("type") == "events_api":
        envelope = fields.dict_of(envelope.get("payload"))
    event = fields.dict_of(envelope.get("event")) if envelope.get("type") == "event_callback" else envelope
    kind = event.get("type")
    if event is envelope and event.keys() & _OF_INTERACTIONS:
        yield fields.not_kept("body", kind or "slash_command")
        return
    if not isinstance(kind, str) or not kind:
        raise InvalidInput(
            "the body is neither an event of Slack's nor an event_callback that holds one: type is missing",
            field="event.type" if envelope is not event else "type",
        )
    bots = slack_export.OWN_BOTS | {
        str(entry.get("user_id"))
        for entry in fields.dicts_of(envelope.get("authorizations"))
        if entry.get("is_bot") is True
    }
    yield from fields.guarded("event", _event(event, kind, bots))


def _event(raw: dict[str, Any], kind: str, bots: set[str]) -> Iterator[Event]:
    match kind:
        # whoever subscribes to both is told of a mention twice, with one ts
        case "message" | "app_mention":
            yield from _message(raw, bots)
        case "member_joined_channel" | "member_left_channel":
            chat = _chat(raw.get("channel"), raw.get("channel_type"))
            user = fields.id_of(raw.get("user"), "event.user")
            people = () if user in bots else (f"slack:{user}",)
            came, at = kind == "member_joined_channel", fields.time_of(raw.get("event_ts"), "event.event_ts")
            yield fields.moved_in_or_out("event", chat.chat_id, people, came=came, at=at)
        case "channel_rename" | "group_rename" | "channel_created":
            channel = fields.dict_of(raw.get("channel"))
            yield _chat(channel.get("id"), None, title=f"#{fields.text_of(channel.get('name'))}")
        case "channel_id_changed":
            former = _chat(raw.get("old_channel_id"), None).chat_id
            yield NewChatId(where="event", chat_id=former, to=_chat(raw.get("new_channel_id"), None).chat_id)
        case _:
            yield EVENTS.by_name("event", kind) or fields.not_kept("event", kind)


def _chat(channel: object, channel_type: object, title: str = "") -> ChatIn:
    key = fields.id_of(channel, "event.channel")
    # whether a group is public is no matter here, and the letter of a direct chat's id says what it is
    kind: ChatKind | None = "direct" if channel_type == "im" or key.startswith("D") else None
    return fields.chat_of("slack", f"slack:{key}", kind=kind, title=title)


def _message(raw: dict[str, Any], bots: set[str]) -> Iterator[Event]:
    chat = _chat(raw.get("channel"), raw.get("channel_type"))
    inner = fields.dict_of(raw.get("message"))
    subtype = raw.get("subtype")
    if subtype == "message_deleted" or (subtype == "message_changed" and inner.get("subtype") == "tombstone"):
        ts = raw.get("deleted_ts") or inner.get("ts")
        yield fields.deletion("event", chat.chat_id, ts, "event.deleted_ts")
        return
    changed = subtype == "message_changed"
    body = inner if changed else raw

    def read() -> Iterable[Event]:
        # when it was edited is the edit's, in whatever order both come
        said = {key: body[key] for key in body if key != "edited"}
        record = slack_export.message(said, "event", chat, {}, bots)
        at = fields.dict_of(body.get("edited")).get("ts") or raw.get("event_ts")
        return fields.edited(record, at) if changed else [record]

    yield from slack_export.KINDS.events("event", slack_export.kind_of(body), chat, read)
