"""Parse the exports of ChatGPT and of Claude (`conversations.json`), each conversation a chat with an assistant.

A conversation is a tree, since people edit and answers are made again: of it the branch is read that was shown last.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import IO, Any

from pipeline.platforms import fields, json_stream, jsonlines, kinds
from pipeline.platforms.fields import dict_of, dicts_of, text_of
from pipeline.platforms.platform import ExportFormat, Shape
from pipeline.platforms.records import Broken, ImportOptions, Notice, Parsed, Skipped

_CHATGPT, _CLAUDE = kinds.load("chatgpt"), kinds.load("claude")
_OTHER_BRANCH = "message of another branch"


def parse(stream: IO[bytes], options: ImportOptions, platform: str) -> Iterator[Parsed]:
    """Parse conversations and their messages."""
    if options.chat_id:
        yield Notice(text="The export names its conversations itself; --chat is not used.")
    reader = jsonlines.Reader(replace(options, chat_id=None))
    read = _chatgpt if platform == "chatgpt" else _claude
    for item in json_stream.walk(stream, {"item": ""}):
        if isinstance(item, Broken):
            yield item
            continue
        raw, where = item.value, f"[{item.index}]"
        key = fields.name_of(*(dict_of(raw).get(name) for name in ("conversation_id", "uuid", "id")))
        if not key:
            yield Broken(where=where, reason="is no conversation with an id")
            continue
        title = fields.name_of(raw.get("title"), raw.get("name"))
        yield from reader.read_chat(where, f"{platform}:{key}", platform, title, grouped=False)
        yield from read(raw, where, reader)


def _branch(nodes: Mapping[str, dict[str, Any]], leaf: str, parent: str) -> list[str]:
    """Return the ids from the root to a leaf."""
    path: dict[str, None] = {}
    while leaf in nodes and leaf not in path:
        path[leaf] = None
        leaf = str(nodes[leaf].get(parent))
    return list(path)[::-1]


def _chatgpt(raw: dict[str, Any], where: str, reader: jsonlines.Reader) -> Iterator[Parsed]:
    nodes = {key: node for key, node in dict_of(raw.get("mapping")).items() if isinstance(node, dict)}
    leaves = [key for key, node in nodes.items() if not node.get("children")]
    leaf = str(raw.get("current_node"))
    if leaf not in nodes and leaves:
        leaf = max(leaves, key=lambda key: _number(dict_of(nodes[key], "message").get("create_time")))
    branch = _branch(nodes, leaf, "parent")
    at = raw.get("create_time")
    for key in [*branch, *(key for key in nodes if key not in branch)]:
        message, place = dict_of(nodes[key].get("message")), f"{where}.mapping.{key}"
        if not message:
            # the root
            continue
        role, content = dict_of(message.get("author")).get("role"), dict_of(message.get("content"))
        about = dict_of(message.get("metadata"))
        kind = str(content.get("content_type", "text"))
        if about.get("is_visually_hidden_from_conversation") or role not in ("user", "assistant"):
            kind = "system"
        elif role == "assistant" and message.get("recipient", "all") != "all":
            kind = "call"
        if key not in branch:
            if _CHATGPT.fates.get(kind) != "service":
                yield Skipped(where=place, reason=_OTHER_BRANCH)
            continue
        at = message.get("create_time") or at
        parts = content.get("parts") if isinstance(content.get("parts"), list) else [content]
        media = [fields.attachment(found, "") for part in dicts_of(parts) if (found := _pointed_at(part))]
        files = [file.get("name") or file.get("mime_type") for file in dicts_of(about.get("attachments"))]
        texts = [
            part if isinstance(part, str) else text_of(dict_of(part).get("text")) for part in parts or ()
        ]
        read = reader.read_message(
            place,
            text="\n".join(filter(None, (text.strip() for text in texts))),
            media=fields.file_attachments(files) or media,
            external_id=str(message.get("id") or key),
            sent_at=at,
            **_speaker("chatgpt", role == "user", "user", "ChatGPT"),
        )
        yield from _CHATGPT.read(place, kind, read)


def _pointed_at(part: dict[str, Any]) -> str | None:
    """Return what a part of a message is, as `audio_asset_pointer` and its kin."""
    named, _, rest = str(part.get("content_type")).partition("_asset_pointer")
    kinds_of = {"image": "image", "audio": "audio", "real_time_user_audio_video": "audio", "video": "video"}
    return kinds_of.get(named) if rest == "" else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float | Decimal) else float("-inf")


def _claude(raw: dict[str, Any], where: str, reader: jsonlines.Reader) -> Iterator[Parsed]:
    messages = {str(message.get("uuid")): message for message in dicts_of(raw.get("chat_messages"))}
    parent = "parent_message_uuid"
    branched = any(str(message.get(parent)) in messages for message in messages.values())
    leaf = str(raw.get("current_leaf_message_uuid") or next(reversed(messages), ""))
    shown = _branch(messages, leaf, parent) if branched else list(messages)
    account = fields.name_of(dict_of(raw.get("account")).get("uuid")) or "user"
    for number, (key, message) in enumerate(messages.items()):
        place = f"{where}.chat_messages[{number}]"
        if key not in shown:
            yield Skipped(where=place, reason=_OTHER_BRANCH)
            continue
        blocks = dicts_of(message.get("content"))
        for block in blocks:
            reported = _CLAUDE.report(place, str(block.get("type")))
            yield from [reported] if reported and not isinstance(reported, Skipped) else []
        said = (block for block in blocks if _CLAUDE.fates.get(str(block.get("type"))) in (None, "text"))
        texts = [text_of(block.get("text")) for block in said] if blocks else [text_of(message.get("text"))]
        attached = dicts_of(message.get("attachments"))
        # what was pasted and is long has no file's name
        texts += [text_of(file.get("extracted_content")) for file in attached if not file.get("file_name")]
        files = [
            file["file_name"]
            for file in (*attached, *dicts_of(message.get("files")))
            if file.get("file_name")
        ]
        yield from reader.read_message(
            place,
            text="\n".join(filter(None, texts)),
            media=fields.file_attachments(files),
            external_id=key,
            sent_at=message.get("created_at"),
            **_speaker("claude", message.get("sender") != "assistant", account, "Claude"),
        )


def _speaker(platform: str, by_user: bool, user: str, name: str) -> dict[str, str]:
    if by_user:
        return {"sender_id": f"{platform}:{user}", "sender_name": "Me", "role": "user"}
    return {"sender_id": f"{platform}:assistant", "sender_name": name, "role": "assistant"}


FORMATS = (
    ExportFormat(
        name="chatgpt",
        of_bytes=partial(parse, platform="chatgpt"),
        # large exports come in parts, conversations-000.json and so on
        several=True,
        looks=(Shape(keys={"item": "mapping"}, head=r"\A\["),),
        left_out=r"(?:^|/)(?:message_feedback|model_comparisons|shared_conversations|group_chats|sora)\.json$",
    ),
    ExportFormat(
        name="claude",
        of_bytes=partial(parse, platform="claude"),
        several=True,
        looks=(Shape(keys={"item": "chat_messages uuid"}),),
        left_out=r"(?:^|/)(?:projects(?:/[^/]+)?|memories)\.json$",
    ),
)
