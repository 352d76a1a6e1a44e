"""Parse Slack's export of a workspace or of an Enterprise Grid, and convert its markup to plain text.

A Grid keeps the channels of one workspace in `teams/<workspace>/`, those of several and direct messages beside it. A
message's `ts` is its id in the channel and its time. Apps and bots have the role `assistant`; service messages are
counted and left out.
"""

import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError

from pipeline.platforms import contents, fields, kinds
from pipeline.platforms.fields import dict_of, dicts_of, text_of
from pipeline.platforms.identity import sender_by_name
from pipeline.platforms.records import Broken, ImportOptions, Notice, Parsed, Record, Skipped, Times
from schemas.errors import InvalidInput
from schemas.messages import FORWARDED, ChatIn, ChatKind

# the lists of conversations, and what kind of chat they hold
_INDEXES: dict[str, ChatKind] = {
    "channels.json": "group",
    "groups.json": "group",
    "mpims.json": "group",
    "dms.json": "direct",
}
_PEOPLE = ("users.json", "org_users.json")
_TEAM = re.compile(r"(?:^|(?<=/))teams/[^/]+/$")
_DAY = re.compile(r"(?P<folder>(?:teams/[^/]+/)?[^/]+)/\d{4}-\d{2}-\d{2}\.json")
KINDS = kinds.load("slack")
OWN_BOTS = {"USLACKBOT"}
"""Slack's own, which no list calls a bot."""
# what stands in place of the text of a message that has only blocks
_NOT_SHOWN = "This content can't be displayed."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TS = re.compile(r"(?P<seconds>\d{1,12})(?:\.(?P<micros>\d{1,6})\d*)?")


def root_of(names: Collection[str]) -> str | None:
    """Return the export's folder among these paths ("" or ending in a slash), or None; a zip may have one around it."""
    roots = {_TEAM.sub("", _above(name)) for name in names if _base(name) in _INDEXES}
    return min((root for root in roots if not root.startswith("__MACOSX")), key=len, default=None)


def files_of(names: Collection[str]) -> list[str]:
    """Return the paths that `parse` reads, in its order: the lists, then each channel's days."""
    if (root := root_of(names)) is None:
        return []
    inner = sorted(name for name in names if name.startswith(root))
    lists = [
        name
        for listed in (*_PEOPLE, *_INDEXES, *KINDS.fates)
        for name in inner
        if _base(name) == listed and _TEAM.sub("", _above(name)) == root
    ]
    return [*lists, *(name for name in inner if _DAY.fullmatch(name[len(root) :]))]


def _above(path: str) -> str:
    """Return the folder of a path, with its slash."""
    return path[: path.rfind("/") + 1]


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def parse(names: Collection[str], read: Callable[[str], bytes], options: ImportOptions) -> Iterator[Parsed]:
    """Parse channels and their messages; `names` are the paths of the export's files.

    `read` gives a file's bytes, or raises `InvalidInput`: then that file is reported and the next one read.
    """
    if options.chat_id:
        yield Notice(text="The export names its channels itself; --chat is not used.")
    root = root_of(names) or ""
    files = files_of(names)
    days = [name for name in files if _DAY.fullmatch(name[len(root) :])]
    listed: list[tuple[str, str, Any]] = []
    for name in files[: len(files) - len(days)]:
        loaded = _load(name, read)
        if isinstance(loaded, Broken):
            yield loaded
        else:
            listed += [(_above(name)[len(root) :], _base(name), raw) for raw in loaded]
    people = {key: raw for _, base, raw in listed if base in _PEOPLE and (key := _key(raw))}
    names_of = {key: _person_name(person) for key, person in people.items()}
    zones = Counter(zone for person in people.values() if isinstance(zone := person.get("tz"), str))
    bots = OWN_BOTS | {key for key, person in people.items() if person.get("is_bot")}
    folders: dict[str, _Channel] = {}
    for team, base, raw in listed:
        if kind := _INDEXES.get(base):
            folders |= {team + folder: channel for folder, channel in _folders(raw, kind, names_of)}
        elif base in KINDS.fates and (reported := KINDS.report(team + base, base)):
            yield reported
    for name in sorted(set(names) - set(files)):
        if name.endswith(".json") and _above(name) == root:
            yield Notice(text=f"{name} is not read: Slack's exports are not known to have such a file.")
    chat: ChatIn | None = None
    current, times_said = "", False
    for name in days:
        folder = _above(name)[len(root) : -1]
        if folder != current:
            current = folder
            try:
                chat = _chat(folder, folders, options)
            except ValidationError as error:
                chat = None
                yield Broken(where=folder, reason=f"the channel has no usable id: {fields.sentence(error)}")
            if chat is not None:
                yield chat
                if not times_said:
                    yield _times(chat.time_zone, zones)
                    times_said = True
            if chat is not None and not _channel(folder, folders):
                yield Notice(
                    text=f"No list of channels names the folder {folder}; its name serves as the id."
                )
        if chat is None:
            continue
        messages = _load(name, read)
        if isinstance(messages, Broken):
            yield messages
            continue
        for index, raw in enumerate(messages):
            yield from _read(raw, f"{name}, [{index}]", chat, names_of, bots)


