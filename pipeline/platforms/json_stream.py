"""Stream large JSON documents element by element, in the memory of one message."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import ijson  # type: ignore[import-untyped]
from ijson.common import ObjectBuilder  # type: ignore[import-untyped]

from pipeline.platforms.records import Broken

# Of one element: some 40 MB, where a message has some 50 values. Rich texts have some 100 objects inside each other.
MAX_VALUES = 200_000
MAX_DEPTH = 128
MAX_PATH_CHARS = 10_000
# events are made for as much at once, each with its path: some 160 MB of paths at worst
BUFFER_BYTES = 8192
# of one text: a file's name, or the longest message, escaped; a longer one would be scanned again and again
MAX_UNQUOTED_BYTES = 1000
MAX_TOKEN_BYTES = 512 * 1024
# of the object around a list: its name, its type and such
MAX_HEADER_VALUES = 1000
MAX_HEADER_CHARS = 2000

# Telegram Desktop's own: `\x0C` for control characters, and in 4.1 a file name without quotes
_CONTROL = re.compile(rb"(?<!\\)((?:\\\\)*)\\x([0-9A-Fa-f]{2})")
_UNQUOTED = re.compile(rb'("document_id": )([^"\s\[{][^"\n,}\]]*)')


@dataclass(frozen=True, slots=True)
class Element:
    """One whole element of a requested list."""

    # the path of the object around the list, empty for the document's own
    around: str
    # the texts, numbers and truth values before it in that object, by their path inside it; the same for all elements
    header: Mapping[str, Any]
    # from 0, within its list
    index: int
    value: Any


def walk(stream: IO[bytes], lists: Mapping[str, str], *, several: bool = False) -> Iterator[Element | Broken]:
    """Yield the elements of lists in order; `lists` maps their ijson paths, as `messages.item`, to the objects around.

    With `several` the stream may hold documents one after the other, of which the path is empty.

    Never raises because of what the stream holds: a document that breaks off ends in `Broken`.
    """
    # its errors have no common root: a byte that is no UTF-8 is a UnicodeDecodeError in some backends
    try:
        below = _Mended(stream)
        yield from _walk(
            _bounded(ijson.parse(below, buf_size=BUFFER_BYTES, multiple_values=several), below), lists
        )
    except (ijson.JSONError, UnicodeDecodeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200] or "it is no JSON"
        lost = f"the file breaks off or is damaged here ({reason}); what comes after it is not read"
        yield Broken(where="the end of what could be read", reason=lost, breaks_off=True)


def keys(stream: IO[bytes]) -> dict[str, set[str]]:
    """Return the keys of the objects in a stream of JSON values by their paths, up to where it breaks off."""
    found: dict[str, set[str]] = {}
    # what breaks off, or is no JSON at all, has no more of them
    with suppress(ijson.JSONError, UnicodeDecodeError, ValueError, OverflowError):
        below = _Mended(stream)
        events = ijson.parse(below, buf_size=BUFFER_BYTES, multiple_values=True)
        for path, event, value in _bounded(events, below):
            if event == "map_key":
                found.setdefault(path, set()).add(value)
    return found


class _Mended:
    """A stream that repairs Telegram Desktop's output into JSON."""

    def __init__(self, below: IO[bytes]) -> None:
        self._below = below
        self._held = b""
        # bytes since the last token was whole
        self.pending = 0

    def read(self, size: int) -> bytes:
        """Return some bytes, none only at the end. Raises `ValueError` if one token has too many."""
        end, raw = 0, b" "
        while size and not end and raw:
            raw = self._below.read(size)
            self.pending += len(raw)
            if self.pending > MAX_TOKEN_BYTES:
                raise ValueError(f"a text or name is longer than {MAX_TOKEN_BYTES} bytes")
            chunk = self._held + raw
            # read to the line's end, so that no text to repair is cut in two
            end = chunk.rfind(b"\n") + 1
            if not end and len(chunk) > MAX_UNQUOTED_BYTES:
                end = len(chunk.rstrip(b"\\x0123456789abcdefABCDEF"))
            end = end if raw else len(chunk)
            self._held, chunk = chunk[end:], chunk[:end]
        return _UNQUOTED.sub(rb'\1"\2"', _CONTROL.sub(rb"\1\\u00\2", chunk)) if size else b""


def _bounded(events: Iterator[tuple[str, str, Any]], below: _Mended) -> Iterator[tuple[str, str, Any]]:
    depth = 0
    for event in events:
        below.pending = 0
        depth += (event[1] in _CONTAINERS) - (event[1] in _ENDS)
        if depth > MAX_DEPTH or len(event[0]) > MAX_PATH_CHARS:
            raise ValueError(f"more than {MAX_DEPTH} objects and lists inside each other, or very long names")
        yield event


def _walk(events: Iterator[tuple[str, str, Any]], lists: Mapping[str, str]) -> Iterator[Element]:
    indexes = dict.fromkeys(lists, 0)
    headers: dict[str, dict[str, Any]] = {around: {} for around in lists.values()}
    # an element's list begins again with every object around it: `chats.list.item.messages` in each chat
    list_of = {path.removesuffix(".item"): path for path in lists}
    for path, event, value in events:
        if event == "start_array" and path in list_of:
            indexes[list_of[path]] = 0
        elif path in lists and event in _BEGINNINGS:
            built = _build(path, event, value, events) if event in _CONTAINERS else value
            around = lists[path]
            yield Element(around=around, header=headers[around], index=indexes[path], value=built)
            indexes[path] += 1
        elif event == "start_map" and path in headers:
            headers[path] = {}
        elif event in _SCALARS:
            for around, header in headers.items():
                inside = path.startswith(f"{around}." if around else "")
                if inside and len(header) < MAX_HEADER_VALUES and len(str(value)) < MAX_HEADER_CHARS:
                    header[path.removeprefix(f"{around}." if around else "")] = value


_SCALARS = frozenset(("string", "number", "boolean", "null"))
_CONTAINERS = {"start_map": "end_map", "start_array": "end_array"}
_ENDS = frozenset(_CONTAINERS.values())
_BEGINNINGS = _SCALARS | _CONTAINERS.keys()


def _build(path: str, event: str, value: Any, events: Iterator[tuple[str, str, Any]]) -> Any:
    builder = ObjectBuilder()
    builder.event(event, value)
    end = _CONTAINERS[event]
    for count, (inner_path, inner, inner_value) in enumerate(events):
        if count > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values in {path}")
        builder.event(inner, inner_value)
        if inner == end and inner_path == path:
            break
    return builder.value
