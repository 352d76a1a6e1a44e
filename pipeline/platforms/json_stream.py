"""Stream large JSON documents element by element, in the memory of one message."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import IO, Any

import ijson  # type: ignore[import-untyped]
from ijson.common import ObjectBuilder  # type: ignore[import-untyped]

from pipeline.platforms.records import Broken


@dataclass(frozen=True, slots=True)
class Element:
    """One whole element of a requested list."""

    # ijson's path of the list's elements, `messages.item`
    path: str
    # from 0, within its list
    index: int
    value: Any


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, number or truth value outside the lists."""

    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Opened:
    """The beginning of an object outside the lists."""

    path: str


def walk(stream: IO[bytes], lists: Collection[str]) -> Iterator[Element | Scalar | Opened | Broken]:
    """Yield the elements of the lists (ijson paths such as `messages.item`) and what is around them, in order.

    Never raises because of what the stream holds: a document that breaks off ends in `Broken`.
    """
    # its errors have no common root: a byte that is no UTF-8 is a UnicodeDecodeError in some backends
    try:
        yield from _walk(ijson.parse(stream), frozenset(lists))
    except (ijson.JSONError, UnicodeDecodeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200] or "it is no JSON"
        lost = f"the file breaks off or is damaged here ({reason}); what comes after it is not read"
        yield Broken(where="the end of what could be read", reason=lost, breaks_off=True)


def _walk(
    events: Iterator[tuple[str, str, Any]], lists: frozenset[str]
) -> Iterator[Element | Scalar | Opened]:
    indexes = dict.fromkeys(lists, 0)
    # an element's list begins again with every object around it: `chats.list.item.messages` in each chat
    list_of = {path.removesuffix(".item"): path for path in lists}
    for path, event, value in events:
        if event == "start_array" and path in list_of:
            indexes[list_of[path]] = 0
        elif path in lists and event in _BEGINNINGS:
            built = _build(path, event, value, events) if event in _CONTAINERS else value
            yield Element(path=path, index=indexes[path], value=built)
            indexes[path] += 1
        elif event in _SCALARS:
            yield Scalar(path=path, value=value)
        elif event == "start_map":
            yield Opened(path=path)


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
