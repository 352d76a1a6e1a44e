"""Messages of several parts, as chat models take and give them: the words in them, and the parts without files."""

import json
import re
from collections.abc import Mapping
from typing import Any

MAX_WHOLE_CHARS = 12_000
"""Of a message's parts as JSON, which are its metadata; of longer ones only the words are stored."""
_FILES = (
    ("picture", re.compile("image|picture|photo|screenshot", re.IGNORECASE)),
    ("audio", re.compile("audio|voice", re.IGNORECASE)),
    ("video", re.compile("video", re.IGNORECASE)),
    ("file", re.compile("file|document|media|data|blob", re.IGNORECASE)),
)
_CAPTIONS = ("transcript", "caption", "alt_text", "alt", "title", "filename", "file_name")
_GENERATED = re.compile("image_generation")
_UNSAID = re.compile("reason|thinking|tool|call|function|compaction", re.IGNORECASE)
_DATA_URL = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_=-]{256,}\Z")
_DATA_KEYS = {"data", "base64", "bytes", "file_data", "result"}


def words(content: Any) -> str:
    """Return what is said in a message: its texts, and a word in brackets for each file, with its caption.

    >>> words([{"type": "text", "text": "this"}, {"type": "image_url", "image_url": {"url": "data:…"}}])
    'this [picture]'
    >>> words([{"type": "text", "text": {"value": "هذا"}}, {"type": "input_audio", "transcript": "غدا؟"}])
    'هذا [audio] غدا؟'
    """
    parts = content if isinstance(content, list) else [content]
    said = ""
    for part in parts:
        text, is_file = _said(part)
        said += f"{' ' if said and is_file and not said[-1].isspace() else ''}{text}"
        said += " " if is_file else ""
    return said if isinstance(content, str) else said.strip()


def are_of(text: str, content: Any) -> bool:
    """Tell whether a stored text is the words of this content, and not edited since."""
    return "".join(words(content).split()) == "".join(text.split())


def without_data(value: Any, text_type: str = "text") -> Any:
    """Return a JSON value with words in the place of the parts that hold the bytes of a file.

    Other long values, such as the signatures of thoughts, are the model's and stay.
    """
    if isinstance(value, bytes) or (isinstance(value, str) and _DATA_URL.match(value)):
        return "[file]"
    if isinstance(value, list):
        return [
            {"type": text_type, "text": _said(part)[0]}
            if _said(part)[1] and _holds_data(part)
            else without_data(part, text_type)
            for part in value
        ]
    if isinstance(value, dict):
        return {key: without_data(inner, text_type) for key, inner in value.items()}
    return value


def whole(value: Any, content: Any) -> str | None:
    """Return a message as JSON, to be stored beside the words of its content; None: there is no more, or too much."""
    if isinstance(content, str):
        return None
    written = json.dumps(value)
    return written if len(written) <= MAX_WHOLE_CHARS else None


def _said(part: Any) -> tuple[str, bool]:
    """Return the words of a part, and whether they stand for a file."""
    if isinstance(part, str):
        return part, False
    if not isinstance(part, Mapping):
        return "", False
    kind = str(part.get("type") or "")
    if _UNSAID.search(kind) and not _GENERATED.search(kind):
        return "", False
    for said in (part.get("text"), part.get("refusal")):
        # in threads of assistants it stands one deeper
        text = said.get("value") if isinstance(said, Mapping) else said
        if isinstance(text, str):
            return text, False
    within = [part, *(inner for inner in part.values() if isinstance(inner, Mapping))]
    mime = [inner.get(key) for inner in within for key in ("mime_type", "media_type", "mimetype")]
    named = (*filter(None, mime), kind, " ".join(map(str, part)))
    label = next((label for name in named for label, pattern in _FILES if pattern.search(str(name))), kind)
    given = [inner.get(key) for inner in within for key in _CAPTIONS]
    caption = next((text for text in given if isinstance(text, str) and text.strip()), "")
    return (f"[{label}] {caption}".strip(), True) if label else ("", False)


def _holds_data(value: Any, key: str = "") -> bool:
    if isinstance(value, Mapping):
        return any(_holds_data(inner, str(key)) for key, inner in value.items())
    if isinstance(value, list):
        return any(map(_holds_data, value))
    if isinstance(value, str):
        is_data = key in _DATA_KEYS or _BASE64.match(value) is not None
        return bool(value) and (is_data or _DATA_URL.match(value) is not None)
    return isinstance(value, bytes)
