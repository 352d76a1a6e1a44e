"""Convert Slack's markup, blocks and attachments to plain text."""

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.platforms.fields import dict_of, dicts_of, text_of

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


def plain(text: str, names: Mapping[str, str]) -> str:
    """Name people, write out links and decode entities; `names` is by user id.

    >>> plain("<@U1> see <https://a.b/c|the plan> &amp; <#C2|general> <!here>", {"U1": "Ana"})
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


def of_blocks(blocks: object) -> str:
    """Return the markup of blocks, a line for each of their parts.

    >>> of_blocks([{"type": "header", "text": {"type": "plain_text", "text": "Build 12"}},
    ...     {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
    ...         {"type": "text", "text": "by "}, {"type": "user", "user_id": "U1"}]}]}])
    'Build 12\\nby <@U1>'
    """
    return "\n".join(line for block in dicts_of(blocks) for line in _lines(block) if line.strip())


def of_attachment(item: Mapping[str, Any]) -> str:
    """Return the markup of an attachment, or its fallback if it has none."""
    fields = (
        ": ".join(filter(None, (_text(field.get("title")), _text(field.get("value")))))
        for field in dicts_of(item.get("fields"))
    )
    texts = [_text(item.get(name)) for name in ("pretext", "title", "text")]
    parts = [*texts, of_blocks(item.get("blocks")), *fields]
    return "\n".join(filter(None, parts)) or _text(item.get("fallback"))


def attached(item: Mapping[str, Any]) -> str:
    """Return an attachment of a person's message: a shared message as a quotation, a link's title."""
    if item.get("is_share") or item.get("is_msg_unfurl"):
        author = text_of(item.get("author_name"))
        quoted = f"{author}: {of_attachment(item)}" if author else of_attachment(item)
        return "\n".join(f"> {line}" for line in quoted.splitlines())
    return f"[link {title}]" if (title := text_of(item.get("title"))) else ""


def of_file(file: Mapping[str, Any]) -> str:
    """Return the text written with a file, and the beginning of Slack's transcript of it.

    >>> of_file({"initial_comment": {"comment": "see page 3"}, "transcription": {"preview": {"content": "hello"}}})
    'see page 3\\nhello'
    """
    comment = dict_of(file.get("initial_comment")).get("comment")
    spoken = dict_of(dict_of(file.get("transcription")).get("preview")).get("content")
    return "\n".join(filter(None, (text_of(comment), text_of(spoken))))


def _lines(block: Mapping[str, Any]) -> Iterator[str]:
    match block.get("type"):
        case "rich_text":
            for part in dicts_of(block.get("elements")):
                # a list has a section for each item
                points = dicts_of(part.get("elements")) if part.get("type") == "rich_text_list" else [part]
                yield from ("".join(map(_inline, dicts_of(point.get("elements")))) for point in points)
        case "context":
            yield " ".join(filter(None, map(_text, dicts_of(block.get("elements")))))
        case "image" | "video":
            yield _text(block.get("title")) or _text(block.get("alt_text"))
        case _:
            yield _text(block.get("text"))
            yield from map(_text, dicts_of(block.get("fields")))


def _inline(element: Mapping[str, Any]) -> str:
    if (template := _INLINE.get(str(element.get("type")))) is not None:
        return template.format_map(defaultdict(lambda: None, element))
    # spaces between its neighbours are its own
    text = element.get("text")
    if element.get("type") == "link":
        return f"<{element.get('url')}|{text}>" if text else f"<{element.get('url')}>"
    return text if isinstance(text, str) else ""


def _text(raw: object) -> str:
    """Return a text, or what a text object holds."""
    value = raw.get("text") or raw.get("alt_text") if isinstance(raw, dict) else raw
    return text_of(value)
