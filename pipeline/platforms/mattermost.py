"""Parse Mattermost's bulk export (JSON Lines); it names channels and people, and messages have no ids."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pipeline.platforms import contents, fields, jsonlines
from pipeline.platforms.fields import dict_of, dicts_of, text_of
from pipeline.platforms.identity import ImportIds
from pipeline.platforms.platform import ExportFormat, Shape
from pipeline.platforms.records import MAX_KIND_CHARS, ImportOptions, Notice, Parsed, Skipped, Unread

# lines that nobody wrote
_ABOUT = frozenset(
    "version role scheme team channel user bot emoji direct_channel custom_status profile_image".split()
)


def parse(lines: Iterable[str], options: ImportOptions) -> Iterator[Parsed]:
    """Parse channels and their messages."""
    if options.chat_id:
        yield Notice(text="The export names its channels itself; --chat is not used.")
    reader = _MattermostReader(replace(options, chat_id=None))
    yield from jsonlines.read_objects(lines, reader.read)


class _MattermostReader:
    def __init__(self, options: ImportOptions) -> None:
        self._reader = jsonlines.Reader(options)
        self._ids = ImportIds()
        # by username, and by team and channel
        self._names: dict[str, str] = {}
        self._bots: set[str] = set()
        self._channels: dict[str, str] = {}
        self._seen: set[str] = set()

    def read(self, raw: dict[str, Any], where: str) -> Iterator[Parsed]:
        kind = str(raw.get("type"))
        held = dict_of(raw.get(kind))
        user = fields.name_of(held.get("username"))
        match kind:
            case "user" | "bot":
                full = " ".join(
                    filter(None, (text_of(held.get("first_name")), text_of(held.get("last_name"))))
                )
                self._names[user] = fields.name_of(held.get("nickname"), full, held.get("display_name"), user)
                self._bots |= {user} if kind == "bot" or held.get("is_bot") is True else set()
            case "channel":
                key = f"{text_of(held.get('team'))}:{text_of(held.get('name'))}"
                self._channels[key] = fields.name_of(held.get("display_name"), held.get("name"))
            case "post":
                key = f"{text_of(held.get('team'))}:{text_of(held.get('channel'))}"
                title = f"#{self._channels.get(key) or key.partition(':')[2]}"
                yield from self._thread(held, where, key, title, grouped=True)
            case "direct_post":
                listed = held.get("channel_members")
                members = sorted(filter(None, map(text_of, listed if isinstance(listed, list) else ())))
                title = ", ".join(self._names.get(member, member) for member in members)
                yield from self._thread(held, where, ",".join(members), title, grouped=len(members) > 2)
            case _ if kind not in _ABOUT:
                yield Unread(where=where, platform="Mattermost", kind=kind[:MAX_KIND_CHARS], known=False)

    def _thread(
        self, raw: dict[str, Any], where: str, key: str, title: str, *, grouped: bool
    ) -> Iterator[Parsed]:
        chat_id = f"mattermost:{key}"
        if chat_id not in self._seen:
            self._seen.add(chat_id)
            yield from self._reader.read_chat(where, chat_id, "mattermost", title, grouped=grouped)
        root = self._id(raw, chat_id)
        yield from self._message(raw, where, chat_id, root, None)
        for number, reply in enumerate(dicts_of(raw.get("replies"))):
            own = self._id(reply, chat_id)
            yield from self._message(reply, f"{where}, replies[{number}]", chat_id, own, root)

    def _id(self, raw: dict[str, Any], chat_id: str) -> str:
        """Return an id that stays when the text is edited."""
        at = f"{raw.get('create_at')}"
        return text_of(raw.get("id")) or self._ids.names(f"{chat_id} {raw.get('user')}", at, "")[0]

    def _message(
        self, raw: dict[str, Any], where: str, chat_id: str, own_id: str, root: str | None
    ) -> Iterator[Parsed]:
        if str(raw.get("type") or "").startswith("system_") or raw.get("delete_at"):
            yield Skipped(
                where=where, reason="deleted message" if raw.get("delete_at") else "service message"
            )
            return
        user, props = fields.name_of(raw.get("user")), dict_of(raw.get("props"))
        cards = [contents.words(card, "text") for card in dicts_of(props.get("attachments"))]
        by_bot = user in self._bots or str(props.get("from_bot")).lower() == "true"
        edited = raw.get("edit_at") or None
        yield from self._reader.read_message(
            where,
            text="\n".join(filter(None, [text_of(raw.get("message")), *cards])),
            media=fields.file_attachments([file.get("path") for file in dicts_of(raw.get("attachments"))]),
            metadata={"edited_at": str(edited)} if edited else {},
            chat_id=chat_id,
            external_id=own_id,
            sender_id=user and f"mattermost:{user}",
            sender_name=fields.name_of(props.get("override_username"), self._names.get(user), user),
            role="assistant" if by_bot else "user",
            sent_at=raw.get("create_at"),
            reply_to=root,
            thread=root,
        )


FORMAT = ExportFormat(
    name="mattermost",
    of_lines=parse,
    looks=(
        Shape(keys={"": "type post|direct_post"}, head=r'\A\{"type":\s*"'),
        Shape(keys={"": "type version"}, head=r'\A\{"type":\s*"version"'),
    ),
)