def _times(zone: str | None, zones: Counter[str]) -> Times:
    (common, count), *_ = zones.most_common(1) or [("Europe/Lisbon", 0)]
    people = f"{count} of {zones.total()} people are in {common}: say --tz {common}" if count else ""
    return fields.exact_times(
        "from Slack's own", zone, advice=f"; {people or 'say --tz, as in Europe/Lisbon'}"
    )


def _load(name: str, read: Callable[[str], bytes]) -> list[Any] | Broken:
    try:
        value = json.loads(read(name))
    except (ValueError, RecursionError) as error:
        return Broken(where=name, reason=f"the file is not JSON: {error}", breaks_off=True)
    except InvalidInput as error:
        return Broken(where=name, reason=str(error), breaks_off=True)
    return value if isinstance(value, list) else Broken(where=name, reason="the file holds no list")


def _key(raw: Any) -> str | None:
    return raw["id"] if isinstance(raw, dict) and isinstance(raw.get("id"), str) else None


def _person_name(person: dict[str, Any]) -> str:
    shown = fields.dict_of(person.get("profile"))
    return fields.name_of(
        shown.get("display_name"), shown.get("real_name"), person.get("real_name"), person.get("name")
    )


_Channel = tuple[str, ChatKind, str]
"""A channel's id, kind and title."""


def _folders(raw: Any, kind: ChatKind, names: dict[str, str]) -> Iterator[tuple[str, _Channel]]:
    """Map the channel's folder to the channel; a direct chat's folder is its id, and its title its people."""
    if (key := _key(raw)) is None:
        return
    name = fields.name_of(raw.get("name"))
    members = raw.get("members") if isinstance(raw.get("members"), list) else []
    people = ", ".join(names.get(str(member)) or str(member) for member in members)
    grouped = name.startswith("mpdm-") or not name
    yield (name or key, (key, kind, people if grouped and people else f"#{name}" if name else key))


def _channel(folder: str, folders: Mapping[str, _Channel]) -> _Channel | None:
    """Return what a list says of a folder; a channel of several workspaces may be in the lists above them only."""
    return folders.get(folder) or folders.get(_base(folder))


def _chat(folder: str, folders: Mapping[str, _Channel], options: ImportOptions) -> ChatIn:
    key, kind, title = _channel(folder, folders) or (
        folder.removeprefix("teams/"),
        "group",
        f"#{_base(folder)}",
    )
    return fields.chat_of("slack", f"slack:{key}", options, kind=kind, title=title)


def _read(raw: Any, where: str, chat: ChatIn, names: dict[str, str], bots: set[str]) -> Iterator[Parsed]:
    if not isinstance(raw, dict):
        yield Broken(where=where, reason="is no JSON object")
        return
    yield from KINDS.read(where, kind_of(raw), [message(raw, where, chat, names, bots)])


def kind_of(raw: Mapping[str, Any]) -> str:
    """Return the kind of a message, as the table of kinds has it."""
    written = raw.get("type", "message") in ("message", "app_mention")
    return str(raw.get("subtype") or ("hidden" if raw.get("hidden") else "" if written else raw["type"]))


def message(
    raw: dict[str, Any], where: str, chat: ChatIn, names: dict[str, str], bots: set[str]
) -> Record | Skipped | Broken:
    """Return a message as Slack writes it in exports and in events; `names` are by id, as `bots` are ids."""
    # a comment on a file, as long as these were no messages
    comment = fields.dict_of(raw.get("comment"))
    user, bot = raw.get("user") or comment.get("user"), raw.get("bot_id")
    ts = raw.get("ts")
    if not isinstance(ts, str) or (match := _TS.fullmatch(ts)) is None:
        return Broken(where=where, reason=f"ts {ts!r} is no time of Slack's, such as 1700000000.000100")
    sender, name = fields.name_of(user, bot), _sender_name(raw, names, user)
    if not (sender or name):
        return Broken(where=where, reason="user and bot_id are missing")
    person = _spoken_for(raw, bots)
    by_app = not person and (bool(bot) or sender in bots or raw.get("subtype") == "bot_message")
    if person:
        sender, name = "", person
    text, forwarded = _text(raw, fields.text_of(comment.get("comment")), by_app=by_app)
    try:
        # added up in whole numbers: the last digits order the messages of one instant
        since = timedelta(
            seconds=int(match["seconds"]), microseconds=int((match["micros"] or "").ljust(6, "0"))
        )
        sent_at = _EPOCH + since
    except OverflowError:
        return Broken(where=where, reason=f"ts {ts!r} is not a time that a calendar knows")
    edited_ts = fields.dict_of(raw.get("edited")).get("ts")
    return fields.read_message(
        where,
        chat.chat_id,
        text=plain_text(text, names),
        media=_files(raw),
        metadata=forwarded | ({"edited_ts": edited_ts} if isinstance(edited_ts, str) else {}),
        external_id=ts,
        sender_id=f"slack:{sender}" if sender else sender_by_name("slack", chat.chat_id, name),
        sender_name=name,
        role="assistant" if by_app else "user",
        sent_at=sent_at,
        # the message that a thread began with
        reply_to=thread if isinstance(thread := raw.get("thread_ts"), str) and thread != ts else None,
    )


