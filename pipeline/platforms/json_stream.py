"""Stream large JSON documents element by element, in the memory of one message."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import ijson  # type: ignore[import-untyped]
from ijson.common import ObjectBuilder  # type: ignore[import-untyped]

from pipeline.platforms.records import Broken


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


def walk(stream: IO[bytes], lists: Mapping[str, str]) -> Iterator[Element | Broken]:
    """Yield the elements of lists in order; `lists` maps their ijson paths, as `messages.item`, to the objects around.

    Never raises because of what the stream holds: a document that breaks off ends in `Broken`.
    """
    # its errors have no common root: a byte that is no UTF-8 is a UnicodeDecodeError in some backends
    try:
        yield from _walk(ijson.parse(stream), lists)
    except (ijson.JSONError, UnicodeDecodeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200] or "it is no JSON"
        lost = f"the file breaks off or is damaged here ({reason}); what comes after it is not read"
        yield Broken(where="the end of what could be read", reason=lost, breaks_off=True)


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
                if path.startswith(f"{around}." if around else ""):
                    header[path.removeprefix(f"{around}." if around else "")] = value


_SCALARS = frozenset(("string", "number", "boolean", "null"))
_CONTAINERS = {"start_map": "end_map", "start_array": "end_array"}
_BEGINNINGS = _SCALARS | _CONTAINERS.keys()


def _build(path: str, event: str, value: Any, events: Iterator[tuple[str, str, Any]]) -> Any:
    builder = ObjectBuilder()
    builder.event(event, value)
    end = _CONTAINERS[event]
    for inner_path, inner, inner_value in events:
        builder.event(inner, inner_value)
        if inner == end and inner_path == path:
            break
    return builder.value