def _spoken_for(raw: Mapping[str, Any], bots: set[str]) -> str:
    """Return the name of the person for whom a bridge writes, or an empty text.

    A bridge writes plain text, under another name than the app has; an app that speaks for itself is shown by an emoji,
    or with blocks and attachments.
    """
    own = fields.name_of(fields.dict_of(raw.get("bot_profile")).get("name"))
    name = fields.name_of(raw.get("username"))
    is_app = (
        not raw.get("bot_id") or str(raw.get("user")) in bots or "emoji" in fields.dict_of(raw.get("icons"))
    )
    told = fields.text_of(raw.get("text")) and not raw.get("attachments")
    return "" if is_app or name == own or not told else name


def _text(raw: dict[str, Any], comment: str, *, by_app: bool) -> tuple[str, dict[str, str]]:
    """Return what was written, in text, blocks or with files, what apps attach, and what people share.

    Of people's link previews the titles are kept. A message that is shared without a word is forwarded: the metadata
    names its author.
    """
    text, blocks = comment or fields.text_of(raw.get("text")), fields.dicts_of(raw.get("blocks"))
    # Slack writes the text of rich text, and beside other blocks a stand-in for them
    stands_in = any(block.get("type") != "rich_text" and text_of_blocks([block]) for block in blocks)
    if not text or text.startswith(_NOT_SHOWN) or stands_in:
        text = text_of_blocks(blocks) or text.removeprefix(_NOT_SHOWN)
    with_files = [text_of_file(file) for file in fields.dicts_of(raw.get("files"))]
    attachments = fields.dicts_of(raw.get("attachments"))
    alone = not (text or any(with_files))
    shared = [fields.name_of(item.get("author_name")) for item in attachments if item.get("is_share")]
    attached = [
        text_of_attachment(item) if by_app or alone else with_shared_message(item) for item in attachments
    ]
    parts = (text, *with_files, *attached)
    written = "\n".join(part for part in parts if part and (part is text or part not in text))
    return written, {FORWARDED: shared[0]} if alone and shared else {}


def _sender_name(raw: dict[str, Any], names: dict[str, str], user: object) -> str:
    shown = fields.dict_of(raw.get("user_profile"))
    return fields.name_of(
        names.get(str(user)),
        shown.get("display_name"),
        shown.get("real_name"),
        raw.get("username"),
        fields.dict_of(raw.get("bot_profile")).get("name"),
    )


def _files(raw: dict[str, Any]) -> list[dict[str, str]]:
    items = raw.get("files")
    files = fields.dicts_of(items if isinstance(items, list) else [raw.get("file")])
    # deleted files stay as tombstones without a name
    named = [
        (fields.name_of(file.get("name"), file.get("title")), fields.text_of(file.get("mimetype")))
        for file in files
        if file.get("mode") != "tombstone"
    ]
    return [
        fields.attachment(fields.media_kind(name, mime) if name else "media", name) for name, mime in named
    ]


# the markup of elements of rich texts
_INLINE = {
    "user": "<@{user_id}>",
    "channel": "<#{channel_id}>",
    "usergroup": "<!subteam^{usergroup_id}>",
    "broadcast": "<!{range}>",
    "emoji": ":{name}:",
    "date": "{fallback}",
    "color": "{value}",
}
_ANGLED = re.compile(r"<([^<>\s][^<>]*)>")


def plain_text(text: str, names: Mapping[str, str]) -> str:
    """Name people, write out links and decode entities; `names` is by user id.

    >>> plain_text("<@U1> see <https://a.b/c|the plan> &amp; <#C2|general> <!here>", {"U1": "Ana"})
    '@Ana see the plan (https://a.b/c) & #general @here'
    """
    return html.unescape(_ANGLED.sub(lambda match: _written_out(match[1], names), text))


def _written_out(inner: str, names: Mapping[str, str]) -> str:
    target, bar, label = inner.partition("|")
    match target[:1]:
        case "@":
            return f"@{names.get(target[1:]) or label or target[1:]}"
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            # <!here>, <!subteam^S1|@team>, <!date^1700000000^{date}|14 November>
            command = target[1:].partition("^")[0]
            return label if bar and label else f"@{command}"
    address = target.removeprefix("mailto:").removeprefix("tel:")
    return address if not label or label == address else f"{label} ({address})"


def text_of_blocks(blocks: object) -> str:
    """Return the markup of blocks, a line for each of their parts.

    >>> text_of_blocks([{"type": "header", "text": {"type": "plain_text", "text": "Build 12"}},
    ...     {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
    ...         {"type": "text", "text": "by "}, {"type": "user", "user_id": "U1"}]}]}])
    'Build 12\\nby <@U1>'
    """
    return "\n".join(line for block in dicts_of(blocks) for line in _lines(block) if line.strip())


def text_of_attachment(item: Mapping[str, Any]) -> str:
    """Return the markup of an attachment, or its fallback if it has none."""
    fields = (
        ": ".join(filter(None, (_markup_text(field.get("title")), _markup_text(field.get("value")))))
        for field in dicts_of(item.get("fields"))
    )
    texts = [_markup_text(item.get(name)) for name in ("pretext", "title", "text")]
    parts = [*texts, text_of_blocks(item.get("blocks")), *fields]
    return "\n".join(filter(None, parts)) or _markup_text(item.get("fallback"))


def with_shared_message(item: Mapping[str, Any]) -> str:
    """Return an attachment of a person's message: a shared message as a quotation, a link's title."""
    if item.get("is_share") or item.get("is_msg_unfurl"):
        author = text_of(item.get("author_name"))
        quoted = f"{author}: {text_of_attachment(item)}" if author else text_of_attachment(item)
        return "\n".join(f"> {line}" for line in quoted.splitlines())
    return f"[link {title}]" if (title := text_of(item.get("title"))) else ""


def text_of_file(file: Mapping[str, Any]) -> str:
    """Return the text written with a file, of an email or a snippet the text itself, and of speech Slack's transcript.

    >>> text_of_file({"initial_comment": {"comment": "see page 3"}, "transcription": {"preview": {"content": "hello"}}})
    'see page 3\\nhello'
    """
    comment = dict_of(file.get("initial_comment")).get("comment")
    spoken = dict_of(dict_of(file.get("transcription")).get("preview")).get("content")
    written = file.get("plain_text") or file.get("preview")
    return "\n".join(filter(None, map(text_of, (comment, written, spoken))))


# blocks of controls, of which what was chosen comes as an event
_CONTROLS = ("actions", "context_actions")


def _lines(block: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a block, or of whatever is nested in it; controls, which have an `action_id`, have none."""
    kind = str(block.get("type"))
    if kind in _CONTROLS or "action_id" in block:
        return
    elements = dicts_of(block.get("elements"))
    if kind in ("rich_text_section", "rich_text_quote", "rich_text_preformatted"):
        yield "".join(map(_inline, elements))
    elif kind == "context":
        yield " ".join(filter(None, map(_markup_text, elements)))
    elif kind in ("image", "video"):
        yield _markup_text(block.get("title")) or _markup_text(block.get("alt_text"))
        yield _markup_text(block.get("description"))
    else:
        for field, value in block.items():
            if field == "rows" and isinstance(value, list):
                yield from (" | ".join(map(_cell, dicts_of(row))) for row in value)
            elif isinstance(value, str):
                yield value.strip() if contents.is_written(field) else ""
            elif field != "accessory":
                for part in dicts_of(value if isinstance(value, list) else [value]):
                    yield from _lines(part)


def _cell(cell: Mapping[str, Any]) -> str:
    return " ".join(filter(None, _lines(cell))) or str(cell.get("value", ""))


def _inline(element: Mapping[str, Any]) -> str:
    if (template := _INLINE.get(str(element.get("type")))) is not None:
        return template.format_map(defaultdict(lambda: None, element))
    # spaces between its neighbours are its own
    text = element.get("text")
    if element.get("type") == "link":
        return f"<{element.get('url')}|{text}>" if text else f"<{element.get('url')}>"
    return text if isinstance(text, str) else ""


def _markup_text(raw: object) -> str:
    """Return a text, or what a text object holds."""
    value = raw.get("text") or raw.get("alt_text") if isinstance(raw, dict) else raw
    return text_of(value)
